# What a job of UAI-Train runs first. The service puts a Python interpreter in front of a
# job's command, and arguments of its own behind it: so this is a Python file, for Python
# 2.7 and 3, and is told how many of its arguments are the runner's command.
from __future__ import print_function

import json
import os
import shutil
import subprocess
import sys
import time

LOOK = 0.5  # seconds between two looks at the node that decides


def place():
    """The node's name among those of the job, and whether it may decide; None: unknown."""
    try:
        task = json.loads(os.environ["TF_CONFIG"])["task"]
        kind, index = str(task["type"]), int(task["index"])
    except (KeyError, ValueError, TypeError):
        kind, index = os.environ.get("DMLC_ROLE", ""), os.environ.get("DMLC_WORKER_ID", "")
        if kind:
            return kind + "-" + str(index or os.getpid()), kind == "worker" and index in ("", "0")
        return None, True
    cluster = json.loads(os.environ["TF_CONFIG"]).get("cluster", {})
    chiefs = [name for name in ("chief", "master") if cluster.get(name)]
    first = chiefs[0] if chiefs else "worker"
    return kind + "-" + str(index), kind == first and index == 0


def decides(run, may):
    """Whether this node runs the trial that counts: one of those that may, for ever."""
    if not may:
        return False
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
        name, may = place()
        if not decides(run, may):
            return follow(command, run, name or "node-" + str(os.getpid()))
    os.execv(command[0], command)


sys.exit(main())
