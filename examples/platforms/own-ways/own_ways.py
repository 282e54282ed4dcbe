#!/usr/bin/env python3
"""A platform that moves everything by itself: nothing is shared with what runs trials.

    trainingService:
      platform: executable
      executable: ./own_ways.py

What runs trials is a directory of this machine here, as short as it can be. Take it for
the service that you have: each function is one or two calls to it. The rules are in
docs/writing-a-platform.md.
"""

import datetime
import json
import os
import shutil
import signal
import subprocess
import sys
import time

# Started beside each command: it waits, and writes down how that ended.
KEEPER = """
import json, subprocess, sys, time
code = subprocess.call(["sh", "-c", sys.argv[1]])
open("end.new", "w").write(json.dumps({"code": code, "ended": time.time()}))
import os; os.rename("end.new", "end")
"""


def place(request, run):
    return os.path.join(request["state"], run["name"])


def describe(request):
    return {"protocol": 1, "pollInterval": 1, "verbs": ["logs", "cleanUp"]}


def submit(request):
    """Starts a run, or finds the one that was started before."""
    directory, job = place(request, request), request["job"]
    try:
        os.makedirs(os.path.join(directory, "claimed"))  # one alone can make it
    except FileExistsError:
        return {"data": {"place": directory}}
    shutil.copytree(job["codeDirectory"], os.path.join(directory, "code"))
    for name, content in ("parameter.cfg", job["parameter"]), ("parameters.json", json.dumps(job["parameters"])):
        with open(os.path.join(directory, name), "w") as file:
            file.write(content)
    variables = dict(os.environ, **job["variables"])
    variables.update(NNI_SYS_DIR=directory, NNI_OUTPUT_DIR=directory, NNI_CODE_DIR=directory + "/code",
                     PERENNIAL_PARAMETERS=directory + "/parameters.json", PERENNIAL_OUTPUT_DIR=directory)
    command = "cd code && { %s\n} >../stdout 2>../stderr" % job["command"]
    keeper = subprocess.Popen([sys.executable, "-c", KEEPER, command], cwd=directory, env=variables, start_new_session=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    write(os.path.join(directory, "pid"), str(keeper.pid))
    return {"data": {"place": directory}}


def write(path, text):
    with open(path + ".new", "w") as file:
        file.write(text)
    os.rename(path + ".new", path)


def read(path):
    try:
        with open(path) as file:
            return file.read()
    except FileNotFoundError:
        return ""


def poll(request):
    return {"reports": [report(place(request, run), run["after"]) for run in request["runs"]]}


def report(directory, after):
    end, pid = read(os.path.join(directory, "end")), read(os.path.join(directory, "pid"))
    told = {"phase": "gone", "reason": "it is not there any more"}
    if not os.path.isdir(directory):
        told = {"phase": "gone", "reason": "nobody submitted it"}
    elif end:
        code = json.loads(end)["code"]
        told = {"phase": "exited", "exit": {"code": code if code >= 0 else 128 - code}, "ended": stamp(json.loads(end)["ended"]),
                "started": began(directory)}
    elif pid and os.path.exists("/proc/" + pid):
        told = {"phase": "running", "started": began(directory)}
    elif not pid:
        told.update(phase="waiting", reason="its code is being copied")
    records = metrics(directory, bool(end))
    told.update(host=os.uname().nodename, records=records[int(after or 0):], next=str(len(records)))
    return told


def began(directory):
    return stamp(os.path.getmtime(os.path.join(directory, "claimed")))


def stamp(seconds):
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).isoformat()


def metrics(directory, ended):
    """Returns what the trial has reported, numbered from 1; of its last line only when that is whole."""
    lines = read(os.path.join(directory, "stdout")).split("\n")
    records, step = [], 0
    for line in lines if ended else lines[:-1]:
        for words, kind in ("perennial: intermediate ", "PERIODICAL"), ("perennial: final ", "FINAL"):
            if line.startswith(words):
                records.append({"number": len(records) + 1, "kind": kind, "step": step, "value": line[len(words):],
                                "time": began(directory)})
                step += kind == "PERIODICAL"
    return records


def cancel(request):
    pid = read(os.path.join(place(request, request), "pid"))
    if pid and not read(os.path.join(place(request, request), "end")):
        try:
            os.killpg(int(pid), signal.SIGKILL)
        except ProcessLookupError:
            pass
        write(os.path.join(place(request, request), "end"), json.dumps({"code": 137, "ended": time.time()}))
    return {}


def logs(request):
    return {"text": read(os.path.join(place(request, request), request["stream"]))[request["from"]:]}


def cleanUp(request):
    """Removes what nobody needs any more; who asks about a run is still answered."""
    for run in os.listdir(request["state"]):
        shutil.rmtree(os.path.join(request["state"], run, "code"), ignore_errors=True)
    return {}


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](json.load(sys.stdin))))
