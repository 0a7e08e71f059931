"""Rounds of the engine, and the profiles made from them."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from specbook.acceptance.yields import expected_tokens_per_round
from specbook.checks import BadInput
from specbook.engine.draft import chain_shape, tree_shape
from specbook.engine.library import load_target
from specbook.engine.library.drafters import DRAFTER_NAMES, shipped_drafter
from specbook.engine.sampling import SamplingConfig
from specbook.measuring.measure import measure_profile
from specbook.measuring.profiles import (
    mean_overlap,
    profile_of_rounds,
    rank_acceptance,
    table_of_rounds,
    without_tokens_behind_a_stop,
)
from specbook.measuring.prompts import own_prompts
from specbook.measuring.rounds import MeasuringConfig, measure_rounds
from specbook.measuring.subjects import specbook_reader, specbook_subject

SAMPLED = SamplingConfig(temperature=1.0)


def _prompts(n_prompts: int = 12) -> list[tuple[str, list[int]]]:
    reader = specbook_reader(own=True)
    return [(prompt.identifier, reader.encode(prompt)) for prompt in own_prompts("mathematics")[:n_prompts]]


def _rounds(drafter: str, config: MeasuringConfig) -> pl.DataFrame:
    target = load_target()
    return measure_rounds(target, shipped_drafter(drafter, target), _prompts(), config)


@pytest.mark.parametrize("drafter", DRAFTER_NAMES)
def test_rounds_of_every_drafter_add_up(drafter: str) -> None:
    frame = _rounds(drafter, MeasuringConfig(shape=tree_shape((2, 1)), max_new_tokens=12))
    whole = frame.filter(pl.col("round") < pl.col("round").max().over("prompt"))
    assert (whole["emitted"] == whole["accepted"] + 1).all()
    assert (frame["accepted"] <= frame["depth"]).all()
    assert (frame["drafted"] <= 4).all()
    assert (frame["tokens"].list.len() == frame["emitted"]).all()
    assert (frame.group_by("prompt").agg(pl.col("emitted").sum())["emitted"] <= 12).all()


def test_prompts_draw_from_streams_of_their_own() -> None:
    config = MeasuringConfig(shape=chain_shape(2), sampling=SAMPLED, max_new_tokens=8)
    alone = measure_rounds(load_target(), shipped_drafter("small", load_target()), _prompts(1), config)
    among = _rounds("small", config).filter(pl.col("prompt") == alone["prompt"][0])
    assert alone["tokens"].to_list() == among["tokens"].to_list()
    assert config.decoding(0).seed != config.decoding(1).seed


def test_profile_of_chain_has_the_counts_of_its_rounds() -> None:
    frame = _rounds("small", MeasuringConfig(shape=chain_shape(3), max_new_tokens=24))
    profile = profile_of_rounds(frame, {"domain": "mathematics"}, is_tree=False)
    assert profile.table() == table_of_rounds(frame)
    assert profile.mean_acceptance_length == pytest.approx(1.0 + frame["accepted"].to_numpy().mean())
    conditional = np.array(profile.conditional_acceptance, dtype=np.float64)
    assert expected_tokens_per_round(conditional) == pytest.approx(profile.mean_acceptance_length)


def test_overlap_predicts_acceptance_within_four_standard_errors() -> None:
    """Given that a position is reached, it is accepted with probability 1 − TV(P, Q): Leviathan et al., section 3.2."""
    frame = _rounds("small", MeasuringConfig(shape=chain_shape(3), sampling=SAMPLED, max_new_tokens=48))
    overlap = frame["overlap"].list.explode().to_numpy()
    reached = frame["overlap"].list.len().to_numpy()
    accepted = int(frame["accepted"].sum())
    spread = np.sqrt((overlap * (1.0 - overlap)).sum())
    assert len(overlap) == reached.sum()
    assert abs(accepted - overlap.sum()) < 4.0 * spread


def test_overlap_is_absent_where_drafts_are_chosen_without_chance() -> None:
    greedy = _rounds("small", MeasuringConfig(shape=chain_shape(2), max_new_tokens=8))
    lookup = _rounds("prompt_lookup", MeasuringConfig(shape=chain_shape(2), sampling=SAMPLED, max_new_tokens=8))
    assert mean_overlap(greedy) == mean_overlap(lookup) == []


def test_rank_acceptance_counts_siblings_that_were_tried() -> None:
    frame = pl.DataFrame({"tried": [[1], [2, 2, 1]], "kept": [[0], [1, 1]]})
    assert rank_acceptance(frame) == [1 / 3, 0.5, 0.0]


def test_tree_profile_has_ranks_and_no_chain_vector() -> None:
    subject = specbook_subject("eagle", "exact")
    config = MeasuringConfig(shape=tree_shape((3, 1)), sampling=SAMPLED, max_new_tokens=16)
    profile = measure_profile(subject, _prompts(), config, domain="mathematics")
    assert profile.tree is not None
    assert profile.tree.rank_acceptance is not None
    assert profile.draft_length is None


def test_measure_without_prompts_is_refused() -> None:
    with pytest.raises(BadInput, match="no prompts"):
        measure_profile(specbook_subject("small", "exact"), [], MeasuringConfig(shape=chain_shape(1)))


def test_subject_states_weights_cut_and_replication() -> None:
    subject = specbook_subject("mtp", "fast", "confidence:0.4", replication=2)
    assert (subject.cut, subject.replication, set(subject.weights_sha256)) == (
        "confidence:0.4",
        2,
        {"target", "medusa"},
    )
    assert subject.target.spec.n_feed_forward == 2048


def test_outside_prompts_take_the_form_of_their_domain() -> None:
    (prompt, *_) = own_prompts("chat")
    inside, outside = (specbook_reader(own=own).encode(prompt) for own in (True, False))
    assert len(outside) > len(inside)


def test_drafts_behind_a_stop_are_no_evidence_and_drafts_behind_a_cut_are() -> None:
    rows = {"drafted": [4, 4, 4, 9], "depth": [4, 4, 4, 3], "accepted": [3, 3, 4, 3], "emitted": [2, 4, 2, 1]}
    rows |= {"finish": ["stop", "stop", "length", "stop"], "overlap": [[0.9] * 4] * 4}
    rows |= {"tried": [[4], [4], [4], [3, 2]], "kept": [[3], [3], [4], [2, 1]]}
    counted = without_tokens_behind_a_stop(pl.DataFrame(rows))
    assert counted["drafted"].to_list() == [2, 4, 4, 9]
    assert counted["accepted"].to_list() == [2, 3, 4, 1]
    assert counted["overlap"].list.len().to_list() == [2, 4, 4, 1]
    assert counted["tried"].to_list() == [[], [4], [4], []]
