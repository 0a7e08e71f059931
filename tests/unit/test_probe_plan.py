"""What a probe measures for a budget, and what it leaves out where memory is short."""

from __future__ import annotations

from itertools import pairwise

import pytest

from specbook.checks import BadInput
from specbook.hardware.probe.models import SCRATCH_MODELS
from specbook.hardware.probe.plan import ASSUMED_CACHE_BYTES, ProbePlan, cache_values, plan_probe
from tests.fake_devices import MEBIBYTE, fake_backend

GIBIBYTE = 2**30


def _cells(plan: ProbePlan, model: str) -> dict[tuple[int, int], set[int]]:
    cells: dict[tuple[int, int], set[int]] = {}
    for case in plan.passes:
        if case.model == model:
            cells.setdefault((case.batch, case.context), set()).add(case.width)
    return cells


def test_a_minute_holds_the_whole_matrix():
    plan = plan_probe(60.0, fake_backend())
    cells = _cells(plan, "specbook-target-r8")
    assert set(cells) == {(batch, context) for batch in (1, 4, 16) for context in (512, 4096, 16384)}
    assert all(widths == {1, 2, 3, 5, 9} for widths in cells.values())
    assert _cells(plan, "specbook-draft") == cells  # a drafter is asked for at the batches of its target
    assert _cells(plan, "specbook-target") == {(1, context): {1, 2, 3, 5, 9} for context in (512, 4096, 16384)}
    assert {case.arithmetic for case in plan.passes} == {"fast", "exact"}
    assert {case.rows for case in plan.products} == set(range(1, 18))
    assert {case.rows for case in plan.attention} == {1, 2, 3, 5, 9}
    assert plan.warnings == ()


def test_less_time_measures_less_and_never_something_else():
    plans = [plan_probe(budget_s, fake_backend()) for budget_s in (60.0, 20.0, 5.0)]
    for larger, smaller in pairwise(plans):
        assert set(smaller.products) < set(larger.products)
        assert set(smaller.attention) < set(larger.attention)
        assert set(smaller.passes) < set(larger.passes)
        assert smaller.scratch_bytes <= larger.scratch_bytes


def test_arrays_are_four_times_the_cache_and_64_mebibytes_at_least():
    assert plan_probe(60.0, fake_backend()).array_bytes == 64 * MEBIBYTE
    assert plan_probe(60.0, fake_backend(last_level_cache_bytes=48 * MEBIBYTE)).array_bytes == 192 * MEBIBYTE


def test_arrays_that_would_take_too_long_are_smaller_and_it_is_said():
    plan = plan_probe(5.0, fake_backend(last_level_cache_bytes=512 * MEBIBYTE))
    assert plan.array_bytes < 4 * 512 * MEBIBYTE
    assert plan.warnings == (
        "bandwidth may be partly the cache's: arrays of 179 MiB each, the last-level cache 512 MiB",
    )


def test_a_cache_that_is_not_stated_is_assumed_and_it_is_said():
    plan = plan_probe(60.0, fake_backend(last_level_cache_bytes=0))
    assert plan.cache_bytes == ASSUMED_CACHE_BYTES
    assert plan.warnings == ("the machine does not state its last-level cache; 32 MiB assumed",)


def test_scratch_is_the_sum_of_its_parts():
    plan = plan_probe(60.0, fake_backend())
    arrays, cache = 3 * plan.array_bytes, 8 * plan.kv_values
    products = 4 * sum(case.weights.n_values for case in plan.products if case.rows == 1)
    models = 2 * 4 * sum(spec.n_parameters for spec in SCRATCH_MODELS.values())
    assert plan.kv_values == cache_values(SCRATCH_MODELS["specbook-target-r8"], 16, 16384)
    assert arrays + cache + products + models < plan.scratch_bytes < 1.3 * (arrays + cache + products + models)


def test_short_memory_drops_the_largest_cells_and_names_them():
    plenty = plan_probe(60.0, fake_backend())
    plan = plan_probe(60.0, fake_backend(free_bytes=4 * GIBIBYTE))
    assert plan.scratch_bytes <= 2 * GIBIBYTE < plenty.scratch_bytes
    assert set(_cells(plenty, "specbook-target-r8")) - set(_cells(plan, "specbook-target-r8")) == {(16, 16384)}
    assert plan.warnings == (
        f"memory: 4,295 MB free, so {plan.scratch_bytes / 1e6:,.0f} MB of scratch instead of "
        f"{plenty.scratch_bytes / 1e6:,.0f} MB",
        "left out for want of memory: batch 16 × context 16,384",
    )


def test_shorter_memory_drops_weights_then_models_and_shrinks_the_arrays_last():
    plan = plan_probe(60.0, fake_backend(free_bytes=900 * MEBIBYTE))
    assert {(case.batch, case.context) for case in plan.passes} == {(1, 512)}
    assert plan.array_bytes == 64 * MEBIBYTE
    assert plan.warnings[2:] == (
        "left out for want of memory: products with weights 384 × 8192, 3072 × 576, 16384 × 384, 49152 × 576",
        "left out for want of memory: passes of specbook-target-r8",
    )
    less = plan_probe(60.0, fake_backend(free_bytes=500 * MEBIBYTE))
    assert less.array_bytes < plan.array_bytes
    assert {case.model for case in less.passes} == {"specbook-draft"}


@pytest.mark.parametrize("free_mebibytes", [400, 500, 800, 1200, 1300, 2000, 3000, 4000, 8000])
def test_scratch_is_never_more_than_half_of_what_is_free(free_mebibytes: int):
    plan = plan_probe(60.0, fake_backend(free_bytes=free_mebibytes * MEBIBYTE))
    assert 2 * plan.scratch_bytes <= free_mebibytes * MEBIBYTE


def test_memory_for_no_probe_is_refused():
    with pytest.raises(BadInput, match=r"^memory: leaves 105 MB for a probe, which takes .* MB; close other programs"):
        plan_probe(5.0, fake_backend(free_bytes=200 * MEBIBYTE))


@pytest.mark.parametrize("budget_s", [4.99, 0.0, -1.0, 3601.0, float("nan"), float("inf")])
def test_no_time_is_refused(budget_s: float):
    with pytest.raises(BadInput, match=r"--seconds = .*: is no time to probe a machine in; give 5 to 3600 seconds"):
        plan_probe(budget_s, fake_backend())
