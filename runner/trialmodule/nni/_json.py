"""The JSON that nni makes of what trials report.

nni uses json_tricks with encoders of its own; what follows gives the same text
for the same value. Nothing is imported that the trial has not imported: who
reports an array has imported numpy.
"""

import json
import sys

# How json_tricks and nni mark values that JSON has not.
_MARKS = (
    '__ndarray__', '__pandas_dataframe__', '__pandas_series__', '__enum__', '__date__', '__time__',
    '__datetime__', '__timedelta__', '__complex__', '__set__', '__decimal__', '__fraction__',
    '__pathlib__', '__symbol__', '__instance_type__', '__nni_type__', '__nni_obj__',
)

PICKLE_LIMIT = 4096  # bytes


def load(text):
    return json.loads(text, object_hook=plain)


def plain(members):
    """Refuse an object that stands for a value of another kind."""
    for mark in _MARKS:
        if mark in members:
            raise RuntimeError(
                'here is a value that only nni itself reads (%s): '
                'pip install nni into the Python that runs the trial (%s)' % (mark, sys.executable))
    return members


def dump(value, pickle_limit=PICKLE_LIMIT, **kwargs):
    return json.dumps(value, default=lambda one: _encode(one, pickle_limit), **kwargs)


def _encode(value, pickle_limit):
    """Encode what JSON has not: every step gets what the one before made."""
    result = value
    for step in (_path, _pandas, _numpy, _enum, _time, _complex, _set, _exact):
        result = step(result)
    result = _object(result, pickle_limit)
    if result is value:
        raise TypeError('%r is of type %s, which is no metric: report a number, or a dict of numbers, '
                        'text and lists' % (value, type(value).__name__))
    return result


def _is(value, module, *names):
    """Tell whether value is of one of a module's classes; who has not imported the module has none."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(value, tuple(getattr(loaded, name) for name in names))


def _path(value):
    return {'__pathlib__': str(value)} if _is(value, 'pathlib', 'Path') else value


def _pandas(value):
    if _is(value, 'pandas', 'DataFrame'):
        return _frame(value)
    if _is(value, 'pandas', 'Series'):
        return {
            '__pandas_series__': {'name': str(value.name), 'type': str(value.dtype)},
            'index': tuple(value.index.values),
            'data': tuple(value.values),
        }
    return value


def _frame(value):
    columns = tuple(value.columns.values)
    result = {
        '__pandas_dataframe__': {'column_order': columns, 'types': tuple(str(one) for one in value.dtypes)},
        'index': tuple(value.index.values),
    }
    for i, name in enumerate(columns):
        result[name] = tuple(value.iloc[:, i].values)
    return result


def _numpy(value):
    if _is(value, 'numpy', 'generic'):
        return value.item()
    if not _is(value, 'numpy', 'ndarray'):
        return value
    result = {'__ndarray__': value.tolist(), 'dtype': str(value.dtype), 'shape': value.shape}
    if len(value.shape) > 1:
        result['Corder'] = value.flags['C_CONTIGUOUS']
    return result


def _enum(value):
    if not _is(value, 'enum', 'Enum'):
        return value
    module = type(value).__module__
    return {'__enum__': {
        '__enum_instance_type__': [None if module == '__main__' else module, type(value).__name__],
        'name': value.name,
    }}


_TIMES = {  # a datetime is a date, too: the order matters
    'datetime': ('year', 'month', 'day', 'hour', 'minute', 'second', 'microsecond'),
    'date': ('year', 'month', 'day'),
    'time': ('hour', 'minute', 'second', 'microsecond'),
    'timedelta': ('days', 'seconds', 'microseconds'),
}


def _time(value):
    kind = next((one for one in _TIMES if _is(value, 'datetime', one)), None)
    if kind is None:
        return value
    result = {name: getattr(value, name) for name in _TIMES[kind]}
    if getattr(value, 'tzinfo', None):
        result['tzinfo'] = getattr(value.tzinfo, 'zone', None) or value.tzinfo.tzname(None)
    result = {name: one for name, one in result.items() if one}
    if kind == 'datetime' and value.tzinfo:
        result['is_dst'] = bool(value.dst())
    return dict({'__%s__' % kind: None}, **result)


def _complex(value):
    return {'__complex__': [value.real, value.imag]} if isinstance(value, complex) else value


def _set(value):
    if not isinstance(value, set):
        return value
    try:
        return {'__set__': sorted(value)}
    except Exception:  # as json_tricks: whatever cannot be sorted stays as it is
        return {'__set__': list(value)}


def _exact(value):
    if _is(value, 'decimal', 'Decimal'):
        return {'__decimal__': str(value.canonical())}
    if _is(value, 'fractions', 'Fraction'):
        return {'__fraction__': True, 'numerator': value.numerator, 'denominator': value.denominator}
    return value


def _object(value, limit):
    """Pickle any other object, a tensor for one."""
    if isinstance(value, (list, dict)) or not (hasattr(value, '__dict__') or hasattr(value, '__slots__')):
        return value
    if isinstance(value, type) or hasattr(value, '__code__'):
        return value  # nni names or pickles it; as a metric it is a slip, and _encode says so
    data = _pickle(value)
    if 0 <= limit < len(data):
        raise ValueError('the metric is an object of %d bytes as a pickle, nni takes %d at most: report a number '
                         'or a dict of numbers, such as tensor.item()' % (len(data), limit))
    import base64
    return {'__nni_obj__': base64.b64encode(data).decode()}


def _pickle(value):
    try:
        from cloudpickle import dumps
    except ImportError:
        from pickle import HIGHEST_PROTOCOL, dumps
        return dumps(value, protocol=HIGHEST_PROTOCOL)
    return dumps(value)
