"""Algorithms as users of NNI wrote them; nothing here knows of perennial."""
import json
import os
import random
import time

import nni
from nni.assessor import AssessResult, Assessor
from nni.tuner import Tuner
from nni.utils import extract_scalar_reward

try:
    from nni.runtime.msg_dispatcher_base import MsgDispatcherBase
    from nni.runtime.tuner_command_channel import CommandType
except ImportError:
    try:  # before 2.8
        from nni.runtime.msg_dispatcher_base import MsgDispatcherBase
        from nni.runtime.protocol import CommandType, send
    except ImportError:  # before 2.0
        from nni.msg_dispatcher_base import MsgDispatcherBase
        from nni.protocol import CommandType, send


class Climber(Tuner):
    """Walks from the best x found so far, by the global generator."""

    def __init__(self, optimize_mode="maximize", step=0.1, limit=1000):
        self.sign = 1 if optimize_mode == "maximize" else -1
        self.step, self.limit = step, limit
        self.best, self.proposed, self.seen = None, {}, []

    def update_search_space(self, search_space):
        self.space = search_space

    def generate_parameters(self, parameter_id, **kwargs):
        if len(self.proposed) >= self.limit:
            raise nni.NoMoreTrialError("enough")
        low, high = self.space["x"]["_value"]
        center = self.best[1] if self.best else (low + high) / 2
        x = min(high, max(low, center + random.uniform(-self.step, self.step)))
        self.proposed[parameter_id] = x
        return {"x": x, "results": len(self.seen), "directory": os.path.basename(os.getcwd())}

    def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
        assert self.proposed[parameter_id] == parameters["x"]
        value = extract_scalar_reward(value) * self.sign
        self.seen.append(value)
        if self.best is None or value > self.best[0]:
            self.best = (value, parameters["x"])

    def import_data(self, data):
        for entry in data:
            self.seen.append(extract_scalar_reward(entry["value"]))

    def trial_end(self, parameter_id, success, **kwargs):
        # FINAL comes before the end, or not at all.
        with open("ends.jsonl", "a") as f:
            f.write(json.dumps([parameter_id, success, len(self.seen)]) + "\n")


class Unseeded(Climber):
    """Proposes something else each time that it is rebuilt."""

    def generate_parameters(self, parameter_id, **kwargs):
        made = super().generate_parameters(parameter_id, **kwargs)
        made["x"] = self.proposed[parameter_id] = random.SystemRandom().random()
        return made


class Keys(Tuner):
    """Reads more of a result than its default."""

    def update_search_space(self, search_space):
        self.loss = None

    def generate_parameters(self, parameter_id, **kwargs):
        return {"loss": self.loss}

    def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
        self.loss = value["loss"]


class Threshold(Assessor):
    """Stops what reports less than a bar twice in a row."""

    def __init__(self, bar=0.5):
        self.bar = bar

    def assess_trial(self, trial_job_id, trial_history):
        with open("histories.jsonl", "a") as f:
            f.write(json.dumps([trial_job_id, trial_history]) + "\n")
        return AssessResult.Bad if len(trial_history) > 1 and max(trial_history[-2:]) < self.bar else AssessResult.Good

    def trial_end(self, trial_job_id, success):
        with open("histories.jsonl", "a") as f:
            f.write(json.dumps([trial_job_id, success]) + "\n")


class Halving(MsgDispatcherBase):
    """An advisor: proposes in rounds, keeps the better half, stops what begins badly."""

    def __init__(self, first=4):
        super().__init__()
        self.first, self.queue, self.results, self.running, self.credit, self.counter = first, [], {}, {}, 0, 0

    def handle_initialize(self, data):
        self.handle_update_search_space(data)
        self.tell(CommandType.Initialized, "")

    def handle_update_search_space(self, data):
        self.queue = [{"x": i / self.first, "budget": 1} for i in range(self.first)]

    def handle_request_trial_jobs(self, data):
        self.credit += data
        self.serve()

    def serve(self):
        while self.credit and self.queue:
            name = "round-%d" % self.counter
            self.counter += 1
            self.running[name] = self.queue.pop(0)
            self.credit -= 1
            self.tell(CommandType.NewTrialJob, json.dumps({
                "parameter_id": name, "parameter_source": "algorithm", "parameters": self.running[name]}))

    def handle_report_metric_data(self, data):
        value = json.loads(data["value"])
        if data["type"] == "PERIODICAL":
            if value < 0:
                self.tell(CommandType.KillTrialJob, json.dumps(data["trial_job_id"]))
        else:
            self.results[data["parameter_id"]] = value

    def handle_trial_end(self, data):
        name = json.loads(data["hyper_params"])["parameter_id"]
        ended = self.running.pop(name)
        self.results.setdefault(name, -1)
        if not self.running and not self.queue:
            kept = sorted(self.results, key=self.results.get)[len(self.results) // 2:]
            self.queue = [{"x": ended["x"], "budget": ended["budget"] * 2} for _ in kept]
            self.results = {}
        self.serve()

    def handle_import_data(self, data):
        pass

    def handle_add_customized_trial(self, data):
        pass

    def tell(self, kind, content):
        if hasattr(self, "send"):
            self.send(kind, content)
        else:
            send(kind, content)


class Surroundings(Climber):
    """Proposes what it finds around it."""

    def generate_parameters(self, parameter_id, **kwargs):
        names = ["SDK_PROCESS", "NNI_MODE", "NNI_EXP_ID", "NNI_LOG_LEVEL", "CUDA_VISIBLE_DEVICES", "MINE", "NNI_INCLUDE_INTERMEDIATE_RESULTS"]
        made = {name: os.environ.get(name) for name in names}
        made["log"] = os.path.samefile(os.environ["NNI_LOG_DIRECTORY"], os.getcwd())
        made["checkpoint"] = os.path.isdir(os.environ["NNI_CHECKPOINT_DIRECTORY"])
        made["secrets"] = [name for name in os.environ if name.startswith("PERENNIAL_")]
        return made


class Faulty(Climber):
    """Fails as a file says, once for each line."""

    def __init__(self, faults):
        super().__init__()
        self.faults = faults

    def generate_parameters(self, parameter_id, **kwargs):
        with open(self.faults) as f:
            lines = f.read().split()
        if lines:
            with open(self.faults, "w") as f:
                f.write("\n".join(lines[1:]))
            getattr(self, lines[0])()
        return super().generate_parameters(parameter_id, **kwargs)

    def crash(self):
        os._exit(7)

    def oom(self):
        os.kill(os.getpid(), 9)

    def memory(self):
        import resource
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
        self.hoard = bytearray(8 << 30)

    def hang(self):
        time.sleep(3600)

    def late(self):
        time.sleep(1)

    def raises(self):
        raise ValueError("no idea left")

    def garbage(self):
        self.proposed[-1] = None
        raise_garbage()


def raise_garbage():
    import threading
    for thread in threading.enumerate():
        pass
    import gc
    for candidate in gc.get_objects():
        if isinstance(candidate, MsgDispatcherBase):
            if hasattr(candidate, "send"):
                candidate.send(CommandType.NewTrialJob, "this is no JSON")
            else:
                send(CommandType.NewTrialJob, "this is no JSON")
