"""Writes hyperband.txt: which trials NNI 3.0's Hyperband asks for, one at a time, with
R=60, eta=3, optimize_mode=minimize. Configuration c gets the result 7919 c mod 101.

    python3 hyperband.py > hyperband.txt
"""

import math
import sys

import numpy
from nni.algorithms.hpo import hyperband_advisor
from nni.utils import OptimizeMode

advisor = hyperband_advisor.Hyperband.__new__(hyperband_advisor.Hyperband)  # without a connection to a manager
advisor.R, advisor.eta, advisor.exec_mode, advisor.optimize_mode = 60, 3, "parallelism", OptimizeMode.Minimize
advisor.s_max = advisor.curr_s = math.floor(math.log(60, 3) + 1e-6)
advisor.brackets, advisor.generated_hyper_configs, advisor.curr_hb, advisor.credit = {}, [], 0, 0
advisor.searchspace_json = {"x": {"_type": "uniform", "_value": [0, 1]}}
advisor.random_state = numpy.random.RandomState(1)

for _ in range(130):
    job = advisor._get_one_trial_job()
    bracket, rung, configuration = job["parameter_id"].split("_")
    print(job["parameter_id"], job["parameters"]["TRIAL_BUDGET"])
    result = int(configuration) * 7919 % 101
    advisor.brackets[bracket].set_config_perf(int(rung), job["parameter_id"], sys.maxsize, result)
    advisor._handle_trial_end(job["parameter_id"])
