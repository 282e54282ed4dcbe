"""A script of NNI's experiment API, with everything that the API has, and one import changed."""
import os
import pathlib
import signal
import subprocess
import time

from perennial import AlgorithmConfig, BadInput, Experiment, StarterNotFound


def until(holds):
    while not holds():
        time.sleep(0.1)


def refused(kind, act):
    try:
        act()
    except kind as error:
        return str(error)
    raise AssertionError('it was not refused')


def in_state(*states):
    return [job.trialJobId for job in experiment.list_trial_jobs() if job.status in states]


experiment = Experiment('local')
experiment.config.experiment_name = 'surface'
experiment.config.trial_command = 'python3 model.py'
experiment.config.trial_code_directory = pathlib.Path('.')
experiment.config.search_space = {
    'features': {'_type': 'choice', '_value': [128, 256]},
    'lr': {'_type': 'loguniform', '_value': [0.0001, 0.1]},
    'momentum': {'_type': 'uniform', '_value': [0, 1]},
}
experiment.config.tuner.name = 'TPE'
experiment.config.tuner.class_args['optimize_mode'] = 'maximize'
experiment.config.assessor = AlgorithmConfig(name='Medianstop', class_args={'start_step': 100})
experiment.config.training_service.use_active_gpu = False
experiment.config.trial_concurrency = 2

named = os.environ['PERENNIAL_STARTER']
os.environ['PERENNIAL_STARTER'] = '/nowhere/starter'
assert '/nowhere/starter' in refused(StarterNotFound, experiment.start)
os.environ['PERENNIAL_STARTER'] = named

# A typing error is found where it is made, everything else before anything starts.
assert "did you mean 'trial_command'" in refused(AttributeError, lambda: setattr(experiment.config, 'trial_comand', 'true'))
experiment.config.max_trial_number = -1
assert 'maxTrialNumber' in refused(BadInput, lambda: experiment.run())
assert not experiment.has_checkpoint()
experiment.config.max_trial_number = 4

experiment.start()
assert experiment.get_status() == 'RUNNING'
until(lambda: len(in_state('RUNNING')) == 2)
first, second = in_state('RUNNING')
assert experiment.get_trial_job(first).hyperParameters[0].parameters['features'] in (128, 256)
until(lambda: len(experiment.get_job_metrics(first).get(first, [])) == 3)
assert experiment.get_job_metrics()[first][2].data['loss'] == 2
assert {'trialJobStatus': 'RUNNING', 'trialJobNumber': 2} in experiment.get_job_statistics()
profile = experiment.get_experiment_profile()
assert profile['params']['trialConcurrency'] == 2 and profile['params']['experimentName'] == 'surface', profile
assert experiment.get_experiment_metadata(experiment.id)['status'] == 'RUNNING'
assert experiment.export_data() == []

# The host dies, and the next call has another one.
os.kill(int(subprocess.check_output([named, 'serve', '--pid'])), signal.SIGKILL)
assert experiment.get_status() == 'RUNNING'
assert in_state('RUNNING') == [first, second]

experiment.kill_trial_job(first)
until(lambda: first in in_state('USER_CANCELED'))
experiment.update_trial_concurrency(1)
experiment.update_max_trial_number(3)
experiment.update_max_experiment_duration('2h')
experiment.update_search_space({**experiment.config.search_space, 'momentum': {'_type': 'uniform', '_value': [0.5, 1]}})
params = experiment.get_experiment_profile()['params']
assert (params['trialConcurrency'], params['maxTrialNumber'], params['maxExperimentDuration']) == (1, 3, '7200s'), params
assert params['searchSpace']['momentum']['_value'] == [0.5, 1], params

experiment.stop()
assert experiment.get_status() == 'STOPPED'
assert Experiment(None, experiment.id).view(non_blocking=True).get_status() == 'STOPPED'
pathlib.Path('go').touch()
assert Experiment(None, id='surface').resume() is True  # by its name
assert experiment.get_status() == 'DONE'
results = experiment.export_data()
assert len(results) == 2 and results[0].value['default'] == results[0].parameter['momentum'], results
best = max(results, key=lambda result: result.value['default'])
assert experiment.best()['id'] == best.trialJobId

experiment.add_trial({'features': 256, 'lr': 0.01, 'momentum': 0.75})  # one that is done goes on
until(lambda: experiment.get_status() == 'DONE' and len(experiment.export_data()) == 3)

rows = experiment.dataframe()
assert list(rows.index) == [0, 1, 2, 3] and rows.loc[3, 'default'] == 0.75 and rows.loc[3, 'lr'] == 0.01, rows
assert {'trialJobId', 'status', 'seconds', 'features', 'loss'} < set(rows.columns), rows
shown = experiment._repr_html_()
assert 'surface' in shown and '<svg' in shown, shown
