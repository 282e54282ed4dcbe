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
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

NOBODY = "none"  # in the place of a process: the run was cancelled before it started


def place(request, run):
    return os.path.join(request["state"], run["name"])


def describe(request):
    return {"protocol": 1, "pollInterval": 1, "verbs": ["logs", "cleanUp"]}


def submit(request):
    """Starts a run, or finds the one that was started before. It may die anywhere: the next submit goes on."""
    directory, job = place(request, request), request["job"]
    if keeper_of(directory):
        return {"data": {"place": directory}}
    os.makedirs(directory, exist_ok=True)
    copy_code(job["codeDirectory"], directory)
    write(os.path.join(directory, "parameter.cfg"), job["parameter"])
    write(os.path.join(directory, "parameters.json"), json.dumps(job["parameters"]))
    variables = dict(os.environ, **job["variables"])
    variables.update(NNI_SYS_DIR=directory, NNI_OUTPUT_DIR=directory, NNI_CODE_DIR=directory + "/code",
                     PERENNIAL_PARAMETERS=directory + "/parameters.json", PERENNIAL_OUTPUT_DIR=directory)
    command = "cd code && { %s\n} >../stdout 2>../stderr" % job["command"]
    subprocess.Popen([sys.executable, os.path.abspath(__file__), "keep", command], cwd=directory, env=variables, start_new_session=True,
                     stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return {"data": {"place": directory}}


def copy_code(source, directory):
    """The code is there whole or not at all, also where two copy it at once."""
    copy = tempfile.mkdtemp(prefix="copying-", dir=directory)
    shutil.copytree(source, os.path.join(copy, "code"))
    try:
        os.rename(os.path.join(copy, "code"), os.path.join(directory, "code"))
    except OSError:
        if not os.path.isdir(os.path.join(directory, "code")):
            raise
    shutil.rmtree(copy)


def keep(command):
    """Is started beside each command: waits, and writes down how that ended. One alone can make the link, so a second
    one that is started for a run does nothing."""
    os.symlink(process("self"), "keeper")
    code = subprocess.call(["sh", "-c", command])
    write("end", json.dumps({"code": code, "ended": time.time()}))


def process(pid):
    """What names a process for ever: its pid, when it began, and since which boot. A pid alone is soon another's."""
    with open("/proc/%s/stat" % pid) as stat, open("/proc/sys/kernel/random/boot_id") as boot:
        fields = stat.read()
        return "%s %s %s" % (fields.split()[0], fields.rpartition(")")[2].split()[19], boot.read().strip())


def keeper_of(directory):
    """The process that is a run's keeper, empty where none has started."""
    try:
        return os.readlink(os.path.join(directory, "keeper"))
    except FileNotFoundError:
        return ""


def lives(keeper):
    try:
        return keeper not in ("", NOBODY) and process(keeper.split()[0]) == keeper
    except (FileNotFoundError, ProcessLookupError):
        return False


def write(path, text):
    new = "%s.%d" % (path, os.getpid())
    with open(new, "w") as file:
        file.write(text)
    os.rename(new, path)


def read(path):
    try:
        with open(path) as file:
            return file.read()
    except FileNotFoundError:
        return ""


def poll(request):
    return {"reports": [report(place(request, run), run["after"]) for run in request["runs"]]}


def report(directory, after):
    keeper, end = keeper_of(directory), read(os.path.join(directory, "end"))
    told = {"phase": "gone", "reason": "it is not there any more"}
    if not os.path.isdir(directory):
        told = {"phase": "gone", "reason": "nobody submitted it"}
    elif end:
        code = json.loads(end)["code"]
        told = {"phase": "exited", "exit": {"code": code if code >= 0 else 128 - code}, "ended": stamp(json.loads(end)["ended"]),
                "started": began(directory)}
    elif lives(keeper):
        told = {"phase": "running", "started": began(directory)}
    elif not keeper:
        told.update(phase="waiting", reason="its code is being copied")
    records = metrics(directory, bool(end))
    told.update(host=os.uname().nodename, records=records[int(after or 0):], next=str(len(records)))
    return told


def began(directory):
    return stamp(os.lstat(os.path.join(directory, "keeper")).st_mtime)


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
    directory = place(request, request)
    os.makedirs(directory, exist_ok=True)
    try:
        os.symlink(NOBODY, os.path.join(directory, "keeper"))  # what has not started never does
    except FileExistsError:
        pass
    if read(os.path.join(directory, "end")):
        return {}
    if lives(keeper_of(directory)):
        os.killpg(int(keeper_of(directory).split()[0]), signal.SIGKILL)
    write(os.path.join(directory, "end"), json.dumps({"code": 137, "ended": time.time()}))
    return {}


def logs(request):
    return {"text": read(os.path.join(place(request, request), request["stream"]))[request["from"]:]}


def cleanUp(request):
    """Removes what nobody needs any more; who asks about a run is still answered."""
    for run in os.listdir(request["state"]):
        for copy in glob.glob(os.path.join(glob.escape(request["state"]), run, "copying-*")) + [os.path.join(request["state"], run, "code")]:
            shutil.rmtree(copy, ignore_errors=True)
    return {}


if __name__ == "__main__":
    if sys.argv[1] == "keep":
        sys.exit(keep(sys.argv[2]))
    print(json.dumps(globals()[sys.argv[1]](json.load(sys.stdin))))
