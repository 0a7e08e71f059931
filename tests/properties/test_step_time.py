"""Step times, speedups and the grid: bounds, monotonicity, scaling, and one formula for one cell or for all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from specbook.acceptance.candidates import DraftCandidates
from specbook.hardware.profile import catalogue_device, catalogue_names
from specbook.roofline.grid import GridConfig, evaluate_grid, project
from specbook.roofline.model_spec import PRECISIONS, model, model_names
from specbook.roofline.pass_cost import expert_coverage, step_cost
from specbook.roofline.speedup import DraftingPair
from specbook.roofline.step_time import DeviceRates, DoctrineRoofline, arithmetic_seconds, device_rates, memory_seconds
from tests.tiny_costs import chain_times, doctrine_pair

MODELS = st.sampled_from(model_names())
FORMATS = st.sampled_from(list(PRECISIONS))
DEVICES = st.sampled_from(catalogue_names()).map(catalogue_device)
TOKENS, BATCHES, CONTEXTS = st.integers(1, 20), st.integers(1, 2000), st.integers(1, 200_000)
STEPS = st.builds(
    lambda name, width, device: DoctrineRoofline(
        cost=step_cost(model(name), width), device=device_rates(device, width)
    ),
    MODELS,
    FORMATS,
    DEVICES,
)


@st.composite
def chains(draw: st.DrawFn) -> DraftingPair:
    target, draft = draw(FORMATS), draw(FORMATS)
    device = draw(DEVICES)
    return doctrine_pair(
        target=step_cost(model(draw(MODELS)), target),
        draft=step_cost(model(draw(MODELS)), draft),
        target_device=device_rates(device, target),
        draft_device=device_rates(device, draft),
    )


@given(STEPS, TOKENS, BATCHES, CONTEXTS)
def test_step_time_is_at_least_both_of_its_bounds(step: DoctrineRoofline, tokens: int, batch: int, context: int):
    seconds = step(tokens, batch, context) - step.device.overhead_s
    slack = 1 + 1e-12
    assert seconds * slack >= arithmetic_seconds(tokens, batch, context, step.cost, step.device)
    assert seconds * slack >= memory_seconds(tokens, batch, context, step.cost, step.device)
    assert seconds > 0


@given(STEPS, TOKENS, BATCHES, CONTEXTS, st.integers(1, 500))
def test_step_time_never_falls_with_more_work(step: DoctrineRoofline, tokens: int, batch: int, context: int, more: int):
    base = step(tokens, batch, context)
    for wider in (step(tokens + more, batch, context), step(tokens, batch + more, context),
                  step(tokens, batch, context + more)):  # fmt: skip
        assert wider >= base


@given(STEPS, TOKENS, BATCHES, CONTEXTS)
def test_step_time_regime_names_the_longer_bound(step: DoctrineRoofline, tokens: int, batch: int, context: int):
    bounds = {
        "compute": arithmetic_seconds(tokens, batch, context, step.cost, step.device),
        "memory": memory_seconds(tokens, batch, context, step.cost, step.device),
    }
    regime = str(step.regime(tokens, batch, context))
    assert bounds[regime] == max(bounds.values())


@given(st.integers(1, 5000), st.integers(1, 256), st.data())
def test_expert_coverage_is_a_growing_share(n_tokens: int, n_experts: int, data: st.DataObject):
    used = data.draw(st.integers(1, n_experts))
    share = expert_coverage(n_tokens, n_experts, used)
    assert 0 < share <= 1
    assert expert_coverage(n_tokens + 1, n_experts, used) >= share
    assert share * n_experts <= min(n_experts, n_tokens * used) * (1 + 1e-12)


@given(chains(), BATCHES, CONTEXTS)
def test_no_draft_is_exactly_the_baseline(pair: DraftingPair, batch: int, context: int):
    each = chain_times(0, batch, context, 1.0, pair)
    assert each.speedup == 1.0
    assert each.tpot_s == each.baseline_tpot_s == each.verify_s == each.round_s


@given(chains(), st.integers(0, 16), BATCHES, CONTEXTS, st.floats(0.0, 1.0))
def test_speedup_is_at_most_the_tokens_of_a_round(
    pair: DraftingPair, length: int, batch: int, context: int, share: float
):
    tokens = 1 + share * length
    assert chain_times(length, batch, context, tokens, pair).speedup <= tokens * (1 + 1e-12)


@given(chains(), st.integers(1, 16), BATCHES, CONTEXTS)
def test_speedup_rises_in_proportion_to_the_tokens(pair: DraftingPair, length: int, batch: int, context: int):
    one, two = (chain_times(length, batch, context, tokens, pair).speedup for tokens in (1.0, 2.0))
    np.testing.assert_allclose(two, 2 * one, rtol=1e-14)


def _scaled(rates: DeviceRates, factor: float) -> DeviceRates:
    return DeviceRates(
        flops_per_s=rates.flops_per_s * factor,
        bandwidth_bytes_per_s=rates.bandwidth_bytes_per_s * factor,
        overhead_s=rates.overhead_s / factor,
    )


@given(chains(), st.integers(0, 16), BATCHES, CONTEXTS, st.floats(1e-3, 1e3))
def test_speedup_does_not_change_when_every_rate_is_scaled(
    pair: DraftingPair, length: int, batch: int, context: int, factor: float
):
    target, draft = (replace(step, device=_scaled(step.device, factor)) for step in (pair.target, pair.drafter.step))
    faster = replace(pair, target=target, drafter=replace(pair.drafter, step=draft))
    ours, theirs = (chain_times(length, batch, context, 1.5, each) for each in (pair, faster))
    np.testing.assert_allclose(theirs.speedup, ours.speedup, rtol=1e-10)
    np.testing.assert_allclose(theirs.tpot_s * factor, ours.tpot_s, rtol=1e-10)


@st.composite
def grids(draw: st.DrawFn) -> GridConfig:
    lengths = tuple(sorted({0, *draw(st.lists(st.integers(1, 16), max_size=4))}))
    shares = draw(st.lists(st.floats(0, 1), min_size=len(lengths), max_size=len(lengths)))
    axis = st.lists(st.integers(1, 4096), min_size=1, max_size=3, unique=True)
    return GridConfig(
        step_time="doctrine",
        hardware=tuple(draw(st.lists(DEVICES, min_size=1, max_size=3, unique_by=lambda device: device.name))),
        target=model(draw(MODELS)),
        draft=model(draw(MODELS)),
        candidates=DraftCandidates(
            draft_lengths=lengths,
            expected_tokens=tuple(1 + share * length for share, length in zip(shares, lengths, strict=True)),
            assumptions=("measured",) * len(lengths),
        ),
        batches=tuple(draw(axis)),
        contexts=tuple(draw(axis)),
        precision=draw(FORMATS),
        draft_precision=draw(FORMATS),
    )


@settings(max_examples=40)
@given(grids())
def test_whole_grid_equals_each_cell_by_itself(config: GridConfig):
    table = project(config)
    tokens = dict(zip(config.candidates.draft_lengths, config.candidates.expected_tokens, strict=True))
    devices = {device.name: device for device in config.hardware}
    assert table.height == np.prod(config.shape)
    for row in table.iter_rows(named=True):
        device, length, batch, context = (row[name] for name in ("hardware", "draft_length", "batch", "context"))
        pair = doctrine_pair(
            target=step_cost(config.target, config.precision),
            draft=step_cost(config.draft, config.draft_precision),
            target_device=device_rates(devices[device], config.precision),
            draft_device=device_rates(devices[device], config.draft_precision),
        )
        each = chain_times(length, batch, context, tokens[length], pair)
        names = ("draft_s", "verify_s", "round_s", "baseline_tpot_s", "tpot_s", "speedup")
        np.testing.assert_allclose([row[name] for name in names], [getattr(each, name) for name in names], rtol=1e-13)
        assert row["regime"] == pair.target.regime(length + 1, batch, context)
        cache = pair.target_kv_bytes_per_token + (length > 0) * pair.draft_kv_bytes_per_token
        assert row["kv_bytes"] == batch * context * cache
        weights = config.target.weight_bytes(config.precision)
        weights += (length > 0) * config.draft.weight_bytes(config.draft_precision)
        assert row["fits_memory"] == (weights + row["kv_bytes"] <= devices[device].memory_bytes.value)


@settings(max_examples=40)
@given(grids())
def test_grid_in_another_order_holds_the_same_cells(config: GridConfig):
    turned = replace(config, batches=config.batches[::-1], contexts=config.contexts[::-1])
    ours, theirs = (np.broadcast_to(evaluate_grid(each).speedup, each.shape) for each in (config, turned))
    np.testing.assert_array_equal(theirs[:, :, ::-1, ::-1], ours)
