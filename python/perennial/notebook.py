"""How an experiment is shown: as a line in a terminal, as a picture in Jupyter."""

from __future__ import annotations

import contextlib
import html
import sys
from typing import Any, Callable, Iterator

from .data import TrialJob

_WIDTH, _HEIGHT, _POINTS = 480, 96, 400


def line(found: dict) -> str:
    """How an experiment stands, in a line."""
    trials, limit = found['trials'], found['limits']['maxTrials']
    over = sum(trials.get(state, 0) for state in ('SUCCEEDED', 'FAILED', 'EARLY_STOPPED', 'USER_CANCELED', 'SYS_CANCELED'))
    parts = [found['status'].lower(), f'{over} of {limit} trials' if limit else f'{over} trials']
    parts += [f'{trials[state]} {state.lower()}' for state in ('RUNNING', 'WAITING', 'FAILED') if trials.get(state)]
    if found['best']:
        parts.append(f'best {found["best"]["metric"]:.6g}')
    reason = (found.get('reason') or {}).get('text', '')
    return ', '.join(parts) + (f' ({reason.splitlines()[0]})' if reason else '')


@contextlib.contextmanager
def progress(experiment: Any) -> Iterator[Callable[[dict], None]]:
    """Yields what shows how an experiment stands, each time that it has changed."""
    show = _in_jupyter(experiment) or _in_terminal
    shown = ''

    def changed(found: dict) -> None:
        nonlocal shown
        if line(found) != shown:
            shown = line(found)
            show(shown)

    try:
        yield changed
    finally:
        if show is _in_terminal and sys.stderr.isatty():
            sys.stderr.write('\n')


def _in_terminal(text: str) -> None:
    # Elsewhere, such as in a log, each would be a line of its own.
    if sys.stderr.isatty():
        sys.stderr.write('\r\033[K' + text)
        sys.stderr.flush()


def _in_jupyter(experiment: Any) -> Callable[[str], None] | None:
    """What draws an experiment again and again in its cell; None outside of Jupyter."""
    shell = sys.modules.get('IPython') and sys.modules['IPython'].get_ipython()
    if not shell or not hasattr(shell, 'kernel'):
        return None
    from IPython.display import display
    handle = display(experiment, display_id=True)
    return lambda _: handle.update(experiment)


def page(found: dict, jobs: list[TrialJob], url: str) -> str:
    """How an experiment stands, as HTML with its best so far, result by result."""
    best = found['best']
    heading = f'<a href="{html.escape(url)}" target="_blank"><b>{html.escape(found["name"] or found["id"])}</b></a> {html.escape(found["id"])}'
    text = f'<div>{heading}: {html.escape(line(found))}</div>'
    if best:
        text += f'<div>best: trial {best["sequence"]}, <code>{html.escape(str(best["parameters"]))}</code></div>'
    finals = [value for value in (_number(job) for job in sorted(jobs, key=lambda job: job.endTime)) if value is not None]
    return text + (_curve(best_so_far(finals, found['minimize'])) if len(finals) > 1 else '')


def _number(job: TrialJob) -> float | None:
    """A trial's result as a finite number, None where it has none."""
    value = job.finalMetricData[-1].data if job.finalMetricData else None
    if isinstance(value, dict):
        value = value.get('default')
    is_finite = isinstance(value, (int, float)) and value - value == 0
    return value if is_finite else None


def best_so_far(values: list[float], minimize: bool) -> list[float]:
    """After each result, the best one up to there."""
    best: list[float] = []
    for value in values:
        best.append((min if minimize else max)(value, best[-1] if best else value))
    return best


def _curve(values: list[float]) -> str:
    values = values[::max(1, len(values) // _POINTS)]
    low, high = min(values), max(values)
    across, up = _WIDTH / max(1, len(values) - 1), (_HEIGHT - 8) / ((high - low) or 1)
    points = ' '.join(f'{at * across:.1f},{_HEIGHT - 4 - (value - low) * up:.1f}' for at, value in enumerate(values))
    return (f'<svg width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="best so far: {values[-1]:.6g}">'
            f'<polyline points="{points}" fill="none" stroke="#2a7ae2" stroke-width="2"/></svg>'
            f'<div><small>best so far, result by result, from {values[0]:.6g} to {values[-1]:.6g}</small></div>')
