"""From models, devices and evidence to an engine: blocks by hand, step times, laws."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specbook.acceptance.library import library_profile
from specbook.acceptance.profile import profile_from_counts
from specbook.checks import BadInput
from specbook.funnel_config import FunnelConfig
from specbook.hardware.profile import catalogue_device
from specbook.roofline.calibrated import CalibratedRoofline
from specbook.roofline.calibrations import calibrated_rates
from specbook.roofline.model_spec import model
from specbook.roofline.pass_cost import step_cost
from specbook.serving.draft_time import ConstantDraft, NoDraft, SteppedDraft
from specbook.serving_setup import (
    DraftEvidence,
    EngineLimits,
    ServingSetup,
    drafts_from,
    setup_from_file,
    setup_from_models,
)

COUNTED = profile_from_counts({4: [24, 18, 14, 11, 33]}, draft_length=4, method="draft_model")
FUNNEL = FunnelConfig(
    profiles=(COUNTED,),
    hardware=(catalogue_device("h100-sxm5"),),
    target=model("Llama-3.1-8B"),
    draft=model("Llama-3.2-1B"),
    batches=(256,),
    contexts=(4096,),
)
DRAFTS = drafts_from(DraftEvidence(profiles=(COUNTED,)))


def _setup(limits: EngineLimits | None = None, **changes: Any) -> ServingSetup:
    return setup_from_models(replace(FUNNEL, **changes), DRAFTS, limits or EngineLimits())


def test_blocks_by_hand():
    setup, target, draft = _setup(), FUNNEL.target, FUNNEL.draft
    assert draft is not None
    memory = 0.9 * FUNNEL.hardware[0].memory_bytes.value
    left = memory - target.weight_bytes("bf16")
    assert setup.baseline.kv.n_blocks == int(left / (16 * target.kv_bytes_per_token()))
    both = target.kv_bytes_per_token() + draft.kv_bytes_per_token()
    assert setup.config.kv.n_blocks == int((left - draft.weight_bytes("bf16")) / (16 * both))
    assert setup.config.kv.watermark_blocks == setup.config.kv.n_blocks // 100
    assert f"{setup.config.kv.n_blocks:,} blocks" in setup.kv_text
    assert f"({setup.baseline.kv.n_blocks:,} without the drafter)" in setup.kv_text


def test_two_devices_hold_more_than_twice_the_blocks():
    one, two = _setup().config.kv.n_blocks, _setup(tensor_parallel=2).config.kv.n_blocks
    assert two > 2 * one


def test_stated_blocks_are_those_of_both_engines():
    setup = _setup(EngineLimits(n_blocks=500, watermark_blocks=7, block_size_tokens=32))
    assert setup.config.kv == setup.baseline.kv
    assert (setup.config.kv.n_blocks, setup.config.kv.watermark_blocks) == (500, 7)
    assert "as stated" in setup.kv_text


def test_baseline_has_no_drafter_at_all():
    setup = _setup()
    assert setup.baseline.largest_draft == 0
    assert isinstance(setup.baseline.draft_time, NoDraft)
    assert setup.baseline.iteration_time is setup.config.iteration_time


def test_decode_iterations_cost_what_the_projection_says():
    rates = calibrated_rates(FUNNEL.hardware[0], "bf16")
    cost = step_cost(FUNNEL.target, "bf16")
    step = CalibratedRoofline(cost=cost, rates=rates)
    setup = _setup()
    seconds = setup.config.iteration_time.decode_seconds(8, 8 * 5, np.array([8 * 1000]))
    assert seconds == pytest.approx(step(5, 8, 1000), rel=1e-9)
    draft = CalibratedRoofline(cost=step_cost(model("Llama-3.2-1B"), "bf16"), rates=rates)
    drafting = setup.config.draft_time.seconds(4, 4, 8, np.array([8 * 1000]))
    assert drafting == pytest.approx(4 * draft(1, 8, 1000), rel=1e-9)
    assert setup.flops_per_token == cost.flops_per_token


def test_prompts_cost_a_drafter_its_pass_without_the_head():
    setup = _setup()
    assert isinstance(setup.config.draft_time, SteppedDraft)
    assert setup.config.draft_time.prefill_step is not None
    with_head = CalibratedRoofline(
        cost=step_cost(model("Llama-3.2-1B"), "bf16"), rates=calibrated_rates(FUNNEL.hardware[0], "bf16")
    )
    spent = setup.config.draft_time.prefill_seconds([(2048, 0)])
    assert 0.5 * with_head(2048, 1, 1024) < spent < with_head(2048, 1, 1024)


@pytest.mark.parametrize(
    ("method", "has_prefill"), [("draft_model", True), ("eagle", True), ("mtp", True), ("medusa", False)]
)
def test_drafters_that_read_the_prompt(method: Any, has_prefill: bool):
    draft_time = _setup(method=method).config.draft_time
    assert isinstance(draft_time, SteppedDraft)
    assert (draft_time.prefill_step is not None) == has_prefill


def test_ngram_has_no_weights_and_no_cache():
    setup = _setup(method="ngram", draft=None)
    assert setup.config.kv == setup.baseline.kv


def test_no_room_says_how_much_the_weights_take():
    with pytest.raises(BadInput, match=r"target = 'Llama-3.1-70B': 143.6 GB of weights leave no room .* h100-sxm5"):
        _setup(target=model("Llama-3.1-70B"))


def test_notes_say_where_evidence_and_models_differ():
    named = COUNTED.model_copy(update={"target": "Qwen3-8B"})
    notes = _setup(profiles=(named,)).notes
    assert any("measured on Qwen3-8B, not on Llama-3.1-8B" in text for text in notes)
    assert not any("nothing set aside" in text for text in notes)


@pytest.mark.parametrize(("stated", "kind"), [({}, NoDraft), ({"draft_ms_per_pass": 2}, ConstantDraft)])
def test_file_states_what_drafting_costs(save, stated: dict[str, float], kind: type):
    path: Path = save("S.json", {"kind": "constant", "ms": 10, **stated})
    setup = setup_from_file(path, DRAFTS, EngineLimits(n_blocks=100))
    assert isinstance(setup.config.draft_time, kind)
    assert bool(setup.notes) == (not stated)
    assert setup.flops_per_token is None


def test_evidence_gives_the_law_that_was_counted():
    law = DRAFTS.policy.laws[0]
    assert law.probability == pytest.approx([0.24, 0.18, 0.14, 0.11, 0.33])
    assert DRAFTS.assumptions == ("K = 4: measured",)


def test_truncation_offers_shorter_drafts_and_asks_which():
    with pytest.raises(BadInput, match="--assume truncation"):
        drafts_from(DraftEvidence(profiles=(COUNTED,), draft_length=2))
    shorter = drafts_from(DraftEvidence(profiles=(COUNTED,), draft_length=2, assume="truncation"))
    assert shorter.policy.laws[0].probability == pytest.approx([0.24, 0.18, 0.58])
    other = profile_from_counts({2: [2, 4, 4]}, draft_length=2, method="draft_model")
    with pytest.raises(
        BadInput, match=r"speaks for several, 2, 4; choose one with --draft-length, or some with --schedule"
    ):
        drafts_from(DraftEvidence(profiles=(COUNTED, other)))


def test_one_drafted_length_is_taken_even_if_it_is_assumed():
    one = profile_from_counts({1: [3, 7]}, draft_length=1, method="draft_model")
    assert drafts_from(DraftEvidence(profiles=(one,), assume="truncation")).policy.laws[0].draft_length == 1
    soup = library_profile("soup-843")
    drafts = drafts_from(DraftEvidence(profiles=(soup,), assume="truncation"))
    assert [law.draft_length for law in drafts.policy.laws] == [1]
    assert "truncation" in drafts.assumptions[0]


def test_assumed_acceptance_needs_a_drafter():
    assumed = drafts_from(DraftEvidence(conditional_acceptance=0.8, draft_length=3))
    funnel = replace(FUNNEL, profiles=(), draft=None)
    with pytest.raises(BadInput, match=r"does not say what drafts, .*; state --draft or --method"):
        setup_from_models(funnel, assumed, EngineLimits())
    assert setup_from_models(replace(funnel, method="ngram"), assumed, EngineLimits()).config.largest_draft == 3


def test_waiting_room_is_that_of_both_engines():
    setup = _setup(EngineLimits(max_waiting=7))
    assert (setup.config.max_waiting, setup.baseline.max_waiting) == (7, 7)


def test_no_drafts_may_be_asked_for():
    assert drafts_from(DraftEvidence(profiles=(COUNTED,), draft_length=0)).deepest == 0
    assert drafts_from(DraftEvidence()).most_tokens == 0
