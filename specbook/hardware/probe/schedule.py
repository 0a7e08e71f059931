"""When what is measured: everything once in order of importance, then round after round until the time is used.

Each round is shuffled anew, so that the repeats of one thing lie all over the run: a burst of noise then widens the
spread of many figures a little instead of moving one of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from specbook.hardware.probe.cases import Case
from specbook.progress import Progress, silent

Samples = dict[Case, list[float]]

# A task starts only if so many times what is expected of it still fits.
HEADROOM = 1.5

# What takes less than half of the mean task is measured three times a round.
_CHEAP_SHARE, _CHEAP_REPEATS = 0.5, 3
_MOST_ROUNDS = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """Something that is measured together.

    Attributes
    ----------
    measure : callable
        Seconds by case; prepares what it needs when it is called for the first time.
    expected_s : callable
        What the first call would take now, preparing included, if nothing else prepared it.
    tier : int
        Its place in the first round; the lowest comes first.
    name : str
        For what could not be measured.
    repeats : int
        How often it is measured in a round.
    """

    measure: Callable[[], Mapping[Case, float]]
    expected_s: Callable[[], float]
    tier: int
    name: str
    repeats: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """Samples by case, and the tasks that there was no time for."""

    samples: Samples
    unmeasured: tuple[str, ...]


def run_tasks(
    tasks: Sequence[Task],
    *,
    clock: Callable[[], float],
    until_s: float,
    rng: np.random.Generator,
    progress: Progress = silent,
) -> Outcome:
    """Measure tasks again and again.

    Parameters
    ----------
    tasks : sequence of Task
    clock : callable
        Seconds.
    until_s : float
        When the last one must be done, by the clock. That holds as long as no task takes more than ``HEADROOM`` times
        the longest that it took before; a first call, than was stated.
    rng : numpy.random.Generator
        Of the order.
    progress : callable
        Receives milliseconds since its last call.

    Returns
    -------
    Outcome

    Examples
    --------
    >>> from specbook.hardware.probe.cases import CALL
    >>> now = iter(range(100))
    >>> task = Task(measure=lambda: {CALL: 1e-6}, expected_s=lambda: 1.0, tier=0, name="call")
    >>> outcome = run_tasks([task], clock=lambda: next(now), until_s=5.0, rng=np.random.default_rng(0))
    >>> outcome.samples[CALL], outcome.unmeasured
    ([1e-06, 1e-06], ())
    """
    runs = [_Run(task) for task in tasks]
    samples: Samples = defaultdict(list)
    order = _first_round(tasks, rng)
    for _ in range(_MOST_ROUNDS):
        started = [_measure(runs[index], samples, clock, until_s, progress) for index in order]
        if not any(started):
            break
        order = _next_round(runs, rng)
    unmeasured = tuple(run.task.name for run in runs if not run.seconds)
    return Outcome(samples=dict(samples), unmeasured=unmeasured)


class _Run:
    """A task and how long each of its calls took."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.seconds: list[float] = []

    @property
    def expected_s(self) -> float:
        """The longest call so far; the first, which prepares, counts until there is another."""
        return max(self.seconds[1:] or self.seconds or [self.task.expected_s()])


def _measure(run: _Run, samples: Samples, clock: Callable[[], float], until_s: float, progress: Progress) -> bool:
    """Measure a task if there is time for it."""
    start = clock()
    if start + HEADROOM * run.expected_s > until_s:
        return False
    for case, seconds in run.task.measure().items():
        samples[case].append(seconds)
    elapsed_s = clock() - start
    run.seconds.append(elapsed_s)
    progress(round(1e3 * elapsed_s))
    return True


def _first_round(tasks: Sequence[Task], rng: np.random.Generator) -> list[int]:
    """All tasks, tier by tier, shuffled within each."""
    shuffled = rng.permutation(len(tasks)).tolist()
    return sorted(shuffled, key=lambda index: tasks[index].tier)


def _next_round(runs: Sequence[_Run], rng: np.random.Generator) -> list[int]:
    """All tasks that were measured, shuffled; the cheap ones and those that ask for it several times."""
    known = [index for index, run in enumerate(runs) if run.seconds]
    cheap_s = _CHEAP_SHARE * float(np.mean([runs[index].expected_s for index in known]))
    asked = [runs[index].task.repeats for index in known]
    cheap = [_CHEAP_REPEATS if runs[index].expected_s < cheap_s else 1 for index in known]
    repeats = np.maximum(asked, cheap)
    return [int(index) for index in rng.permutation(np.repeat(known, repeats))]
