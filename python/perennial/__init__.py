"""Experiments that outlive crashes, from Python, with the names that NNI gave them."""

from .config import *
from .data import TrialHyperParameters, TrialJob, TrialMetricData, TrialResult
from .experiment import Experiment, ExperimentFailed, RunMode
from .program import BadInput, ProgramFailed, Refused, StarterNotFound

__version__ = '0.1.0'
