"""Schedules by hand: hysteresis, merging, what may not be chosen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from specbook.deploy.schedule import LengthTable, best_length, draft_schedule
from tests.deploy_cases import table


def _spans(known: LengthTable, **options: float) -> list[tuple[int, int, int]]:
    found = draft_schedule(known, **{"min_batches": 1} | options)
    return [(each.first_batch, each.last_batch, each.draft_length) for each in found]


def test_a_length_is_kept_until_another_gains_more_than_the_threshold():
    known = table([[9.0, 5.0, 4.0], [9.0, 5.9, 6.0], [9.0, 6.5, 7.0]], (1, 2, 4), (0, 2, 4))
    assert _spans(known, min_gain=0.0) == [(1, 1, 4), (2, 4, 2)]
    assert _spans(known, min_gain=0.03) == [(1, 3, 4), (4, 4, 2)]
    assert _spans(known, min_gain=0.1) == [(1, 4, 4)]


def test_a_length_is_left_where_it_no_longer_pays_however_small_the_loss():
    known = table([[9.0, 8.0], [9.0, 9.01]], (1, 8), (0, 3))
    assert _spans(known, min_gain=0.5) == [(1, 7, 3), (8, 8, 0)]


def test_flapping_between_two_lengths_of_one_speed_is_one_range():
    rows = [[9.0, 5.0 + 0.05 * (i % 2), 5.0 + 0.05 * ((i + 1) % 2)] for i in range(8)]
    known = table(rows, range(1, 9), (0, 2, 3))
    assert len(_spans(known, min_gain=0.0)) == 8
    assert _spans(known) == [(1, 8, 2)]


def test_a_short_range_goes_where_it_loses_less():
    known = table([[9, 4, 6], [9, 4, 6], [9, 5.4, 5], [9, 4, 6], [9, 4, 6], [9, 9.5, 6]], range(1, 7), (0, 2, 4))
    assert _spans(known) == [(1, 2, 2), (3, 3, 4), (4, 5, 2), (6, 6, 4)]
    merged = draft_schedule(known, min_batches=2)
    assert [(each.first_batch, each.last_batch, each.draft_length) for each in merged] == [(1, 5, 2), (6, 6, 4)]
    assert [each.was_merged for each in merged] == [True, False]
    assert merged[0].largest_loss == pytest.approx(0.08)


def test_a_short_range_stays_where_it_would_lose_more_than_a_tenth():
    known = table([[9.0, 4.0], [9.0, 9.5], [9.0, 9.5]], (1, 2, 3), (0, 4))
    assert _spans(known, min_batches=2) == [(1, 1, 4), (2, 3, 0)]


def test_a_range_that_had_to_stay_goes_when_its_neighbour_has_changed():
    known = table([[2.0, 1.9, 3.0], [2.0, 3.0, 1.9], [2.0, 3.0, 3.0]], (1, 2, 3), (0, 2, 4))
    assert _spans(known) == [(1, 1, 2), (2, 2, 4), (3, 3, 0)]
    assert _spans(known, min_batches=2) == [(1, 3, 0)]


def test_a_short_range_stays_where_neither_neighbour_pays():
    known = table([[9.0, 8.0, 9.5], [9.0, 9.5, 8.0], [9.0, 8.0, 9.5], [9.0, 8.0, 9.5]], (1, 2, 3, 4), (0, 2, 4))
    assert _spans(known, min_batches=2) == [(1, 1, 2), (2, 2, 4), (3, 4, 2)]


def test_the_first_range_reaches_down_to_one_and_the_last_is_never_too_short():
    known = table([[9.0, 8.5], [9.0, 9.5]], (8, 64), (0, 3))
    assert _spans(known, min_batches=50) == [(1, 63, 3), (64, 64, 0)]
    assert _spans(known, min_batches=1000) == [(1, 64, 0)]


def test_a_faster_length_that_does_not_fit_is_no_loss():
    known = table([[9.0, 6.0, 4.0], [9.0, 6.0, 4.0]], (1, 8), (0, 2, 4))
    small = replace(known, pays=np.array([[True, True, True], [True, True, False]]))
    first, last = draft_schedule(small, min_batches=1)
    assert (first.draft_length, last.draft_length, last.first_batch) == (4, 2, 8)
    assert last.largest_loss == 0.0


def test_ties_go_to_the_shorter_length():
    known = table([[9.0, 5.0, 5.0]], (4,), (0, 2, 4))
    assert _spans(known) == [(1, 4, 2)]
    assert best_length(known, 4) == 2


def test_a_batch_that_was_not_projected_has_no_best_length():
    with pytest.raises(ValueError, match=r"batch must be one of \(4,\); got 5"):
        best_length(table([[9.0, 5.0]], (4,), (0, 2)), 5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batches": (4, 1)}, "batches must rise"),
        ({"draft_lengths": (1, 2)}, "draft_lengths must start at 0"),
        ({"tpot_s": np.ones((2, 3))}, "n_batches by n_lengths"),
        ({"tpot_s": np.array([[1.0, 0.0], [1.0, 1.0]])}, "tpot_s must"),
        ({"tpot_s": np.array([[1.0, np.nan], [1.0, 1.0]])}, "tpot_s must"),
        ({"pays": np.zeros((2, 2), dtype=bool)}, "pays must allow draft length 0"),
    ],
)
def test_impossible_tables_are_refused(changes: dict[str, object], message: str):
    usual: dict[str, object] = {
        "batches": (1, 4), "draft_lengths": (0, 2), "tpot_s": np.ones((2, 2)), "pays": np.ones((2, 2), dtype=bool),
    }  # fmt: skip
    with pytest.raises(ValueError, match=message):
        LengthTable(**(usual | changes))


@pytest.mark.parametrize(
    ("options", "message"), [({"min_gain": -0.1}, "min_gain"), ({"min_batches": 0}, "min_batches")]
)
def test_impossible_thresholds_are_refused(options: dict[str, float], message: str):
    with pytest.raises(ValueError, match=message):
        _spans(table([[9.0, 5.0]], (1,), (0, 2)), **options)
