"""nni's trial calls."""

import os

from . import _channel
from ._absent import message as _message

__all__ = [
    'get_next_parameter',
    'get_next_parameters',
    'get_current_parameter',
    'report_intermediate_result',
    'report_final_result',
    'get_experiment_id',
    'get_trial_id',
    'get_sequence_id',
]

# With a path this is a package, and what is not in it is asked of _absent.Finder.
__path__ = []

_params = None
_intermediate_seq = 0
_experiment_id = os.environ.get('NNI_EXP_ID') or 'STANDALONE'
_trial_id = os.environ.get('NNI_TRIAL_JOB_ID') or 'STANDALONE'
_sequence_id = int(os.environ.get('NNI_TRIAL_SEQ_ID', 0))


def __getattr__(name):
    raise AttributeError(_message('nni.trial.' + name))


def get_next_parameter():
    """Return the trial's parameters, a dict; a second call returns None."""
    global _params
    _params = _channel.get().parameter()
    return None if _params is None else _params['parameters']


def get_next_parameters():
    """Return what get_next_parameter returns."""
    return get_next_parameter()


def get_current_parameter(tag=None):
    """Return what get_next_parameter returned last, or one member of it."""
    if _params is None:
        return None
    return _params['parameters'] if tag is None else _params['parameters'][tag]


def get_experiment_id():
    """Return the experiment's id."""
    return _experiment_id


def get_trial_id():
    """Return the trial's id."""
    return _trial_id


def get_sequence_id():
    """Return the trial's number, from 0."""
    return _sequence_id


def overwrite_intermediate_seq(value):
    """Set the number of the next intermediate result."""
    global _intermediate_seq
    assert isinstance(value, int)
    _intermediate_seq = value


def report_intermediate_result(metric):
    """Report a number, or a dict whose member 'default' is a number."""
    global _intermediate_seq
    _report('report_intermediate_result', 'PERIODICAL', _intermediate_seq, metric)
    _intermediate_seq += 1


def report_final_result(metric):
    """Report the trial's result: a number, or a dict whose member 'default' is one."""
    _report('report_final_result', 'FINAL', 0, metric)


def _report(call, kind, sequence, metric):
    assert _params or os.environ.get('NNI_PLATFORM') is None, \
        'nni.get_next_parameter() needs to be called before ' + call
    _channel.get().metric(_params['parameter_id'] if _params else None, kind, sequence, metric)
