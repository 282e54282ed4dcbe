"""NNI's TPE with its default arguments, asked by JSON lines."""
import json
import logging
import sys

import nni
from nni.algorithms.hpo.tpe_tuner import TpeTuner

logging.disable(logging.CRITICAL)


def answer(request):
    global tuner, parameters
    op = request["op"]
    if op == "version":
        return {"version": nni.__version__}
    if op == "open":
        tuner = TpeTuner(optimize_mode="minimize", seed=request["seed"])
        tuner.update_search_space(request["searchSpace"])
        parameters = {}
    elif op == "suggest":
        parameters[request["trial"]] = tuner.generate_parameters(request["trial"])
        return {"parameters": parameters[request["trial"]]}
    elif op == "observe":
        number = request["trial"]
        tuner.receive_trial_result(number, parameters.pop(number), request["value"])
        tuner.trial_end(number, True)
    return {}


for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=True)
