"""Optuna as the tuner of an experiment: JSON lines in, JSON lines out (docs/tuner-own.md)."""
import json
import sys

import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution


def distribution(_type, _value):
    if _type == "choice":
        return CategoricalDistribution(_value)
    if _type == "randint":
        return IntDistribution(_value[0], _value[1] - 1)
    return FloatDistribution(_value[0], _value[1], log=_type == "loguniform")


for line in sys.stdin:
    message = json.loads(line)
    op, number = message["op"], message.get("trial")
    if op == "open":
        space = {name: distribution(**entry) for name, entry in message["searchSpace"].items()}
        study = optuna.create_study(direction=message["mode"], sampler=optuna.samplers.TPESampler(seed=message["seed"]))
        trials = {}
    elif op == "suggest":
        trials[number] = study.ask(space)
        print(json.dumps({"trial": number, "parameters": trials[number].params}), flush=True)
    elif op == "asked":  # the trial runs with these parameters, whatever was suggested
        study.enqueue_trial(message["parameters"])
        trials[number] = study.ask(space)
    elif op == "observe":
        failed = message["value"] is None
        study.tell(trials.pop(number), message["value"], state=optuna.trial.TrialState.FAIL if failed else None)
