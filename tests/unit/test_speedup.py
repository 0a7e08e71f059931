"""Rounds, speedup, the best draft length, and the batch at which it stops paying."""

from __future__ import annotations

import numpy as np
import pytest

from specbook.roofline.speedup import (
    best_draft_length,
    break_even_batch,
    round_seconds,
    speedup,
)
from specbook.roofline.step_time import DeviceRates
from tests.tiny_costs import chain_times, doctrine_pair, tiny_cost

TARGET = tiny_cost(
    dense_weight_bytes=1000.0,
    kv_bytes_per_token=0.0,
    flops_per_token=100.0,
    attention_flops_per_token_and_context=0.0,
)
DRAFT = tiny_cost(
    dense_weight_bytes=100.0,
    kv_bytes_per_token=0.0,
    flops_per_token=10.0,
    attention_flops_per_token_and_context=0.0,
)
SLOW = DeviceRates(flops_per_s=1000.0, bandwidth_bytes_per_s=1000.0, overhead_s=0.0)
FAST = DeviceRates(flops_per_s=1000.0, bandwidth_bytes_per_s=4000.0, overhead_s=0.0)
PAIR = doctrine_pair(
    target=TARGET,
    draft=DRAFT,
    target_device=SLOW,
    draft_device=FAST,
)


def test_round_seconds_no_draft_is_one_verify_pass():
    assert round_seconds(0, 0.5, 2.0) == 2.0
    assert round_seconds(3, 0.5, 2.0) == 3.5


def test_speedup_by_hand():
    assert speedup(3.0, 2.0, 3.0) == 2.0


def test_round_times_memory_bound_by_hand():
    each = chain_times(4, 1, 1, 3.0, PAIR)
    assert each.draft_s == 4 * 100 / 4000
    assert each.verify_s == each.baseline_tpot_s == 1.0
    assert each.round_s == pytest.approx(1.1)
    assert each.tpot_s == pytest.approx(1.1 / 3)
    assert each.speedup == pytest.approx(3 / 1.1)


def test_round_times_verify_pass_is_one_wider_than_the_draft():
    each = chain_times(9, 1, 1, 3.0, PAIR)
    assert each.verify_s == 1.0
    assert chain_times(10, 1, 1, 3.0, PAIR).verify_s == pytest.approx(11 * 100 / 1000)


def test_round_times_batch_computes_for_every_sequence():
    each = chain_times(4, 8, 1, 3.0, PAIR)
    assert each.verify_s == pytest.approx(8 * 5 * 100 / 1000)
    assert each.baseline_tpot_s == 1.0
    assert each.draft_s == pytest.approx(4 * 8 * 10 / 1000)


def test_round_times_no_draft_has_speedup_exactly_one():
    each = chain_times(0, np.array([1, 7, 300]), 513, 1.0, PAIR)
    assert each.speedup.tolist() == [1.0, 1.0, 1.0]
    assert each.tpot_s.tolist() == each.baseline_tpot_s.tolist()


@pytest.mark.parametrize(
    ("speedups", "lengths", "best"),
    [
        ([1.0, 1.4, 1.3], [0, 2, 4], 2),
        ([1.0, 0.9, 0.8], [0, 2, 4], 0),
        ([1.0, 1.0, 1.0], [0, 2, 4], 0),
        ([1.0, 1.5, 1.2, 1.6], [0, 1, 2, 3], 3),
        ([0.7], [3], 3),
    ],
)
def test_best_draft_length_is_the_shortest_of_the_fastest(speedups: list, lengths: list, best: int):
    assert best_draft_length(speedups, lengths) == best


def test_best_draft_length_along_another_axis():
    assert best_draft_length([[1.0, 1.0], [1.2, 0.9]], [0, 4], axis=0).tolist() == [4, 0]


@pytest.mark.parametrize(
    ("speedups", "lengths", "message"),
    [
        ([1.0, np.nan], [0, 1], "speedups must be finite; got nan"),
        ([1.0, np.inf], [0, 1], "speedups must be finite; got inf"),
        ([1.0, 1.1], [1, 0], r"draft_lengths must rise; got \[1, 0\]"),
        ([1.0, 1.1], [1, 1], r"draft_lengths must rise; got \[1, 1\]"),
        ([1.0, 1.1], [-1, 1], "draft_lengths must be whole and at least 0; got -1"),
        ([1.0, 1.1], [0, 1.5], "draft_lengths must be whole and at least 0; got 1.5"),
    ],
)
def test_best_draft_length_bad_input_is_refused(speedups: list, lengths: list, message: str):
    with pytest.raises(ValueError, match=message):
        best_draft_length(speedups, lengths)


@pytest.mark.parametrize(
    ("speedups", "boundary"),
    [
        ([1.9, 1.2, 0.8, 0.7], 64.0),
        ([0.9, 0.8, 0.7, 0.6], 1.0),
        ([1.9, 1.8, 1.7, 1.6], np.inf),
        ([1.0, 1.0, 1.0, 1.0], 1.0),
        ([1.5, 1.0, 1.0, 1.0], 8.0),
        ([0.9, 0.9, 1.1, 0.9], 128.0),
        ([1.1, 0.9, 1.1, 1.2], np.inf),
    ],
)
def test_break_even_batch_is_after_the_last_batch_that_pays(speedups: list[float], boundary: float):
    assert break_even_batch(speedups, [1, 8, 64, 128]) == boundary


def test_break_even_batch_along_another_axis():
    speedups = np.array([[1.2, 0.9], [0.9, 0.8]])
    assert break_even_batch(speedups, [1, 8], axis=0).tolist() == [8.0, 1.0]
    assert break_even_batch(speedups, [1, 8], axis=1).tolist() == [8.0, 1.0]


@pytest.mark.parametrize(
    ("speedups", "batches", "message"),
    [
        ([1.0, np.nan], [1, 2], "speedups must be finite; got nan"),
        ([1.0, 1.1], [2, 1], r"batches must rise; got \[2, 1\]"),
        ([1.0, 1.1], [1, 1], r"batches must rise; got \[1, 1\]"),
        ([1.0, 1.1], [0, 1], "batches must be whole and at least 1; got 0"),
        ([1.0, 1.1], [1, 1.5], "batches must be whole and at least 1; got 1.5"),
    ],
)
def test_break_even_batch_bad_input_is_refused(speedups: list, batches: list, message: str):
    with pytest.raises(ValueError, match=message):
        break_even_batch(speedups, batches)
