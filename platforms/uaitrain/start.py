# What a job of UAI-Train runs first. The service puts a Python interpreter in front of a
# job's command, and arguments of its own behind it: so this is a Python file, for Python
# 2.7 and 3, and is told how many of its arguments are the runner's command.
from __future__ import print_function

import json
import os
import shutil
import socket
import subprocess
import sys
import time

LOOK = 0.5  # seconds between two looks at the node that decides


def place():
    """The node's name among those of the job, and which of them decide: "this" alone,
    "another", or "first" of those that say so."""
    try:
        config = json.loads(os.environ["TF_CONFIG"])
        kind, index = str(config["task"]["type"]), int(config["task"]["index"])
    except (KeyError, ValueError, TypeError):
        role = os.environ.get("DMLC_ROLE", "worker")
        name = "-".join((role, socket.gethostname(), str(os.getpid())))
        return name, "first" if role == "worker" else "another"
    chiefs = [chief for chief in ("chief", "master") if config.get("cluster", {}).get(chief)]
    first = kind == (chiefs + ["worker"])[0] and index == 0
    return kind + "-" + str(index), "this" if first else "another"


def decides(run):
    """Whether this is the node that made the mark, of all that ever tried."""
    try:
        os.mkdir(os.path.join(run, "first-node"))
        return True
    except OSError:
        return False


def follow(command, run, name):
    """Runs the trial's command as one of the others, until the first node is over."""
    node = os.path.join(run, "nodes", name)
    own = os.path.join(node, "attempt")
    if not os.path.isdir(own):
        os.makedirs(own)
    with open(os.path.join(run, "job.json")) as file:
        spec = json.load(file)
    code = os.path.join(own, "code")
    if not os.path.isdir(code):
        shutil.copytree(os.path.join(run, "code"), code, symlinks=True)
    spec["directories"] = {"System": own, "Output": own, "Code": code}
    with open(os.path.join(own, "job.json"), "w") as file:
        json.dump(spec, file)
    for parameters in ("parameter.cfg", "parameters.json"):
        shutil.copy(os.path.join(run, parameters), own)
    runner = subprocess.Popen(command[:-1] + [own])
    while not over(run):
        if runner.poll() is not None and over(own):
            return runner.returncode
        time.sleep(LOOK)
    subprocess.call([command[0], "end", node, "superseded"])
    return runner.wait()


def over(run):
    os.listdir(run)  # a network file system looks anew
    return os.path.exists(os.path.join(run, "exit.json"))


def main():
    count = int(sys.argv[1])
    command = sys.argv[2:2 + count]
    run, nodes = command[-1], int(sys.argv[2 + count])
    sys.stdout.flush()
    if nodes > 1:
        name, who = place()
        first = who != "another" and decides(run)
        if who == "this" and not first:
            return "this trial was begun before, by another job"
        if not first:
            return follow(command, run, name)
    os.execv(command[0], command)


sys.exit(main())
