"""Perennial's trial module: the calls that trials make on nni, without nni.

The runner puts this package last into PYTHONPATH. An nni that is installed in
the trial's Python wins: it is imported in this one's place and nothing of this one
is left, not even its entry of sys.path. Without one, or where
PERENNIAL_TRIAL_MODULE is "builtin", this package answers: parameters from
parameter.cfg, metrics by nni's file and standard output channels, the same bytes
that nni 2.10 and 3.0 write. It needs Python 3.8 and imports nothing but the
standard library.

This file alone is read by every Python, 2.7 too, so it keeps to their syntax.
"""

import os
import sys


_HERE = os.path.realpath(os.path.join(os.path.dirname(__file__), os.pardir))


def __getattr__(name):
    # A thread that imported nni while another one did holds this module for good.
    installed = sys.modules.get(__name__)
    if installed is None or installed.__dict__ is globals():
        raise AttributeError(name)
    return getattr(installed, name)


def _import_installed():
    """Imports the nni that is installed; returns whether there is one."""
    path, ours = list(sys.path), sys.modules.pop(__name__)
    sys.path[:] = [entry for entry in path if os.path.realpath(entry) != _HERE]
    try:
        # A directory without code that happens to have the name is none.
        if getattr(__import__(__name__), '__file__', None):
            return True
    except Exception as error:
        if not isinstance(error, ImportError) or error.name != __name__ or error.path:
            _advise(error)
            raise
    sys.path[:] = path
    sys.modules[__name__] = ours
    return False


def _advise(error):
    sys.stderr.write(
        'perennial: the nni that is installed in %s cannot be imported (%s: %s). Mend it, or write '
        '"trialModule: builtin" into experiment.yml: the trial calls then come from Perennial.\n'
        % (sys.prefix, type(error).__name__, error))


if sys.version_info < (3, 5):
    raise ImportError('nni needs Python 3, and this is Python %d.%d' % sys.version_info[:2])

if os.environ.get('PERENNIAL_TRIAL_MODULE') == 'builtin' or not _import_installed():
    if sys.version_info < (3, 8):
        raise ImportError(
            "No module named 'nni', and Perennial's own needs Python 3.8, which %s is not: "
            'pip install nni, or run the trial by a newer Python' % sys.executable)
    from ._absent import refuse as __getattr__
    from ._log import enable_global_logging, silence_stdout
    from ._serial import dump, load, trace
    from .trial import *
    from .trial import __all__
    from .version import __version__
    from . import utils

    class NoMoreTrialError(Exception):
        """A tuner's way to say that it has no more parameters."""

        def __init__(self, ErrorInfo='Search space fully explored'):
            Exception.__init__(self, ErrorInfo)
            self.errorinfo = ErrorInfo

        def __str__(self):
            return self.errorinfo
