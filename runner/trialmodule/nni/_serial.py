"""nni.dump, nni.load and nni.trace: values as JSON, those that JSON has not included.

What nni.dump writes and what nni.load reads is what nni's own do, which use json_tricks
for it. Classes and functions that nni names or pickles are left to nni.
"""

import json
import re

from . import _json


def dump(obj, fp=None, *, use_trace=True, pickle_size_limit=_json.PICKLE_LIMIT, allow_nan=True, **json_kwargs):
    """Return obj as JSON text, and write it to fp, a path or an open file, where there is one."""
    text = _json.dump(obj, pickle_size_limit, allow_nan=allow_nan, **json_kwargs)
    if fp is None:
        return text
    if hasattr(fp, 'write'):
        fp.write(text)
        return text
    with open(str(fp), 'w', encoding='utf8') as file:
        file.write(text)
    return text


def load(string=None, *, fp=None, preserve_order=False, ignore_comments=True, **json_kwargs):
    """Return the value of a JSON text, or of a file: a path or an open file."""
    assert string is not None or fp is not None
    if hasattr(string, 'read'):
        raise TypeError('Expect a string, found a %r. If you intend to use a file, use `nni.load(fp=file)`' % string)
    text = _read(fp) if string is None else string
    if isinstance(text, bytes):
        text = text.decode('utf8')
    if ignore_comments:
        text = _COMMENT.sub(lambda found: found.group(1) or '', text)
    return json.loads(text, object_hook=_decode, **json_kwargs)


# A text, which may hold what looks like a comment, or a comment.
_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|(?:#|//)[^\n]*')


def _read(fp):
    if hasattr(fp, 'read'):
        return fp.read()
    with open(str(fp), encoding='utf8') as file:
        return file.read()


def _decode(members):
    for mark, decode in _DECODERS.items():
        if mark in members:
            return decode(members)
    return _json.plain(members)


def _array(members):
    import numpy
    array = numpy.array(members['__ndarray__'], dtype=members['dtype'])
    return array.reshape(members['shape'], order='A') if members['shape'] else array[()]


def _enum(members):
    import importlib
    module, name = members['__enum__']['__enum_instance_type__']
    return getattr(importlib.import_module(module or '__main__'), name)[members['__enum__']['name']]


def _moment(kind):
    def decode(members):
        import datetime
        if 'tzinfo' in members:
            return _json.plain(members)
        return getattr(datetime, kind)(**{name: one for name, one in members.items() if not name.startswith('__')})
    return decode


def _decimal(members):
    import decimal
    return decimal.Decimal(members['__decimal__'])


def _fraction(members):
    import fractions
    return fractions.Fraction(members['numerator'], members['denominator'])


def _path(members):
    import pathlib
    return pathlib.Path(members['__pathlib__'])


def _object(members):
    import base64
    import pickle
    return pickle.loads(base64.b64decode(members['__nni_obj__']))


_DECODERS = {
    '__ndarray__': _array,
    '__enum__': _enum,
    '__datetime__': _moment('datetime'),
    '__date__': _moment('date'),
    '__time__': _moment('time'),
    '__timedelta__': _moment('timedelta'),
    '__complex__': lambda members: complex(*members['__complex__']),
    '__set__': lambda members: {tuple(one) if isinstance(one, list) else one for one in members['__set__']},
    '__decimal__': _decimal,
    '__fraction__': _fraction,
    '__pathlib__': _path,
    '__nni_obj__': _object,
}


def trace(cls_or_func=None, *, kw_only=True, inheritable=False):
    """Leave a class or a function as it is: what nni notes of its calls is of use to nni alone."""
    if cls_or_func is None:
        return trace
    if not callable(cls_or_func):
        raise TypeError('%r of type %s is not supported to be traced.' % (cls_or_func, type(cls_or_func)))
    return cls_or_func
