"""How a trial gets its parameters and where its metrics go.

The files and bytes are those of nni 2.10 and 3.0 without an HTTP channel.
"""

import os
import time

from . import _json

_LIMIT = 1000000
_POLL = 3  # seconds between looks for parameters that are still to come

_channel = None


def get():
    """Return the channel of this process, made at the first call."""
    global _channel
    if _channel is None:
        inside = os.environ.get('NNI_PLATFORM') not in (None, 'unittest')
        _channel = Channel() if inside else Standalone()
    return _channel


class Channel:
    """Files in NNI_SYS_DIR, and standard output where nni used that."""

    def __init__(self):
        self._directory = os.environ['NNI_SYS_DIR']
        self._index = 0
        os.makedirs(os.path.join(self._directory, '.nni'), exist_ok=True)
        os.makedirs(os.environ['NNI_OUTPUT_DIR'], exist_ok=True)
        # Unbuffered: a frame is one write, so those of several processes never mix.
        self._frames = open(os.path.join(self._directory, '.nni', 'metrics'), 'ab', buffering=0)
        self._prints = os.environ['NNI_PLATFORM'] != 'local' or _true('REUSE_MODE')

    def parameter(self):
        if self._index > 0 and not _true('MULTI_PHASE'):
            return None
        path = os.path.join(self._directory, 'parameter_%d.cfg' % self._index if self._index else 'parameter.cfg')
        if not os.path.isfile(path):
            self._ask()
        while not (os.path.isfile(path) and os.path.getsize(path) > 0):
            time.sleep(_POLL)
        with open(path, encoding='utf8') as file:
            record = _json.load(file.read())
        self._index += 1
        assert isinstance(record, dict) and 'parameters' in record
        return record

    def _ask(self):
        self._send(_json.dump({
            'trial_job_id': os.environ.get('NNI_TRIAL_JOB_ID'),
            'type': 'REQUEST_PARAMETER',
            'sequence': 0,
            'parameter_index': self._index,
        }))

    def metric(self, parameter, kind, sequence, value):
        self._send(_json.dump({
            'parameter_id': parameter,
            'trial_job_id': os.environ.get('NNI_TRIAL_JOB_ID'),
            'type': kind,
            'sequence': sequence,
            'value': _json.dump(value),
        }))

    def _send(self, text):
        if self._prints:
            assert len(text) < _LIMIT, 'Metric too long'
            print("NNISDK_MEb'%s'" % text, flush=True)
            return
        data = (text + '\n').encode('utf8')
        assert len(data) < _LIMIT, 'Metric too long'
        _write(self._frames, b'ME%06d%b' % (len(data), data))


class Standalone:
    """A trial that somebody runs by hand, outside any experiment."""

    def parameter(self):
        import warnings
        warnings.warn(
            '\x1b[1m\x1b[31mRunning trial code without runtime. '
            'Please check the tutorial if you are new to NNI: '
            '\x1b[33mhttps://nni.readthedocs.io/en/stable/tutorials/hpo_quickstart_pytorch/main.html\x1b[0m',
            RuntimeWarning, stacklevel=3)
        return {'parameter_id': None, 'parameters': {}}

    def metric(self, parameter, kind, sequence, value):
        from . import _log
        if kind == 'FINAL':
            _log.info('Final result: %s', value)
        else:
            _log.info('Intermediate result: %s  (Index %s)', value, sequence)


def _true(variable):
    return os.environ.get(variable) in ('true', 'True')


def _write(file, data):
    while data:  # a full disk may take a part
        data = data[file.write(data):]
