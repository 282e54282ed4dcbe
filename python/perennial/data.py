"""What is told of trials, in the shapes that NNI's client has."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Optional


@dataclass
class TrialResult:
    """A trial's parameters and its final result, a number or what it reported."""

    parameter: dict
    value: Any
    trialJobId: str


@dataclass
class TrialMetricData:
    """One metric. ``type`` is PERIODICAL or FINAL, ``timestamp`` in milliseconds."""

    timestamp: int
    trialJobId: str
    parameterId: str
    type: str
    sequence: int
    data: Any


@dataclass
class TrialHyperParameters:
    """What a trial was given."""

    parameter_id: int
    parameter_source: str
    parameters: Any
    parameter_index: int = 0
    placement_constraint: Optional[dict] = None
    version_info: Optional[dict] = None


@dataclass
class TrialJob:
    """A trial. Times are in milliseconds; ``endTime`` is -1 as long as it has not ended."""

    trialJobId: str
    status: str
    startTime: int
    sequenceId: int
    logPath: str = ''
    endTime: int = -1
    stderrPath: str = ''
    hyperParameters: list[TrialHyperParameters] = field(default_factory=list)
    finalMetricData: list[TrialMetricData] = field(default_factory=list)
    message: str = '--'


def metric_of(told: dict) -> TrialMetricData:
    """A metric as NNI's routes tell it: its value is JSON in JSON."""
    return TrialMetricData(**{**told, 'data': json.loads(json.loads(told['data']))})


def job_of(told: dict) -> TrialJob:
    """A trial as NNI's routes tell it."""
    parameters = [TrialHyperParameters(**json.loads(text)) for text in told.get('hyperParameters', [])]
    finals = [metric_of(metric) for metric in told.get('finalMetricData', [])]
    return TrialJob(**{**told, 'hyperParameters': parameters, 'finalMetricData': finals})


def result_of(told: dict) -> TrialResult:
    """A result as NNI's routes tell it."""
    return TrialResult(told['parameter'], json.loads(told['value']), told['trialJobId'])


def row_of(job: TrialJob) -> dict[str, Any]:
    """A trial in columns, those of ``starter export --format csv`` with its state and times."""
    row: dict[str, Any] = {'trialJobId': job.trialJobId, 'status': job.status}
    if job.endTime >= 0:
        row['seconds'] = (job.endTime - job.startTime) / 1000
    parameters = job.hyperParameters[0].parameters if job.hyperParameters else {}
    for name, value in parameters.items() if isinstance(parameters, dict) else [('parameter', parameters)]:
        row[name] = json.dumps(value) if isinstance(value, (dict, list)) else value
    final = job.finalMetricData[-1].data if job.finalMetricData else None
    for name, value in final.items() if isinstance(final, dict) else [('reward', final)] if job.finalMetricData else []:
        row['metric/' + name if name in row else name] = value
    return row
