"""Runs a script of nni.experiment as it is: ``python3 -m perennial script.py [argument …]``."""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys
import types

import perennial
import perennial.config


def stand_in() -> None:
    """From now on nni.experiment is this package, whether nni is installed or not."""
    if importlib.util.find_spec('nni') is None:
        sys.modules['nni'] = types.ModuleType('nni', 'What scripts need of NNI, by Perennial.')
        sys.modules['nni'].__path__ = []
    sys.modules['nni.experiment'], sys.modules['nni.experiment.config'] = perennial, perennial.config
    importlib.import_module('nni').experiment = perennial


def main() -> None:
    """Runs the script that the command line names, as if Python had been given it."""
    if len(sys.argv) < 2:
        sys.exit('usage: python3 -m perennial SCRIPT [ARGUMENT ...]')
    del sys.argv[0]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    stand_in()
    runpy.run_path(sys.argv[0], run_name='__main__')


if __name__ == '__main__':
    main()
