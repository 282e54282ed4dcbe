"""A tuner and an assessor of one's own: classes of NNI, which needs `pip install nni`."""
import random

from nni.assessor import AssessResult, Assessor
from nni.tuner import Tuner


class Climber(Tuner):
    """Steps away from the best x found so far."""

    def __init__(self, optimize_mode="maximize", step=1.0):
        self.sign = 1 if optimize_mode == "maximize" else -1
        self.step = step
        self.best = None

    def update_search_space(self, search_space):
        self.low, self.high = search_space["x"]["_value"]

    def generate_parameters(self, parameter_id, **kwargs):
        if self.best is None:
            return {"x": random.uniform(self.low, self.high)}
        x = self.best[1] + random.uniform(-self.step, self.step)
        return {"x": min(self.high, max(self.low, x))}

    def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
        if self.best is None or self.sign * value > self.best[0]:
            self.best = (self.sign * value, parameters["x"])


class Hopeless(Assessor):
    """Stops a trial whose first two results are both above a limit."""

    def __init__(self, limit):
        self.limit = limit

    def assess_trial(self, trial_job_id, trial_history):
        hopeless = len(trial_history) > 1 and min(trial_history) > self.limit
        return AssessResult.Bad if hopeless else AssessResult.Good
