"""Optuna's default sampler, asked by JSON lines."""
import json
import sys
import warnings

import optuna

optuna.logging.set_verbosity(optuna.logging.ERROR)
warnings.filterwarnings("ignore")


def answer(request):
    global study, distributions, trials
    op = request["op"]
    if op == "version":
        return {"version": optuna.__version__}
    if op == "open":
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=request["seed"]))
        distributions = {name: optuna.distributions.FloatDistribution(*parameter["_value"])
                         for name, parameter in request["searchSpace"].items()}
        trials = {}
    elif op == "suggest":
        trials[request["trial"]] = study.ask(distributions)
        return {"parameters": trials[request["trial"]].params}
    elif op == "observe":
        study.tell(trials.pop(request["trial"]), request["value"])
    return {}


for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=True)
