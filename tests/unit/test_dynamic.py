"""Dynamic draft length: counts, replays and probabilities by hand, what the engine spends, and every refusal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from specbook.acceptance.dynamic import (
    DynamicDraft,
    dynamic_from_counts,
    dynamic_from_probabilities,
    dynamic_from_profile,
    dynamic_from_replay,
)
from specbook.acceptance.dynamic_cost import (
    NO_DRAFT,
    BestCut,
    batch_pass_probability,
    best_cut,
    dynamic_round_seconds,
    dynamic_speedup,
    verify_pass_tokens,
)
from specbook.acceptance.library import library_profile
from specbook.acceptance.profile import AcceptanceProfile, Measurement, TreeYield, profile_from_counts
from specbook.acceptance.yields import expected_tokens_per_round
from specbook.checks import BadInput
from specbook.engine.decoding import DecodingConfig, speculative
from specbook.engine.draft import TreeShape, chain_shape, tree_shape
from specbook.engine.drafters.choice import ConfidenceCut, Cut, NoCut
from specbook.engine.drafters.small_model import SmallModelDrafter
from specbook.engine.sampling import SamplingConfig
from specbook.measuring.profiles import table_of_rounds
from specbook.measuring.rounds import MeasuringConfig, measure_rounds
from tests.tiny_models import tiny_transformer

# Rounds by drafted and accepted tokens, K = 3: 10 rounds, 18 drafted, 12 accepted tokens.
TABLE = {0: [2], 1: [1, 1], 2: [0, 1, 1], 3: [1, 0, 1, 2]}


def test_counts_by_hand():
    draft = dynamic_from_counts(TABLE)
    assert draft.expected_tokens == pytest.approx(2.2, rel=1e-15)
    assert draft.expected_drafted_tokens == pytest.approx(1.8, rel=1e-15)
    assert draft.drafted_probability == (0.2, 0.2, 0.2, 0.4)
    assert draft.reach_probability == pytest.approx([0.8, 0.6, 0.4], rel=1e-15)
    assert draft.pass_probability == pytest.approx([1.0, 0.8, 0.6], rel=1e-15)
    assert draft.expected_draft_passes == pytest.approx((1 * 2 + 2 * 2 + 3 * 6) / 10, rel=1e-15)
    assert draft.draft_acceptance_rate == pytest.approx(12 / 18, rel=1e-15)


def test_counts_with_a_longer_limit_pay_for_every_cut():
    draft = dynamic_from_counts(TABLE, max_draft_length=5)
    assert draft.max_draft_length == 5
    assert draft.expected_draft_passes == pytest.approx(1.0 + draft.expected_drafted_tokens, rel=1e-15)


def test_counts_of_a_fixed_length_are_the_chain():
    draft = dynamic_from_counts({3: [2, 4, 4, 10]})
    conditional = [18 / 20, 14 / 18, 10 / 14]
    assert draft.expected_tokens == pytest.approx(float(expected_tokens_per_round(conditional)), rel=1e-15)
    assert draft.drafted_probability == (0.0, 0.0, 0.0, 1.0)
    assert (draft.expected_draft_passes, draft.expected_drafted_tokens) == (3.0, 3.0)


@pytest.mark.parametrize(
    ("table", "length", "message"),
    [
        ({}, None, "must hold at least one round"),
        ({2: [0, 0, 0]}, None, "must hold at least one round"),
        ({2: [1, 1]}, None, "needs 3 entries for 2 drafted; got 2"),
        ({1: [1, -1]}, None, "rounds_by_drafted must be whole and at least 0; got -1"),
        (TABLE, 2, "max_draft_length must be at least 3, which a round drafted; got 2"),
        (TABLE, 3.5, "max_draft_length must be whole"),
    ],
)
def test_counts_refuse(table: dict[int, list[int]], length: Any, message: str):
    with pytest.raises(ValueError, match=message):
        dynamic_from_counts(table, length)


def _measured(parents: tuple[int, ...], **fields: Any) -> AcceptanceProfile:
    measurement = Measurement(
        engine="specbook", arithmetic="exact", blas={}, seed=0, n_prompts=1, max_new_tokens=8, n_new_tokens=8,
        parents=list(parents), cut="entropy:1", weights_sha256={},
    )  # fmt: skip
    return profile_from_counts(TABLE, measurement=measurement, **fields)


def test_profile_takes_the_limit_from_its_measurement():
    assert dynamic_from_profile(_measured(chain_shape(6).parents)).max_draft_length == 6
    assert dynamic_from_profile(profile_from_counts(TABLE)).max_draft_length == 3


@pytest.mark.parametrize(
    "profile",
    [
        library_profile("model-optimizer-2247"),
        AcceptanceProfile(evidence="rank", tree=TreeYield(depth_acceptance=[0.5], rank_acceptance=[0.5])),
        profile_from_counts({}),
    ],
)
def test_profile_without_counts_is_refused(profile: AcceptanceProfile):
    with pytest.raises(BadInput, match=r"^rounds_by_drafted = .*: a dynamic draft length needs rounds of a chain"):
        dynamic_from_profile(profile)


CONFIDENCE = np.array([[0.9, 0.8, 0.7], [0.6, 0.9, 0.9], [0.9, 0.2, 0.9], [0.5, 0.5, 0.5]])
ACCEPTED = np.array([3, 1, 2, 0])


def test_replay_by_hand():
    (draft,) = dynamic_from_replay(CONFIDENCE, ACCEPTED, 0.6)
    # drafted 3, 3, 1, 0; accepted 3, 1, 1, 0
    assert draft.drafted_probability == (0.25, 0.25, 0.0, 0.5)
    assert draft.expected_tokens == 1.0 + 5 / 4


def test_replay_without_a_cut_is_the_run_and_with_all_cut_one_token():
    whole, none = dynamic_from_replay(CONFIDENCE, ACCEPTED, [-np.inf, np.inf])
    assert whole.expected_tokens == 1.0 + ACCEPTED.mean()
    assert whole.drafted_probability == (0.0, 0.0, 0.0, 1.0)
    assert (none.expected_tokens, none.expected_draft_passes) == (1.0, 1.0)


def test_replay_cuts_strictly_below_as_the_engine_does():
    assert not ConfidenceCut(0.5).stops(np.array([0.5, 0.5]))
    (draft,) = dynamic_from_replay([[0.5]], [1], [0.5])
    assert draft.expected_tokens == 2.0


@pytest.mark.parametrize("seed", range(4))
def test_replay_is_the_minimum_of_accepted_and_uncut(seed: int):
    rng = np.random.default_rng(seed)
    confidence = rng.integers(0, 6, (200, 5)) / 5.0  # many ties
    accepted = rng.integers(0, 6, 200)
    limits = np.unique(confidence)
    for limit, draft in zip(limits, dynamic_from_replay(confidence, accepted, limits), strict=True):
        drafted = np.cumprod(confidence >= limit, axis=1).sum(axis=1)
        assert draft.expected_tokens == pytest.approx(1.0 + np.minimum(accepted, drafted).mean(), rel=1e-14)
        assert draft.drafted_probability == pytest.approx(np.bincount(drafted, minlength=6) / 200, abs=1e-14)


@pytest.mark.parametrize(
    ("confidence", "accepted", "thresholds", "message"),
    [
        ([0.5, 0.5], [1, 1], [0.5], r"needs a row for each round of accepted; got \(2,\) and \(2,\)"),
        ([[0.5]], [1, 1], [0.5], r"got \(1, 1\) and \(2,\)"),
        (np.empty((0, 3)), [], [0.5], "needs a row"),
        ([[np.nan]], [1], [0.5], "must hold no NaN"),
        ([[0.5]], [1], [np.nan], "must hold no NaN"),
        ([[0.5]], [1], [[0.5]], "thresholds be a vector"),
        ([[0.5]], [2], [0.5], "accepted must be at most 1, the drafted tokens; got 2"),
        ([[0.5]], [-1], [0.5], "accepted must be whole"),
    ],
)
def test_replay_refuses(confidence: Any, accepted: Any, thresholds: Any, message: str):
    with pytest.raises(ValueError, match=message):
        dynamic_from_replay(confidence, accepted, thresholds)


def test_probabilities_by_hand():
    draft = dynamic_from_probabilities([0.9, 0.5], [0.8, 0.6])
    assert draft.expected_tokens == pytest.approx(1.0 + 0.72 + 0.72 * 0.3, rel=1e-15)
    assert draft.drafted_probability == pytest.approx([0.1, 0.45, 0.45], rel=1e-14)
    assert draft.expected_draft_passes == pytest.approx(1.9, rel=1e-15)


def test_probabilities_that_always_go_on_are_the_chain():
    draft = dynamic_from_probabilities([1.0] * 4, [0.8, 0.7, 0.6, 0.5])
    assert draft.expected_tokens == expected_tokens_per_round([0.8, 0.7, 0.6, 0.5])
    assert draft.drafted_probability == (0.0, 0.0, 0.0, 0.0, 1.0)


def test_probabilities_from_counts_are_the_counts():
    """Both ways of going on, read off a joint law, give its tokens and its cost back; one of them alone does not."""
    at_least = [sum(sum(row) for d, row in TABLE.items() if d >= i) for i in range(4)]
    kept = [sum(sum(row[i:]) for row in TABLE.values()) for i in range(4)]
    reached = [sum(sum(row[i - 1 :]) for d, row in TABLE.items() if d >= i) for i in range(1, 4)]
    going = [at_least[i] / at_least[i - 1] for i in range(1, 4)]
    accepted = [kept[i + 1] / reached[i] for i in range(3)]
    both = dynamic_from_probabilities(going, accepted, [reached[i] / kept[i] for i in range(3)])
    counted = dynamic_from_counts(TABLE)
    assert both.expected_tokens == pytest.approx(counted.expected_tokens, rel=1e-14)
    assert both.drafted_probability == pytest.approx(counted.drafted_probability, rel=1e-14)
    assert dynamic_from_probabilities(going, accepted).expected_tokens < counted.expected_tokens


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.5], [0.5, 0.5]), r"must be equally long vectors; got \(1,\), \(2,\) and \(1,\)"),
        ((0.5, 0.5), "must be equally long vectors"),
        (([1.5], [0.5]), r"continue_probability must lie in \[0, 1\]"),
        (([0.5], [np.nan]), r"conditional_acceptance must lie in \[0, 1\]"),
        (([0.5], [0.5], [-1.0]), r"continue_if_accepted must lie in \[0, 1\]"),
    ],
)
def test_probabilities_refuse(arguments: tuple[Any, ...], message: str):
    with pytest.raises(ValueError, match=message):
        dynamic_from_probabilities(*arguments)


@pytest.mark.parametrize(
    ("tokens", "law", "message"),
    [
        (1.0, (0.5, 0.4), "drafted_probability must sum to 1"),
        (1.0, (1.5, -0.5), r"drafted_probability must lie in \[0, 1\]"),
        (1.6, (0.5, 0.5), r"expected_tokens must lie in \[1, 1\.5\], 1 \+ drafted; got 1\.6"),
        (0.9, (0.5, 0.5), "expected_tokens must lie in"),
        (float("nan"), (0.5, 0.5), "expected_tokens must lie in"),
    ],
)
def test_dynamic_draft_refuses(tokens: float, law: tuple[float, ...], message: str):
    with pytest.raises(ValueError, match=message):
        DynamicDraft(expected_tokens=tokens, drafted_probability=law)


def test_no_draft_spends_nothing():
    assert (NO_DRAFT.max_draft_length, NO_DRAFT.expected_draft_passes, NO_DRAFT.expected_drafted_tokens) == (0, 0, 0)
    assert NO_DRAFT.draft_acceptance_rate is None
    assert dynamic_round_seconds(NO_DRAFT, [2.0], 0.1) == 2.0


VERIFY_S = np.array([1.0, 1.0, 1.3, 1.9])


def test_round_seconds_by_hand():
    draft = dynamic_from_counts(TABLE)
    seconds = 0.1 * 2.4 + 0.2 * 1.0 + 0.2 * 1.0 + 0.2 * 1.3 + 0.4 * 1.9
    assert dynamic_round_seconds(draft, VERIFY_S, 0.1) == pytest.approx(seconds, rel=1e-14)
    assert dynamic_speedup(draft, VERIFY_S, 0.1) == pytest.approx(2.2 / seconds, rel=1e-14)


def test_round_seconds_by_position_of_the_draft_pass():
    draft = dynamic_from_counts(TABLE)
    once = dynamic_round_seconds(draft, np.ones(4), [0.5, 0.0, 0.0])
    assert once == pytest.approx(1.5, rel=1e-15)
    assert dynamic_round_seconds(draft, np.ones(4), [0.1, 0.2, 0.3]) == pytest.approx(
        1.0 + 0.1 + 0.8 * 0.2 + 0.6 * 0.3, rel=1e-14
    )


def test_round_seconds_of_a_fixed_length_is_the_chain():
    draft = dynamic_from_probabilities([1.0] * 3, [0.8] * 3)
    for batch in (1, 7):
        assert dynamic_round_seconds(draft, VERIFY_S, 0.1, batch) == pytest.approx(0.3 + 1.9, rel=1e-14)


def test_round_seconds_of_a_batch_are_those_of_the_mean_width():
    draft = DynamicDraft(expected_tokens=1.5, drafted_probability=(0.25, 0.0, 0.75))
    assert batch_pass_probability(draft, 2) == pytest.approx([1.0, 1.0 - 0.25**2], rel=1e-15)
    seconds = 0.1 * (2.0 - 0.0625) + 1.0 + 0.5 * 0.6
    assert dynamic_round_seconds(draft, [1.0, 1.0, 1.6], 0.1, batch=2) == pytest.approx(seconds, rel=1e-14)
    assert verify_pass_tokens(draft, 2) == 5.0


def test_batch_of_one_is_one_sequence():
    draft = dynamic_from_counts(TABLE)
    np.testing.assert_allclose(batch_pass_probability(draft, 1), draft.pass_probability, rtol=1e-15)


@pytest.mark.parametrize(
    ("verify_s", "draft_pass_s", "batch", "message"),
    [
        ([1.0], 0.1, 1, r"verify_s needs 4 entries, one a draft length; got shape \(1,\)"),
        ([1.0, 1.0, 0.0, 1.0], 0.1, 1, "verify_s must be greater than 0"),
        (VERIFY_S, [0.1], 1, r"draft_pass_s needs one entry or 3, one a position; got shape \(1,\)"),
        (VERIFY_S, -0.1, 1, "draft_pass_s must not be negative"),
        (VERIFY_S, 0.1, 0, "batch must be whole and at least 1; got 0"),
        (VERIFY_S, 0.1, 1.5, "batch must be whole"),
    ],
)
def test_round_seconds_refuse(verify_s: Any, draft_pass_s: Any, batch: Any, message: str):
    with pytest.raises(ValueError, match=message):
        dynamic_round_seconds(dynamic_from_counts(TABLE), verify_s, draft_pass_s, batch)


def test_best_cut_is_the_fastest_and_may_be_no_draft():
    drafts = dynamic_from_replay(CONFIDENCE, ACCEPTED, [-np.inf, 0.6, np.inf])
    speedups = [dynamic_speedup(draft, VERIFY_S, 0.1) for draft in drafts]
    best = best_cut(drafts, VERIFY_S, 0.1)
    assert (best.index, best.speedup) == (int(np.argmax(speedups)), max(speedups))
    assert best.draft is drafts[best.index]
    assert best.round_s == pytest.approx(dynamic_round_seconds(best.draft, VERIFY_S, 0.1), rel=1e-14)
    slow = BestCut(index=None, draft=NO_DRAFT, round_s=1.0, speedup=1.0)
    assert best_cut(drafts, VERIFY_S, 5.0) == best_cut([], VERIFY_S, 0.1) == slow


def test_cutting_everything_still_pays_a_draft_pass():
    (none,) = dynamic_from_replay(CONFIDENCE, ACCEPTED, np.inf)
    assert dynamic_speedup(none, VERIFY_S, 0.25) == pytest.approx(0.8, rel=1e-15)


class _Counting(SmallModelDrafter):
    """Counts passes of the draft model: one that reads what is new, and one for each level that is extended."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.n_passes = 0

    def propose(self, request: Any) -> Any:
        self.n_passes = 1
        return super().propose(request)

    def _extend(self, *arguments: Any) -> Any:
        self.n_passes += 1
        return super()._extend(*arguments)


def _passes(shape: TreeShape, cut: Cut) -> list[tuple[int, int]]:
    """Drafted tokens and draft passes of each round of the engine."""
    target = tiny_transformer()
    drafter = _Counting(tiny_transformer("exact", 5, n_layers=1), cut)
    config = DecodingConfig(max_new_tokens=40, max_context=64, sampling=SamplingConfig(temperature=1.0))
    rounds = speculative(target, drafter, [1, 2, 3], config, shape)
    return [(round_.record.drafted, drafter.n_passes) for round_ in rounds]


@pytest.mark.parametrize("limit", [0.0, 0.3, 0.5, 1.0])
def test_engine_spends_a_pass_on_the_token_that_it_cuts(limit: float):
    rounds = _passes(chain_shape(4), ConfidenceCut(limit))
    assert [passes for _, passes in rounds] == [min(drafted + 1, 4) for drafted, _ in rounds]
    if limit == 0.3:
        assert len({drafted for drafted, _ in rounds}) > 2


def test_engine_spends_a_pass_a_level_of_a_tree():
    shape = tree_shape((3, 2, 1))
    assert {passes for _, passes in _passes(shape, NoCut())} == {shape.depth}


def test_engine_rounds_with_a_cut_are_a_joint_law():
    target, drafter = tiny_transformer(), _Counting(tiny_transformer("exact", 5, n_layers=1), ConfidenceCut(0.3))
    config = MeasuringConfig(shape=chain_shape(4), sampling=SamplingConfig(temperature=1.0), max_context=64)
    frame = measure_rounds(target, drafter, [("a", [1, 2, 3]), ("b", [4, 5])], config)
    draft = dynamic_from_counts(table_of_rounds(frame), 4)
    assert draft.expected_tokens == pytest.approx(1.0 + frame["accepted"].mean(), rel=1e-14)  # type: ignore[operator]
    assert draft.expected_drafted_tokens == pytest.approx(frame["drafted"].mean(), rel=1e-14)
