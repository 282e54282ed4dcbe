"""Does with nni what trials do, and says what came back. Run by nni and by ours: all must be the same."""

import argparse
import datetime
import decimal
import fractions
import json
import pathlib
import sys
import tempfile
import types
import uuid

import nni
import numpy
import pandas
from nni.utils import extract_scalar_history, extract_scalar_reward, merge_parameter

from tensor import Tensor


def attempt(call, *arguments):
    try:
        print(call.__name__, repr(call(*arguments)))
    except Exception as error:
        print(call.__name__, type(error).__mro__[-3].__name__)


def parameters():
    attempt(nni.report_final_result, 1)
    attempt(nni.get_current_parameter)
    given = nni.get_next_parameter()
    print(json.dumps(given), [type(one).__name__ for one in given.values()])
    attempt(nni.get_current_parameter, 'lr')
    attempt(nni.get_current_parameter, 'absent')
    for defaults in ({'lr': 1.0, 'n': 1, 'text': ''}, {'lr': 1, 'n': 1, 'text': ''}, {'lr': 1.0}, {'lr': None, 'n': 2.5, 'text': 'x'}):
        attempt(merge_parameter, dict(defaults), given)
        attempt(merge_parameter, argparse.Namespace(**defaults), given)
    attempt(merge_parameter, {'a': 1}, None)
    print(nni.get_experiment_id(), nni.get_trial_id(), nni.get_sequence_id())


def values():
    zone = datetime.timezone(datetime.timedelta(hours=2), 'there')
    moment = datetime.datetime(2024, 2, 29, 0, 5, tzinfo=zone)
    matrix = numpy.arange(6, dtype='float32').reshape(2, 3)
    yield from (0.5, 1, 10 ** 25, 1e-300, True, None, 'text é ☃', float('nan'), float('inf'), -float('inf'))
    yield from ({'default': 0.25, 'a': "it's"}, {'default': {'x': [1, (2, 3)]}, 5: 6, 1.5: None, True: 1}, [], {})
    yield from (numpy.float64(0.1), numpy.float32(0.1), numpy.float16(0.1), numpy.int64(3), numpy.uint8(200))
    yield from (numpy.bool_(True), numpy.str_('s'), numpy.complex64(1 + 2j), numpy.datetime64('2024-02-29T01:02:03'))
    yield from (numpy.array([1.5, float('nan')]), numpy.array(2.5), matrix, matrix.T, numpy.array([1, 'a', None], dtype=object))
    yield from (numpy.array([], dtype='int8'), {'default': numpy.float32(0.1), 'confusion': numpy.eye(2, dtype=int)})
    yield from (moment, moment.replace(tzinfo=None), moment.date(), moment.timetz(), datetime.timedelta(days=1, seconds=5))
    yield from (1 + 2j, {3, 1, 2}, {1, "a"} - {"a"}, decimal.Decimal('1.10'), fractions.Fraction(6, 4), pathlib.PurePosixPath('/a'), pathlib.Path('/a'))
    yield from (uuid.SafeUUID.safe, types.SimpleNamespace(a=1), Tensor(0.5), {'default': 1, 'loss': Tensor(numpy.float32(1.5))})
    yield from (pandas.Series([1.5, 2], name='s'), pandas.DataFrame({'a': [1, 2], 'b': ['x', 'y']}), pandas.Timestamp('2024-02-29'))
    yield from (b'bytes', object(), {(1, 2): 3}, Tensor('x' * 5000), 'x' * 999_000, 'x' * 1_100_000)


def rewards():
    for value in (1, 0.5, True, numpy.float64(0.5), numpy.float32(0.5), numpy.int64(3), '1', None, {'default': 2, 'a': 3}, {'a': 3}, {'default': {}},
                  {'default': numpy.float64(1)}):
        attempt(extract_scalar_reward, value)
    attempt(extract_scalar_reward, {'a': 3}, 'a')
    attempt(extract_scalar_history, [1, {'default': 2.5}])


def serials(directory):
    kept = (numpy.float32(0.5), numpy.array([[1, 2], [3, 4]], dtype='int16').T, numpy.array(2.5), 1 + 2j, {1, 2}, decimal.Decimal('1.10'),
            fractions.Fraction(6, 4), pathlib.Path('/a'), datetime.datetime(2024, 2, 29, 1), datetime.date(2024, 2, 29), datetime.timedelta(days=1),
            uuid.SafeUUID.safe, {'a': [1, None, float('inf')], 'b': numpy.arange(3)}, types.SimpleNamespace(a=1), 'a # b // c')
    for value in kept:
        text = nni.dump(value)
        loaded = nni.load(text)
        print(text if 'nni_obj' not in text else 'pickled', repr(loaded), type(loaded).__name__, getattr(loaded, 'dtype', None))
    print(nni.dump({'b': 1, 'a': float('nan')}, indent=2, sort_keys=True))
    attempt(nni.dump, float('nan'), None)
    path = directory / 'kept.json'
    print(nni.dump([1.0, 'x'], str(path)), nni.load(fp=str(path)))
    with open(path) as file:
        print(nni.load(fp=file))
    print(nni.load('{"a": "# kept // as it is", # gone\n "b": 5.0} // gone'))
    attempt(nni.load, '{')
    print(len(nni.dump(Tensor('x' * 5000), pickle_size_limit=-1)) > 5000)
    attempt(nni.dump, Tensor('x' * 5000))


@nni.trace
class Traced:
    def __init__(self, a, b=2):
        self.sum = a + b


@nni.trace(kw_only=False)
def traced(a):
    return [a]


def the_rest():
    print(Traced(1).sum, Traced.__name__, traced(5), isinstance(Traced(1, b=3), Traced))
    print(str(nni.NoMoreTrialError()), str(nni.NoMoreTrialError('no')), nni.NoMoreTrialError('no').errorinfo, nni.NoMoreTrialError.__mro__[1].__name__)
    nni.enable_global_logging(False)


parameters()
rewards()
serials(pathlib.Path(tempfile.mkdtemp()))
the_rest()
for value in values():
    try:
        nni.report_intermediate_result(value)
    except Exception as error:
        print(type(value).__name__, 'is refused')
nni.report_final_result(numpy.float32(0.75))
nni.report_final_result({'default': 1})
attempt(nni.get_next_parameter)
attempt(nni.get_current_parameter)
attempt(nni.report_final_result, 1)
print(sorted(nni.trial.__all__))
