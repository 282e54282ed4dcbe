"""What an experiment is configured by: NNI's classes, by NNI's names.

Nothing is checked here but the names of an experiment's own settings: ``starter`` checks
everything before anything starts, and says what would be right.
"""

from __future__ import annotations

import difflib
import json
import os
from pathlib import Path
from typing import Any

__all__ = ['ExperimentConfig', 'AlgorithmConfig', 'CustomAlgorithmConfig', 'TrainingServiceConfig', 'LocalConfig', 'RemoteConfig',
           'RemoteMachineConfig', 'OpenpaiConfig', 'AmlConfig', 'DlcConfig', 'KubeflowConfig', 'KubeflowRoleConfig',
           'FrameworkControllerConfig', 'FrameworkControllerRoleConfig', 'FrameworkAttemptCompletionPolicy',
           'K8sStorageConfig', 'K8sNfsConfig', 'K8sAzureStorageConfig', 'NfsConfig', 'AzureBlobConfig']


def _snake(name: str) -> str:
    return ''.join('_' + letter.lower() if letter.isupper() else letter for letter in name)


def _camel(name: str) -> str:
    first, *rest = name.split('_')
    return first + ''.join(word.capitalize() for word in rest)


class Config:
    """Settings as attributes: ``trial_command`` here is ``trialCommand`` in a file, and both are
    taken as keywords. One that was not set is None."""

    _names: tuple[str, ...] = ()  # all that there are; none given: any
    _defaults: dict[str, Any] = {}

    def __init__(self, **settings: Any):
        for name, value in {**self._defaults, **settings}.items():
            setattr(self, _snake(name), value)

    def __setattr__(self, name: str, value: Any) -> None:
        if self._names and name not in self._names and not name.startswith('_'):
            near = difflib.get_close_matches(name, self._names, 1)
            raise AttributeError(f'{type(self).__name__} has no {name!r}' + (f'; did you mean {near[0]!r}?' if near else ''))
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith('_') or self._names and name not in self._names:
            raise AttributeError(f'{type(self).__name__} has no {name!r}')
        return None

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.json() == other.json()

    def __repr__(self) -> str:
        settings = ', '.join(f'{name}={value!r}' for name, value in vars(self).items() if not name.startswith('_'))
        return f'{type(self).__name__}({settings})'

    def json(self) -> dict[str, Any]:
        """The settings as an experiment file spells them; what was not set is left out."""
        return {_camel(name): _plain(value) for name, value in vars(self).items() if value is not None and not name.startswith('_')}


def _plain(value: Any) -> Any:
    """A setting's value as JSON has it. Names inside of dicts are the user's own."""
    if isinstance(value, Config):
        return value.json()
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, 'tolist'):  # numpy's numbers and arrays
        return value.tolist()
    return value


class AlgorithmConfig(Config):
    """A tuner or an assessor that has a name."""

    _names = ('name', 'class_name', 'code_directory', 'class_args')

    def __init__(self, **settings: Any):
        super().__init__(**settings)
        self.class_args = self.class_args or {}

    def json(self) -> dict[str, Any]:
        return {name: value for name, value in super().json().items() if value != {}}


class CustomAlgorithmConfig(AlgorithmConfig):
    """A tuner or an assessor of your own: a class in a directory."""


class TrainingServiceConfig(Config):
    """Where trials run. Which settings there are is the platform's affair."""


class LocalConfig(TrainingServiceConfig):
    _defaults = {'platform': 'local'}


class RemoteMachineConfig(Config):
    pass


class RemoteConfig(TrainingServiceConfig):
    _defaults = {'platform': 'remote'}


class OpenpaiConfig(TrainingServiceConfig):
    _defaults = {'platform': 'openpai'}


class AmlConfig(TrainingServiceConfig):
    _defaults = {'platform': 'aml'}


class DlcConfig(TrainingServiceConfig):
    _defaults = {'platform': 'dlc'}


class KubeflowRoleConfig(Config):
    pass


class KubeflowConfig(TrainingServiceConfig):
    _defaults = {'platform': 'kubeflow'}


class FrameworkAttemptCompletionPolicy(Config):
    pass


class FrameworkControllerRoleConfig(Config):
    pass


class FrameworkControllerConfig(TrainingServiceConfig):
    _defaults = {'platform': 'frameworkcontroller'}


class K8sStorageConfig(Config):
    pass


class K8sNfsConfig(K8sStorageConfig):
    _defaults = {'storage_type': 'nfs'}


class K8sAzureStorageConfig(K8sStorageConfig):
    _defaults = {'storage_type': 'azureStorage'}


class NfsConfig(Config):
    _defaults = {'storage_type': 'NFS'}


class AzureBlobConfig(Config):
    _defaults = {'storage_type': 'AzureBlob'}


_PLATFORMS = {kind._defaults['platform']: kind for kind in
              (LocalConfig, RemoteConfig, OpenpaiConfig, AmlConfig, DlcConfig, KubeflowConfig, FrameworkControllerConfig)}


def _platform(named: Any) -> Any:
    """A section for a platform: of a name, of a dict as files have it, or as it is."""
    if isinstance(named, str):
        return _PLATFORMS.get(named, TrainingServiceConfig)(platform=named)
    if isinstance(named, dict):
        return _PLATFORMS.get(named.get('platform', ''), TrainingServiceConfig)(**named)
    return named


class ExperimentConfig(Config):
    """An experiment's settings. ``ExperimentConfig('local')``, or ``['local', 'remote']``, has empty
    sections to be filled in. Relative paths begin at the working directory."""

    _names = ('experiment_name', 'experiment_type', 'search_space_file', 'search_space', 'trial_command', 'trial_code_directory',
              'trial_concurrency', 'trial_gpu_number', 'max_experiment_duration', 'max_trial_number', 'max_trial_duration',
              'nni_manager_ip', 'use_annotation', 'debug', 'log_level', 'experiment_working_directory', 'tuner_gpu_indices',
              'tuner', 'assessor', 'advisor', 'training_service', 'shared_storage',
              # not NNI's
              'trial_grace_period', 'trial_module', 'log_limit')

    def __init__(self, training_service_platform: Any = None, **settings: Any):
        super().__init__(**settings)
        self._directory = os.getcwd()
        for kind in ('tuner', 'assessor', 'advisor'):
            algorithm = getattr(self, kind)
            setattr(self, kind, AlgorithmConfig(**algorithm) if isinstance(algorithm, dict) else algorithm or AlgorithmConfig())
        sections = training_service_platform or self.training_service
        self.training_service = [_platform(one) for one in sections] if isinstance(sections, list) else _platform(sections)

    @classmethod
    def load(cls, path: str | os.PathLike) -> 'ExperimentConfig':
        """The settings of an experiment file of NNI's second schema. YAML takes PyYAML, which NNI
        has brought; JSON takes nothing."""
        path = Path(path)
        text = path.read_text(encoding='utf-8')
        try:
            settings = json.loads(text)
        except ValueError:
            settings = _yaml(text)
        if not isinstance(settings, dict):
            raise TypeError(f'{path} is no experiment: its top level is no object')
        config = cls(**settings)
        config._directory = str(path.absolute().parent)
        return config

    def json(self) -> dict[str, Any]:
        # What a platform's section is asked for is nothing as long as nothing is in it.
        return {name: value for name, value in super().json().items() if value != {}}


def _yaml(text: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise ImportError('to read YAML here takes PyYAML: pip install pyyaml; `starter run FILE` needs no Python') from None
    return yaml.safe_load(text)
