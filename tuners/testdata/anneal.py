"""Writes anneal.json: where hyperopt 0.3.0's anneal, which NNI runs as Anneal, draws
after twelve trials. Of 20000 draws: the deciles of continuous parameters, how often
each category came.

    pip install hyperopt==0.3.0 && python3 anneal.py > anneal.json
"""

import json

import hyperopt
import numpy
from hyperopt import hp

SPACE = {
    "u": hp.uniform("u", -1, 3),
    "l": hp.loguniform("l", numpy.log(0.001), numpy.log(1)),
    "n": hp.normal("n", 1, 2),
    "q": hp.quniform("q", 0, 10, 1),
    "r": hp.randint("r", 5),
}
DRAWS = 20000

domain = hyperopt.Domain(None, SPACE, pass_expr_memo_ctrl=None)
history = []
trials = hyperopt.Trials()
for tid in range(12):
    x = (tid * 5 % 12 + 0.5) / 12
    values = {"u": -1 + 4 * x, "l": 0.001 ** (1 - x), "n": 1 + 6 * (x - 0.5), "q": float(round(10 * x)), "r": tid % 5}
    loss = (tid * 7 % 12) / 10
    history.append({"parameters": values, "loss": loss})
    misc = {"tid": tid, "cmd": domain.cmd, "workdir": None,
            "idxs": {key: [tid] for key in values}, "vals": {key: [value] for key, value in values.items()}}
    [doc] = trials.new_trial_docs([tid], [None], [{"loss": loss, "status": "ok"}], [misc])
    doc["state"] = hyperopt.JOB_STATE_DONE
    trials.insert_trial_docs([doc])
trials.refresh()

drawn = {key: [] for key in SPACE}
for seed in range(DRAWS):
    [doc] = hyperopt.anneal.suggest([12], domain, trials, seed)
    for key, values in doc["misc"]["vals"].items():
        drawn[key].append(float(values[0]))
summary = {key: [float(x) for x in numpy.quantile(drawn[key], numpy.arange(0.1, 1, 0.1))] for key in "uln"}
shares = {key: {str(int(x)): round(drawn[key].count(x) / DRAWS, 5) for x in sorted(set(drawn[key]))} for key in "qr"}
print(json.dumps({"history": history, "deciles": summary, "shares": shares}, indent=1))
