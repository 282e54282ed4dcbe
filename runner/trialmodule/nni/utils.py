"""The functions of nni.utils that trials call."""

from ._absent import message as _message

__all__ = ['extract_scalar_history', 'extract_scalar_reward', 'merge_parameter']

# With a path this is a package, and what is not in it is asked of _absent.Finder.
__path__ = []


def __getattr__(name):
    raise AttributeError(_message('nni.utils.' + name))


def merge_parameter(base_params, override_params):
    """Put a trial's parameters over defaults, such as parsed arguments, in place.

    base_params is a dict or an object with attributes; every key must be in it,
    with a value of the same type.
    """
    if override_params is None:
        return base_params
    is_dict = isinstance(base_params, dict)
    for key, value in override_params.items():
        if key not in base_params if is_dict else not hasattr(base_params, key):
            raise ValueError("Key '%s' not found in base parameters." % key)
        if is_dict:
            base_params[key] = _compatible(key, base_params[key], value)
        else:
            setattr(base_params, key, _compatible(key, getattr(base_params, key), value))
    return base_params


def _compatible(key, base, value):
    if base is None or isinstance(value, type(base)):
        return value
    if isinstance(base, float) and isinstance(value, int):
        return float(value)
    raise ValueError('Expected "%s" in override parameters to have type %s, but found %s'
                     % (key, type(base).__name__, type(value).__name__))


def extract_scalar_reward(value, scalar_key='default'):
    """Return the number that a reported value is, or that a reported dict has for scalar_key."""
    if isinstance(value, dict) and scalar_key in value:
        value = value[scalar_key]
    if isinstance(value, (float, int)):
        return value
    raise RuntimeError('Incorrect final result: the final result should be float/int, '
                       'or a dict which has a key named "default" whose value is float/int.')


def extract_scalar_history(trial_history, scalar_key='default'):
    """Return the number of each reported value."""
    return [extract_scalar_reward(value, scalar_key) for value in trial_history]
