"""What is measured when: the time is kept, repeats are spread over it, nothing is lost or invented."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbook.hardware.probe.cases import Case, RateCase
from specbook.hardware.probe.schedule import HEADROOM, Outcome, Task, run_tasks
from specbook.hardware.probe.statistics import drift_of, noise_of, spread_of
from specbook.hardware.probe_record import Spread


class Clock:
    """Tasks whose calls take what they are told to, and the order they ran in."""

    def __init__(self) -> None:
        self.now_s = 50.0
        self.order: list[str] = []

    def __call__(self) -> float:
        return self.now_s

    def task(self, name: str, seconds: Sequence[float], expected_s: float | None = None, tier: int = 0) -> Task:
        turns = iter(seconds)
        last = seconds[-1]

        def measure() -> dict[Case, float]:
            elapsed = next(turns, last)
            self.now_s += elapsed
            self.order.append(name)
            return {RateCase(name): elapsed}

        return Task(measure=measure, expected_s=lambda: expected_s or seconds[0], tier=tier, name=name)

    def run(self, tasks: Sequence[Task], budget_s: float, progress=lambda _: None) -> Outcome:
        until_s = self.now_s + budget_s
        return run_tasks(tasks, clock=self, until_s=until_s, rng=np.random.default_rng(0), progress=progress)


positive = st.floats(0.02, 2.0)


@given(st.lists(st.tuples(positive, st.lists(st.floats(1.0, HEADROOM), max_size=5)), min_size=1, max_size=8), positive)
def test_time_is_kept_whatever_the_times_are(times, budget_s):
    clock = Clock()
    tasks = [
        clock.task(str(i), [base * factor for factor in [1.0, *factors]], expected_s=base)
        for i, (base, factors) in enumerate(times)
    ]
    outcome = clock.run(tasks, budget_s)
    assert clock.now_s - 50.0 <= budget_s * (1.0 + 1e-9)
    measured = {case.what for case in outcome.samples}
    assert measured | set(outcome.unmeasured) == {task.name for task in tasks}
    assert not measured & set(outcome.unmeasured)
    assert sum(map(len, outcome.samples.values())) == len(clock.order)


@given(st.lists(st.lists(positive, min_size=1, max_size=6), min_size=1, max_size=8), positive)
def test_time_is_never_passed_by_more_than_one_task(times, budget_s):
    clock = Clock()
    tasks = [clock.task(str(i), seconds, expected_s=0.02) for i, seconds in enumerate(times)]
    clock.run(tasks, budget_s)
    assert clock.now_s - 50.0 <= budget_s + max(map(max, times)) * (1.0 + 1e-9)


def test_all_time_is_used_that_a_task_fits_into():
    clock = Clock()
    clock.run([clock.task("a", [1.0]), clock.task("b", [0.1])], 20.0)
    assert clock.now_s - 50.0 > 20.0 - 2 * HEADROOM * 0.1


def test_first_round_goes_tier_by_tier():
    clock = Clock()
    tasks = [clock.task(f"{tier}{i}", [1.0], tier=tier) for i in range(9) for tier in (2, 0, 1)]
    clock.run(tasks, 1000.0)
    assert [name[0] for name in clock.order[:27]] == ["0"] * 9 + ["1"] * 9 + ["2"] * 9
    assert clock.order[:9] != sorted(clock.order[:9])


def test_repeats_are_spread_over_the_run():
    clock = Clock()
    clock.run([clock.task(str(i), [1.0]) for i in range(10)], 200.0)
    for i in range(10):
        places = [place for place, name in enumerate(clock.order) if name == str(i)]
        assert len(places) >= 18
        assert places[0] < 10
        assert places[-1] >= len(clock.order) - 20
        assert np.std(np.diff(places)) > 0.0


def test_cheap_tasks_are_measured_more_often():
    clock = Clock()
    outcome = clock.run([clock.task("cheap", [0.01]), *(clock.task(str(i), [1.0]) for i in range(9))], 100.0)
    counts = {case.what: len(values) for case, values in outcome.samples.items()}
    assert counts["cheap"] >= 3 * counts["0"] - 2
    assert max(counts[str(i)] for i in range(9)) - min(counts[str(i)] for i in range(9)) <= 1


def test_what_does_not_fit_is_named():
    clock = Clock()
    outcome = clock.run([clock.task("long", [100.0]), clock.task("short", [1.0])], 10.0)
    assert outcome.unmeasured == ("long",)
    assert set(outcome.samples) == {RateCase("short")}


def test_a_first_call_that_prepares_does_not_stand_for_the_next():
    clock = Clock()
    outcome = clock.run([clock.task("a", [5.0, 1.0], expected_s=5.0)], 13.0)
    assert len(outcome.samples[RateCase("a")]) >= 6


def test_progress_adds_up_to_the_time():
    clock = Clock()
    steps: list[int] = []
    clock.run([clock.task("a", [0.5]), clock.task("b", [0.25])], 20.0, steps.append)
    assert sum(steps) == pytest.approx(1e3 * (clock.now_s - 50.0), abs=len(steps))


@given(st.lists(st.floats(1e-9, 1e12), min_size=1, max_size=50))
def test_percentiles_are_ordered_and_among_the_values(values):
    spread = spread_of(values)
    assert spread.low <= spread.median <= spread.high
    assert min(values) * (1 - 1e-5) <= spread.low
    assert spread.high <= max(values) * (1 + 1e-5)
    assert spread.n == len(values)


def test_percentiles_are_the_tenth_and_the_ninetieth():
    assert spread_of([7.0]) == Spread(median=7.0, low=7.0, high=7.0, n=1)
    assert spread_of([float(v + 1) for v in range(11)]) == Spread(median=6.0, low=2.0, high=10.0, n=11)


@pytest.mark.parametrize(
    ("values", "problem"), [([], "must not be empty"), ([1.0, 0.0], "greater than 0"), ([float("nan")], "finite")]
)
def test_spread_of_no_time_is_refused(values: list[float], problem: str):
    with pytest.raises(ValueError, match=problem):
        spread_of(values)


def _spread(width: float, n: int) -> Spread:
    return Spread(median=1.0, low=1.0 - width / 2, high=1.0 + width / 2, n=n)


def test_noise_is_the_median_width_of_what_was_repeated():
    assert noise_of([_spread(0.1, 5), _spread(0.2, 3), _spread(0.6, 9), _spread(0.0, 2)]) == pytest.approx(0.2)
    assert noise_of([_spread(0.0, 1), _spread(0.4, 2)]) == pytest.approx(0.2)
    with pytest.raises(ValueError, match="must not be empty"):
        noise_of([])


@given(st.floats(0.1, 10.0))
def test_drift_is_speed_at_the_end_over_speed_at_the_start(slowdown):
    before = [[1.0, 1.1, 1.2], [2.0, 2.0, 9.0]]
    after = [[slowdown * seconds for seconds in kind] for kind in before]
    assert drift_of(before, after) == pytest.approx(1.0 / slowdown, rel=1e-5)
