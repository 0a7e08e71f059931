"""Histograms of batches: which values a batch holds, how its quantile is found, and when there is no interval."""

from __future__ import annotations

import numpy as np
import pytest

from specbook.serving.batch_means import around
from specbook.serving.sketch_batches import SketchBatches


def drifting(n_parts: int) -> tuple[np.ndarray, np.ndarray]:
    """Parts of 100 values that become longer and longer, and how often each value came."""
    rng = np.random.default_rng(1)
    seconds = 0.01 * 1.02 ** np.arange(n_parts)[:, None] * rng.lognormal(0.0, 0.2, (n_parts, 100))
    return seconds, rng.integers(1, 9, (n_parts, 100))


def counted(seconds: np.ndarray, counts: np.ndarray) -> SketchBatches:
    batches = SketchBatches()
    for part_s, times in zip(seconds, counts, strict=True):
        batches.add(part_s, times)
    return batches


@pytest.mark.parametrize(("n_parts", "parts_per_batch"), [(20, 1), (39, 1), (40, 2), (51, 2), (79, 2), (85, 4)])
@pytest.mark.parametrize("q", [0.5, 0.9])
def test_interval_is_that_of_the_batches_one_by_one(n_parts: int, parts_per_batch: int, q: float):
    seconds, counts = drifting(n_parts)
    whole = n_parts // parts_per_batch
    of_batches = [
        np.quantile(np.repeat(part_s.ravel(), times.ravel()), q, method="inverted_cdf")
        for part_s, times in zip(
            seconds[: whole * parts_per_batch].reshape(whole, -1),
            counts[: whole * parts_per_batch].reshape(whole, -1),
            strict=True,
        )
    ]
    centre_s = float(np.mean(of_batches))
    expected = around(centre_s, np.array(of_batches), 0.95)
    assert counted(seconds, counts).interval(q, centre_s) == pytest.approx(expected, rel=1e-3)


def test_batches_that_are_all_alike_leave_only_the_accuracy():
    batches = counted(np.full((30, 100), 0.0123), np.ones((30, 100), dtype=np.int64))
    low, high = batches.interval(0.9, 0.0123) or (0.0, 1.0)
    assert low <= 0.0123 <= high
    assert high - low < 2e-3 * 0.0123


def test_there_is_no_interval_of_few_batches_or_of_one_that_is_too_small():
    seconds, counts = drifting(20)
    assert counted(seconds[:19], counts[:19]).interval(0.5, 0.01) is None
    assert counted(seconds, counts).interval(0.5, 0.01) is not None
    counts[7, 5:] = 0
    counts[7, :5] = 1
    assert counted(seconds, counts).interval(0.5, 0.01) is None
    counts[7, :6] = 1
    assert counted(seconds, counts).interval(0.5, 0.01) is not None


def test_gaps_of_nothing_and_of_ages_have_a_place():
    batches = counted(np.tile([0.0, 1e-9, 1e6], (20, 1)), np.full((20, 3), 10))
    low, high = batches.interval(0.5, 1e-6) or (0.0, 1.0)
    assert high - low < 1e-8
