"""Profiles from counts: estimates in bounds, files that come back identical, nothing but BadInput for the rest."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from specbook.acceptance.importing import import_profile
from specbook.acceptance.profile import acceptance_from_counts, profile_from_counts, read_profile, write_profile
from specbook.checks import BadInput

COUNT = st.integers(0, 40)
ROWS = st.integers(0, 6).flatmap(
    lambda drafted: st.tuples(st.just(drafted), st.lists(COUNT, min_size=drafted + 1, max_size=drafted + 1))
)
TABLES = st.lists(ROWS, max_size=5).map(dict)
USED_TABLES = TABLES.map(lambda table: {drafted: row for drafted, row in table.items() if sum(row)})
LABELS = st.fixed_dictionaries(
    {},
    optional={
        "target": st.text(st.characters(exclude_categories=["Cs"])),
        "drafter": st.text(st.characters(exclude_categories=["Cs"])),
        "method": st.sampled_from(["mtp", "ngram", "draft_model"]),
        "temperature": st.floats(0.0, 5.0),
        "warnings": st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=2),
    },
)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("profiles") / "p.json"


@given(USED_TABLES)
def test_estimates_lie_in_bounds_and_never_rise(table: dict[int, list[int]]):
    marginal, conditional = acceptance_from_counts(table)
    known = conditional[~np.isnan(conditional)]
    assert np.all((known >= 0.0) & (known <= 1.0))
    assert np.all((marginal >= 0.0) & (marginal <= 1.0))
    assert np.all(np.diff(marginal) <= 1e-15)


@given(TABLES)
def test_unused_draft_lengths_change_no_estimate(table: dict[int, list[int]]):
    used = {drafted: row for drafted, row in table.items() if sum(row)}
    for ours, theirs in zip(acceptance_from_counts(table), acceptance_from_counts(used), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@given(st.integers(1, 8).flatmap(lambda k: st.lists(COUNT, min_size=k + 1, max_size=k + 1)))
def test_alike_drafts_give_plain_shares(row: list[int]):
    total = sum(row)
    if total == 0:
        return
    marginal, _ = acceptance_from_counts({len(row) - 1: row})
    shares = [sum(row[position:]) / total for position in range(1, len(row))]
    np.testing.assert_array_equal(marginal, shares[: marginal.size])
    assert marginal.size == len(shares)


@given(USED_TABLES, st.integers(1, 5))
def test_repeating_every_round_changes_no_estimate(table: dict[int, list[int]], times: int):
    repeated = {drafted: [times * count for count in row] for drafted, row in table.items()}
    for ours, theirs in zip(acceptance_from_counts(table), acceptance_from_counts(repeated), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-14)


@given(USED_TABLES, LABELS)
def test_profile_written_and_read_is_identical(scratch: Path, table: dict[int, list[int]], labels: dict[str, Any]):
    profile = profile_from_counts(table, **labels)
    write_profile(profile, scratch)
    first = scratch.read_bytes()
    again = read_profile(scratch)
    assert again == profile
    write_profile(again, scratch)
    assert scratch.read_bytes() == first


@given(USED_TABLES)
def test_totals_follow_from_the_table(table: dict[int, list[int]]):
    profile = profile_from_counts(table)
    rounds = [(drafted, accepted) for drafted, row in table.items() for accepted, n in enumerate(row) for _ in range(n)]
    assert profile.n_rounds == len(rounds)
    assert profile.n_drafted_tokens == sum(drafted for drafted, _ in rounds)
    assert profile.n_accepted_tokens == sum(accepted for _, accepted in rounds)
    if rounds:
        assert profile.mean_acceptance_length == pytest.approx(np.mean([1 + accepted for _, accepted in rounds]))


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 9)
    | st.integers()
    | st.sampled_from([10**19, 10**30, -(10**400), 10**400])
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(["counts", "specbook-acceptance/1", "0", "4", "\ud800", "m-eagle-fp16-temp-" + "9" * 400])
)
FIELDS = st.sampled_from(
    [
        "schema", "evidence", "target", "draft_length", "rounds_by_drafted", "rounds_by_accepted", "n_rounds",
        "n_drafted_tokens", "n_accepted_tokens", "mean_acceptance_length", "draft_acceptance_rate",
        "marginal_acceptance", "conditional_acceptance", "tree", "intervals", "warnings", "provenance", "model",
        "model_id", "category", "choices", "accept_lengths", "metrics", "speculative_decoding",
        "speculative_decoding_stats", "acceptance_histogram", "acceptance_histogram_by_draft_length", "num_spec_steps",
        "num_draft_tokens", "num_accepted_draft_tokens", "num_spec_tokens", "per_step_drafted", "per_step_accepted",
        "depth_acceptance", "0", "2", "4",
    ]
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(FIELDS | st.text(max_size=3), inner, max_size=6),
    max_leaves=25,
)
PROFILE = {
    "schema": "specbook-acceptance/1", "evidence": "counts", "rounds_by_drafted": {"2": [1, 1, 2]}, "n_rounds": 4,
    "n_drafted_tokens": 8, "n_accepted_tokens": 5, "mean_acceptance_length": 2.25,
}  # fmt: skip
SUMMARY = {
    "acceptance_histogram": [1, 1, 2], "acceptance_histogram_by_draft_length": {"2": [1, 1, 2]}, "num_spec_steps": 4,
    "num_draft_tokens": 8, "num_spec_tokens": 2, "mean_acceptance_length": 2.25,
}  # fmt: skip
ANSWER = {"model_id": "m-sps-d-fp16", "category": "qa", "choices": [{"accept_lengths": [1, 2]}]}
VECTORS = st.lists(SCALARS, max_size=4)
PARTS = SCALARS | VECTORS | st.dictionaries(st.sampled_from(["0", "2", "4"]), VECTORS, max_size=2)
ODD_PROFILES = st.dictionaries(FIELDS, PARTS, min_size=1, max_size=3).map(lambda changes: PROFILE | changes)
ODD_SUMMARIES = st.dictionaries(FIELDS, PARTS, min_size=1, max_size=3).map(lambda changes: SUMMARY | changes)
ODD_ANSWERS = st.tuples(FIELDS, PARTS, VECTORS).map(
    lambda parts: ANSWER | {parts[0]: parts[1]} | {"choices": [{"accept_lengths": parts[2]}]}
)


def _refusal(read: Callable[[], object]) -> str:
    try:
        read()
    except BadInput as error:
        return str(error)
    return ""


@given(st.binary(max_size=60))
@example(b"[" * 200_000)
@example(b"9" * 5000)
def test_arbitrary_bytes_are_read_or_bad_input(scratch: Path, content: bytes):
    scratch.write_bytes(content)
    for read in (lambda: read_profile(scratch), lambda: import_profile([scratch])):
        assert len(_refusal(read).splitlines()) <= 1


@given(VALUES | ODD_PROFILES)
@example(
    PROFILE
    | {
        "n_rounds": 1,
        "n_drafted_tokens": None,
        "n_accepted_tokens": 10**400,
        "rounds_by_drafted": None,
        "evidence": "mean_length",
    }
)
@example(PROFILE | {"n_rounds": 10**400})
@example(PROFILE | {"intervals": {"mean": [float("nan")]}})
def test_arbitrary_json_as_a_profile_is_read_or_bad_input(scratch: Path, document: Any):
    scratch.write_text(json.dumps(document))
    assert len(_refusal(lambda: write_profile(read_profile(scratch), scratch)).splitlines()) <= 1


@given(VALUES | ODD_SUMMARIES | ODD_ANSWERS, st.integers(1, 2))
@example({"acceptance_histogram": [10**19], "num_spec_steps": 10**19}, 1)
@example(SUMMARY | {"mean_acceptance_length": 10**400}, 1)
@example(SUMMARY | {"acceptance_histogram_by_draft_length": {"2": [1, 1, 2], "4": [0]}}, 1)
@example({"choices": [{"accept_lengths": [10**30]}]}, 1)
@example(ANSWER | {"model_id": "\ud800"}, 1)
@example(ANSWER | {"model_id": "m-eagle-fp16-temp-" + "9" * 400}, 1)
def test_arbitrary_json_as_acceptance_is_read_or_bad_input(scratch: Path, record: Any, times: int):
    scratch.write_text("".join(f"{json.dumps(record)}\n" for _ in range(times)))
    assert len(_refusal(lambda: write_profile(import_profile([scratch]), scratch)).splitlines()) <= 1
