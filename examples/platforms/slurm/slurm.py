#!/usr/bin/env python3
"""Runs trials on Slurm, as a platform of Perennial. Python 3.6 or newer, nothing else.

    trainingService:
      platform: executable
      executable: ./slurm.py
      options:
        directory: /home/ada/perennial   # seen by this machine and by all nodes
        partition: gpu                   # the other keys may be left out
        account: vision
        qos: normal
        time: "4:00:00"                  # as sbatch takes it; maxTrialDuration by default
        cpus: 4
        memory: 16G
        gres: gpu:a100                   # a GPU's kind; how many is trialGpuNumber
        constraint: ib
        setup: module load cuda          # shell, run before each trial
        sbatch: [--mail-type=FAIL]       # anything else that sbatch takes
        poll: 5                          # seconds between two looks at the queue

A job has the name of its run, so a run is found again whatever was lost. It is never
requeued: Perennial begins a new attempt, which a person can see. And should Slurm start
one twice all the same, as a slurmctld does that lost its last seconds, the second start
finds the first one's mark in the run's directory and does nothing. A job that somebody
requeued and that still waits when its experiment is over is taken out of the queue.
"""

import json
import os
import shlex
import subprocess
import sys

INVALID, EXHAUSTED, TRY_AGAIN, DENIED = 65, 69, 75, 77  # exit codes that say whose failure it was

KEYS = {"directory", "partition", "account", "qos", "time", "cpus", "memory", "gres", "constraint", "setup", "sbatch", "poll"}

WAITING = {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT"}
RUNNING = {"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT"}

# What squeue says of a job that waits, in words; the rest is shown as it is.
REASONS = {
    "None": "was just submitted, and Slurm has not looked at it yet",
    "Resources": "waits for processors, memory or GPUs to become free",
    "BeginTime": "begins later, as one does that was requeued",
    "Priority": "other jobs in the queue come first",
    "PartitionNodeLimit": "asks for more nodes than its partition has",
    "PartitionTimeLimit": "asks for more time than its partition allows",
    "PartitionDown": "its partition is down",
    "ReqNodeNotAvail": "the nodes that it needs are not available",
    "QOSMaxJobsPerUserLimit": "as many of your jobs run as the QOS allows",
    "AssocMaxJobsLimit": "as many jobs of your account run as are allowed",
    "JobHeldUser": "is held: scontrol release lets it run",
    "JobHeldAdmin": "is held by an administrator",
}


class Failure(Exception):
    def __init__(self, code, words):
        super().__init__(words)
        self.code = code


def slurm(*command):
    """Runs one of Slurm's commands and returns what it prints."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    except FileNotFoundError:
        raise Failure(INVALID, "there is no %s here: run starter where Slurm's commands are" % command[0])
    if done.returncode == 0:
        return done.stdout
    raise Failure(blame(done.stderr), " ".join(done.stderr.split()) or "%s failed" % command[0])


def blame(words):
    """Tells whose failure it is, by what Slurm says."""
    if any(known in words for known in ("Invalid partition", "Invalid generic resource", "Invalid qos", "Invalid feature",
                                        "Invalid account", "unrecognized option", "Invalid --", "Requested node configuration",
                                        "Requested time limit", "Memory specification", "More processors")):
        return INVALID
    if any(known in words for known in ("Access denied", "Access/permission denied", "authentication", "munge")):
        return DENIED
    if any(known in words for known in ("QOSMaxSubmit", "AssocMaxSubmit", "job submit limit", "MaxJobCount")):
        return EXHAUSTED
    return TRY_AGAIN


def describe(request):
    options = request["options"]
    faults = [{"field": name, "message": "is not known", "hint": "one of " + ", ".join(sorted(KEYS))} for name in options if name not in KEYS]
    directory = options.get("directory", "")
    if not os.path.isabs(directory):
        faults.append({"field": "directory", "message": "must be an absolute path that all nodes see", "hint": "below your home, where that is shared"})
    if not isinstance(options.get("sbatch", []), list):
        faults.append({"field": "sbatch", "message": "must be a list of arguments", "hint": "[--mail-type=FAIL]"})
    return {"protocol": 1, "sharedDirectory": directory, "pollInterval": options.get("poll", 5), "verbs": ["cleanUp"], "faults": faults}


def jobs(names):
    """Returns what Slurm has under these names: the state, reason, node and id of each."""
    found = {}
    for line in slurm("squeue", "--noheader", "--states=all", "--user=%d" % os.getuid(), "--format=%j|%i|%T|%r|%N").splitlines():
        name, number, state, reason, node = line.split("|", 4)
        if name not in names:
            continue
        # One that lives stands before one that has ended, should there be two.
        if name not in found or state in WAITING | RUNNING:
            found[name] = {"id": number, "state": state, "reason": reason, "node": node}
    return found


def submit(request):
    known = jobs({request["name"]}).get(request["name"])
    if known or started(request):
        return {"data": {"job": known["id"] if known else None}}
    number = slurm("sbatch", *(arguments(request) + [script(request)]))
    return {"data": {"job": number.strip().split(";")[0]}}


def started(request):
    """Tells whether the run was ever started: Slurm forgets jobs that have ended."""
    return os.path.exists(os.path.join(request["directory"], "started"))


def arguments(request):
    options, directory = request["options"], request["directory"]
    log = os.path.join(directory, "runner.log")
    words = ["--parsable", "--no-requeue", "--nodes=1", "--job-name=" + request["name"], "--output=" + log, "--error=" + log,
             "--open-mode=append", "--chdir=" + directory, "--signal=B:TERM@30"]
    for option, key in (("partition", "partition"), ("account", "account"), ("qos", "qos"), ("cpus-per-task", "cpus"),
                        ("mem", "memory"), ("constraint", "constraint"), ("time", "time")):
        if options.get(key):
            words.append("--%s=%s" % (option, options[key]))
    if not options.get("time") and request["maxDuration"]:
        words.append("--time=%d" % (request["maxDuration"] // 60 + 5))  # minutes; the trial's own limit comes first
    if request.get("gpus"):
        words.append("--gres=%s:%d" % (options.get("gres", "gpu"), request["gpus"]))
    return words + options.get("sbatch", [])


def script(request):
    """Writes the job's script beside the run. Slurm keeps its own copy of it."""
    path = os.path.join(request["directory"], "job.sh")
    command = " ".join(shlex.quote(word) for word in request["command"])
    with open(path + ".new", "w") as file:
        file.write("#!/bin/sh\n%s\nexec %s\n" % (request["options"].get("setup", ""), command))
    os.rename(path + ".new", path)
    return path


def poll(request):
    found = jobs({run["name"] for run in request["runs"]})
    return {"reports": [report(found.get(run["name"])) for run in request["runs"]]}


def report(job):
    if job is None:
        return {"phase": "gone", "reason": {"code": "left-queue", "text": "Slurm does not know its job any more"}}
    told = {"host": job["node"], "data": {"job": job["id"]}}
    state, reason = job["state"], job["reason"]
    if state in WAITING:
        words = REASONS.get(reason.split("_")[0], REASONS.get(reason, reason))
        told.update(phase="waiting", reason={"code": "queued", "text": "job %s %s" % (job["id"], words)})
    elif state in RUNNING:
        told.update(phase="running")
        if state == "SUSPENDED":
            told.update(reason={"code": "suspended", "text": "job %s is suspended: scontrol resume lets it go on" % job["id"]})
    elif state == "OUT_OF_MEMORY":
        told.update(phase="exited", exit={"code": 137, "signal": "SIGKILL", "text": "it used more memory than its job has: raise memory in options"})
    else:
        told.update(phase="gone", reason={"code": state.lower().replace("_", "-"), "text": "Slurm ended job %s: %s" % (job["id"], state)})
    return told


def cancel(request):
    """What runs ends by itself, since its runner finds the intent; what waits is taken out of the queue."""
    states = ["--state=PENDING"] if not request["force"] else []
    if jobs({request["name"]}).get(request["name"]):
        slurm("scancel", "--quiet", "--name=" + request["name"], *states)
    return {}


def clean_up(request):
    """Takes out of the queue what waits there of an experiment that is over."""
    lines = slurm("squeue", "--noheader", "--states=PENDING", "--user=%d" % os.getuid(), "--format=%i|%j").splitlines()
    queue = [line.split("|", 1) for line in lines]
    ours = [number for number, name in queue if name.rsplit("-", 2)[0] == "perennial-" + request["experiment"]]
    if ours:
        slurm("scancel", "--quiet", "--state=PENDING", *ours)
    return {}


VERBS = {"describe": describe, "submit": submit, "poll": poll, "cancel": cancel, "cleanUp": clean_up}


def main():
    try:
        print(json.dumps(VERBS[sys.argv[1]](json.load(sys.stdin))))
    except Failure as failure:
        print(failure, file=sys.stderr)
        sys.exit(failure.code)


if __name__ == "__main__":
    main()
