"""An experiment, by the names that NNI gave its parts."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import string
import sys
import time
from enum import Enum
from typing import Any

from . import notebook, program
from .config import ExperimentConfig, _plain
from .data import TrialJob, TrialMetricData, TrialResult, job_of, metric_of, result_of, row_of

_ALPHABET = string.ascii_lowercase + string.digits
_NNI = '/api/v1/nni'
_TICK = 0.5  # seconds between two looks
_HOPE = 60.0  # seconds for a tuner that fails


class ExperimentFailed(RuntimeError):
    """Nothing goes on before a person has mended something; the text says what."""


class RunMode(Enum):
    """NNI's. All mean the same here: experiments outlive the script that started them."""

    Background = 'background'
    Foreground = 'foreground'
    Detach = 'detach'


class Experiment:
    """One experiment, that is to be or that is on record.

    ``config_or_platform`` is an ExperimentConfig, the name of a platform such as 'local', or a list
    of such names. With an ``id`` the same script, run again after whatever befell it, finds its
    experiment: it goes on with one that runs or was stopped, and reads one that is done. An id that
    is not eight lower-case letters and digits is the experiment's name, and its id follows from it.
    """

    def __init__(self, config_or_platform: ExperimentConfig | str | list[str] | None = None, id: str | None = None):
        self.id = _id_of(id) if id else ''.join(secrets.choice(_ALPHABET) for _ in range(8))
        self.port: int | None = None
        self._name, self._host = id, program.Host()
        is_platform = isinstance(config_or_platform, (str, list))
        self.config = ExperimentConfig(config_or_platform) if is_platform else config_or_platform

    # --- its life

    def run(self, port: int | None = None, wait_completion: bool = True, debug: bool = False) -> bool | None:
        """Start it, or go on with it, and wait for its end: True if any trial succeeded. Ctrl-C ends
        only the waiting, and then, as where it shall not wait, the answer is None."""
        self.start(port, debug)
        return self._wait() if wait_completion else None

    def start(self, port: int | None = None, debug: bool = False, run_mode: RunMode = RunMode.Background) -> None:
        """Start it, or go on with it where it is on record. It outlives this program.

        At ``port``, where one is given, NNI's own clients and pages find it as well.
        """
        found = self._found() if self._name else None
        if found is None:
            found = self._submitted(port)
        if found:
            self._go_on(found, port)
        self._greet()

    def resume(self, port: int | None = None, wait_completion: bool = True, debug: bool = False) -> bool | None:
        """Go on with it, where it was stopped."""
        if isinstance(self, str):  # Experiment.resume(id), of NNI 2
            self = Experiment(None, self)
        self._go_on(self._on_record(), port)
        return self._wait() if wait_completion else None

    def run_or_resume(self, port: int | None = None, wait_completion: bool = True, debug: bool = False) -> bool | None:
        """What ``run`` does as well."""
        return self.run(port, wait_completion, debug)

    def view(self, port: int | None = None, non_blocking: bool = False) -> Experiment:
        """Look at it, and change nothing. It waits for Ctrl-C unless ``non_blocking``."""
        if isinstance(self, str):  # Experiment.view(id), of NNI 2
            self = Experiment(None, self)
        self._on_record()
        self._open(port)
        self._greet()
        try:
            while not non_blocking:
                time.sleep(_TICK)
        except KeyboardInterrupt:
            pass
        return self

    @classmethod
    def connect(cls, port_or_id: int | str) -> Experiment:
        """An experiment that is on record: by its id or name, or by the port that it has for NNI's clients."""
        is_port = isinstance(port_or_id, int)
        found = cls(None, program.at_port(port_or_id) if is_port else port_or_id)
        found.port = port_or_id if is_port else None
        found._on_record()
        return found

    def stop(self) -> None:
        """End its running trials, and then it. ``resume`` goes on."""
        found = self._found()
        if found and found['status'] in ('RUNNING', 'STOPPING'):
            program.run('stop', self.id)

    def pause(self) -> None:
        """Let running trials end and start no others, until ``resume``."""
        program.run('pause', self.id)

    def has_checkpoint(self) -> bool:
        """Whether it is on record."""
        return self._found() is not None

    @property
    def url(self) -> str:
        """Its page on the dashboard. `starter dashboard` lets a browser in."""
        return f'{self._host.address()}/e/{self.id}'

    @property
    def search_space(self) -> Any:
        """The configuration's."""
        return self.config and self.config.search_space

    @search_space.setter
    def search_space(self, space: dict) -> None:
        self.config.search_space = space

    # --- how it stands

    def get_status(self) -> str:
        """RUNNING, STOPPING, STOPPED, DONE; TUNER_NO_MORE_TRIAL while the last trials of a space run."""
        return self._nni('GET', '/check-status')['status']

    def get_trial_job(self, trial_job_id: str) -> TrialJob:
        """One trial."""
        return job_of(self._nni('GET', f'/trial-jobs/{trial_job_id}'))

    def list_trial_jobs(self) -> list[TrialJob]:
        """All trials, in the order in which they were asked for."""
        return [job_of(told) for told in self._nni('GET', '/trial-jobs')]

    def get_job_statistics(self) -> list[dict]:
        """How many trials are in which state."""
        return self._nni('GET', '/job-statistics')

    def get_job_metrics(self, trial_job_id: str | None = None) -> dict[str, list[TrialMetricData]]:
        """What trials reported, or one, by their ids."""
        metrics: dict[str, list[TrialMetricData]] = {}
        for told in self._nni('GET', '/metric-data' + (f'/{trial_job_id}' if trial_job_id else '')):
            metrics.setdefault(told['trialJobId'], []).append(metric_of(told))
        return metrics

    def get_experiment_profile(self) -> dict:
        """Its configuration with the limits in force, and its times."""
        return self._nni('GET', '/experiment')

    def get_experiment_metadata(self, exp_id: str) -> dict:
        """What NNI's list of experiments says of one; empty where it is not on record."""
        return next((told for told in self.get_all_experiments_metadata() if told['id'] == exp_id), {})

    def get_all_experiments_metadata(self) -> list[dict]:
        """NNI's list of experiments."""
        return self._nni('GET', '/experiments-info')

    def export_data(self) -> list[TrialResult]:
        """The parameters and final results of all trials that succeeded."""
        return [result_of(told) for told in self._nni('GET', '/export-data')]

    def best(self) -> dict | None:
        """The best trial so far, with its value and parameters; None as long as none has a result."""
        return self._on_record()['best']

    def dataframe(self) -> Any:
        """Every trial as a row of a pandas.DataFrame, by its number: state, parameters and result."""
        try:
            import pandas
        except ImportError:
            raise ImportError('dataframe() takes pandas: pip install pandas') from None
        jobs = self.list_trial_jobs()
        return pandas.DataFrame([row_of(job) for job in jobs], index=pandas.Index([job.sequenceId for job in jobs], name='trial'))

    def _repr_html_(self) -> str:
        found = self._found()
        return notebook.page(found, self.list_trial_jobs(), self.url) if found else f'<code>{self!r}</code>, not started'

    def __repr__(self) -> str:
        return f'Experiment(id={self.id!r})'

    # --- changes

    def update_trial_concurrency(self, value: int) -> None:
        """Change how many trials run at a time."""
        self._update('TRIAL_CONCURRENCY', 'trialConcurrency', value)

    def update_max_experiment_duration(self, value: str | int) -> None:
        """Change how long it runs in all: '1h', or seconds."""
        self._update('MAX_EXEC_DURATION', 'maxExperimentDuration', value)

    def update_search_space(self, value: dict) -> None:
        """Change what new trials are drawn from."""
        self._update('SEARCH_SPACE', 'searchSpace', _plain(value))

    def update_max_trial_number(self, value: int) -> None:
        """Change how many trials it runs in all. One that is done goes on."""
        self._update('MAX_TRIAL_NUM', 'maxTrialNumber', value)

    def kill_trial_job(self, trial_job_id: str) -> None:
        """End one trial, USER_CANCELED."""
        self._nni('DELETE', f'/trial-jobs/{trial_job_id}')

    def add_trial(self, parameters: dict, force: bool = False) -> None:
        """Run one more trial with parameters of your own; with ``force`` also outside of the search space."""
        command = {'name': 'add-trial', 'value': _plain(parameters), 'force': force}
        self._host.ask('POST', f'/api/v1/experiments/{self.id}/commands', command, key=secrets.token_hex(16))

    def _update(self, kind: str, name: str, value: Any) -> None:
        self._nni('PUT', f'/experiment?update_type={kind}', {'params': {name: value}})

    # --- how that is done

    def _nni(self, method: str, path: str, body: Any = None) -> Any:
        """NNI's routes, at a place that takes no port."""
        return self._host.ask(method, f'/nni/{self.id}{_NNI}{path}', body)

    def _found(self) -> dict | None:
        """How it stands, None where it is not on record."""
        try:
            return self._host.ask('GET', f'/api/v1/experiments/{self.id}')
        except program.Refused as refused:
            if refused.status != 404:
                raise
            return None

    def _on_record(self) -> dict:
        """How it stands. What was given as its id may also be a name that only one has."""
        found = self._found()
        if found is None:
            self.id = json.loads(program.run('show', self._name or self.id, '--output', 'json'))['id']
            found = self._found()
        return found

    def _submitted(self, port: int | None) -> dict | None:
        """None once it is, and how it stands where the same script, run twice at once, was sooner."""
        try:
            return self._submit(port)
        except program.BadInput:
            found = self._found() if self._name else None
            if not found:
                raise
            return found

    def _submit(self, port: int | None) -> None:
        if self.config is None:
            raise ValueError(f"experiment {self._name or self.id} is not on record, and without a configuration it cannot start: Experiment('local', ...)")
        settings = self.config.json()
        if self._name and self._name != self.id:
            settings.setdefault('experimentName', self._name)
        at = ['--port', str(port)] if port else []
        program.run('run', '-', '--id', self.id, '--detach', '--output', 'json', *at,
                    stdin=json.dumps(settings, indent=1), directory=self.config._directory)
        self.port = port

    def _go_on(self, found: dict, port: int | None) -> None:
        if found['status'] in ('STOPPING', 'STOPPED') or found['paused']:
            if found['status'] == 'STOPPING':
                self.stop()  # which waits until it has
            program.run('resume', self.id, '--detach', '--output', 'json')
        self._open(port)

    def _greet(self) -> None:
        link = program.run('dashboard', self.id, '--print').strip()  # which lets one browser in, once
        print(f'experiment {self.id}: {link}', file=sys.stderr)

    def _open(self, port: int | None) -> None:
        """Have the host serve NNI's routes at a port."""
        if port:
            self._host.ask('POST', '/nni-ports', {'experiment': self.id, 'port': port})
            self.port = port

    def _wait(self) -> bool | None:
        try:
            with notebook.progress(self) as show:
                return self._follow(show)
        except KeyboardInterrupt:
            print(f'experiment {self.id} goes on; starter stop {self.id}, or .stop(), ends it', file=sys.stderr)
            return None

    def _follow(self, show: Any) -> bool:
        stuck = None
        while True:
            found = self._on_record()
            show(found)
            if found['status'] not in ('RUNNING', 'STOPPING'):
                return bool(found['trials'].get('SUCCEEDED'))
            stuck = self._despair(found, stuck)
            time.sleep(_TICK)

    def _despair(self, found: dict, since: float | None) -> float | None:
        """Since when the tuner has failed and nothing runs. It is given up after a while: only a person can help."""
        reason, trials = found.get('reason') or {}, found['trials']
        if reason.get('code') != 'tuner-failed' or trials.get('RUNNING') or trials.get('WAITING'):
            return None
        since = since or time.monotonic()
        if time.monotonic() - since > _HOPE:
            raise ExperimentFailed(f'nothing goes on: {reason["text"]}; mend it, then .resume(), or .stop() gives it up')
        return since


def _id_of(given: str) -> str:
    """A given id as it is, where experiments have such; else the one that follows from a name."""
    if re.fullmatch('[a-z0-9]{8}', given):
        return given
    number = int.from_bytes(hashlib.sha256(given.encode()).digest(), 'big')
    return ''.join(_ALPHABET[number // 36 ** place % 36] for place in range(8))
