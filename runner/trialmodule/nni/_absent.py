"""Says what to do where somebody asks for a part of nni that is not here."""

import os
import sys


def message(name):
    advice = 'pip install nni into the Python that runs the trial (%s)' % sys.executable
    if os.environ.get('PERENNIAL_TRIAL_MODULE') == 'builtin':
        advice += ' and remove "trialModule: builtin" from experiment.yml'
    return (
        "%s is not in Perennial's trial module, which stands in for nni and has what trials call: "
        'get_next_parameter, report_intermediate_result, report_final_result, get_experiment_id, '
        'get_trial_id, get_sequence_id, dump, load, trace, utils.merge_parameter, utils.extract_scalar_reward. For the rest of nni, %s.' % (name, advice))


def refuse(name):
    """Is the module-level __getattr__ of the package."""
    raise AttributeError(message('nni.' + name))


class Finder:
    """Stands last in sys.meta_path: whoever asks it, asks for what is not here.

    What it raises is no ModuleNotFoundError: "from nni import X" would hide it.
    """

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.startswith('nni.'):
            raise ImportError(message(name), name=name)


sys.meta_path.append(Finder)
