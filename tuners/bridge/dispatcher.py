"""Runs NNI's own dispatcher, `python -m nni`, for perennial's starter.

NNI's dispatcher never says that it is through with a command, so nobody could tell
an algorithm that thinks from one that waits, nor have a final result treated before
its trial's end. This program adds that word: after each command the
dispatcher sends "Initialized" (ID) with the content "done", or "error" and the
traceback. Beside that it mends one comparison. The rest is the code of whatever release of NNI is installed, 1.9 to 3.0.

It is given PERENNIAL_DISPATCHER, a JSON object {tuner, assessor, seed}, and writes one
line about the release to file descriptor 5 before NNI begins.
"""
import base64
import importlib
import importlib.util
import json
import logging
import os
import random
import runpy
import sys
import traceback
import types
from queue import Empty


def main():
    settings = json.loads(os.environ.pop("PERENNIAL_DISPATCHER"))
    seed(settings["seed"])
    base = dispatcher_base()
    if not settings.get("tuner"):
        apart()
    announce(base)
    mend(base)
    base.MsgDispatcherBase.command_queue_worker = work
    parameters = experiment(settings, base)
    sys.argv = ["nni", "--exp_params", base64.b64encode(json.dumps(parameters).encode()).decode()]
    with os.fdopen(5, "w") as control:
        control.write(json.dumps({"version": release(), "framing": framing()}) + "\n")
    runpy.run_module("nni", run_name="__main__", alter_sys=True)


def seed(number):
    """An algorithm without a seed of its own makes the same proposals when it is rebuilt."""
    random.seed(number)
    try:
        import numpy
    except ImportError:
        return
    numpy.random.seed(number)


def found(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:
        return False


def dispatcher_base():
    old = not found("nni.runtime.msg_dispatcher_base")
    return importlib.import_module("nni.msg_dispatcher_base" if old else "nni.runtime.msg_dispatcher_base")


def apart():
    """Has NNI's log of an assessor that runs alone go where all else goes that it says, and not
    into dispatcher.log, which is the tuner's."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler):
            handler.setStream(sys.stderr)


def release():
    return str(importlib.import_module("nni").__version__)


def framing():
    if found("nni.runtime.command_channel"):
        return "json"
    return "code" if found("nni.runtime.tuner_command_channel") else "pipes"


def experiment(settings, base):
    """What NNI's manager put into --exp_params, as far as the dispatcher reads it."""
    source = importlib.util.find_spec("nni.__main__").loader.get_source("nni.__main__")
    spell = spelled_in_1 if "builtinTunerName" in source else dict
    tuner, assessor = settings.get("tuner") or idle(), settings.get("assessor")
    if framing() == "pipes":
        old_name(tuner)
    role = "advisor" if framing() == "pipes" and advises(tuner, base) else "tuner"
    parameters = {role: spell(tuner)}
    if assessor:
        parameters["assessor"] = spell(assessor)
    return parameters


def spelled_in_1(algorithm):
    """The keys that releases before 2.6 read."""
    made = {"classArgs": algorithm.get("classArgs") or {}}
    if algorithm.get("name"):
        for role in ("Tuner", "Assessor", "Advisor"):
            made["builtin" + role + "Name"] = algorithm["name"]
        return made
    module, name = algorithm["className"].rsplit(".", 1)
    made.update(codeDir=algorithm["codeDirectory"], classFileName=module.replace(".", "/") + ".py", className=name)
    return made


def old_name(algorithm):
    """Releases before 2.8 say MetisTuner where later ones say Metis, and mean the same."""
    if algorithm.get("name") in ("Batch", "Metis", "GP", "PBT", "DNGO", "PPO"):
        algorithm["name"] += "Tuner"


def advises(algorithm, base):
    """Whether releases before 2.8 call it an advisor. Later ones find out themselves."""
    if algorithm.get("name"):
        return algorithm["name"].lower() in ("hyperband", "bohb")
    sys.path.append(algorithm["codeDirectory"])
    module, name = algorithm["className"].rsplit(".", 1)
    return issubclass(getattr(importlib.import_module(module), name), base.MsgDispatcherBase)


def idle():
    """A tuner that does nothing, for an assessor whose tuner is not NNI's."""
    from nni.tuner import Tuner

    class Idle(Tuner):
        def update_search_space(self, search_space):
            pass

        def generate_multiple_parameters(self, parameter_id_list, **kwargs):
            return []

        def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
            pass

    module = types.ModuleType("perennial_idle")
    module.Idle = Idle
    sys.modules["perennial_idle"] = module
    open("perennial_idle.py", "a").close()  # 1.9 looks for the file, and imports the module
    return {"className": "perennial_idle.Idle", "codeDirectory": os.getcwd()}


def announce(base):
    """Has the dispatcher say that it is ready, and whether it may stop trials."""
    run = base.MsgDispatcherBase.run
    plain = importlib.import_module(base.__name__[:-len("_base")]).MsgDispatcher

    def announced(self):
        judges = not isinstance(self, plain) or self.assessor is not None
        say(self, "ready " + json.dumps({"judges": judges}))
        run(self)

    base.MsgDispatcherBase.run = announced


def mend(base):
    """NNI 2.8 to 2.10 cannot compare the id of a trial that nobody proposed, which is None, and
    no release that of its own Hyperband's trials, which is text."""
    compare = getattr(base.MsgDispatcherBase, "is_created_in_previous_exp", None)
    if compare:
        base.MsgDispatcherBase.is_created_in_previous_exp = lambda self, id_: isinstance(id_, int) and compare(self, id_)


def work(self, commands):
    """Takes the place of MsgDispatcherBase.command_queue_worker and does the same, with words."""
    while not (self.stopping and commands.empty()):
        try:
            command, data = commands.get(timeout=1)
        except Empty:
            continue
        try:
            self.process_command(command, data)
        except Exception as error:
            traceback.print_exc()
            if not bearable(command, data, error):
                say(self, "error " + traceback.format_exc())
                self.worker_exceptions.append(error)
                return
        say(self, "done")


def bearable(command, data, error):
    """Whether an algorithm that fails at a command can go on: where the command is about a
    trial that it did not propose, or offers results that it is free not to take."""
    if command.name == "ImportData":
        return isinstance(error, NotImplementedError)
    if command.name == "TrialEnd":
        return json.loads(data["hyper_params"])["parameter_id"] is None
    return command.name == "ReportMetricData" and data.get("parameter_id") is None


def say(dispatcher, content):
    kind = dispatcher_base().CommandType.Initialized
    if hasattr(dispatcher, "send"):
        dispatcher.send(kind, content)
    else:  # before 2.8 it is a function
        importlib.import_module(type(kind).__module__).send(kind, content)


main()
