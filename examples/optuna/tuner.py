"""Optuna as the tuner of an experiment: JSON lines in, JSON lines out (docs/tuner-own.md)."""
import json
import sys

import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution


def distribution(_type, _value):
    if _type == "choice" and not any(isinstance(element, (dict, list)) for element in _value):
        return CategoricalDistribution(_value)
    if _type == "randint":
        return IntDistribution(_value[0], _value[1] - 1)
    if _type in ("uniform", "loguniform"):
        return FloatDistribution(_value[0], _value[1], log=_type == "loguniform")
    raise ValueError("this tuner has no distribution for %s of %s" % (_type, _value))


trials = {}
for line in sys.stdin:
    message = json.loads(line)
    op, number = message["op"], message.get("trial")
    if op == "open":
        sampler = optuna.samplers.TPESampler(seed=message["seed"])
        direction = message["mode"]
    if op in ("open", "space"):  # a new space begins a new study
        space = {name: distribution(**entry) for name, entry in message["searchSpace"].items()}
        study = optuna.create_study(direction=direction, sampler=sampler)
    elif op == "suggest":
        trials[number] = study.ask(space)
        print(json.dumps({"trial": number, "parameters": trials[number].params}), flush=True)
    elif op == "asked":  # the trial runs with these parameters, whatever was suggested
        study.enqueue_trial(message["parameters"])
        trials[number] = study.ask(space)
    elif op == "observe":
        trial, value = trials.pop(number), message["value"]
        trial.study.tell(trial, value, state=optuna.trial.TrialState.FAIL if value is None else None)
