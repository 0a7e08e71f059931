"""The worst rows in words: which were worst, and which term would have had to differ by how much."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from specbook.validation.explain import explained, measured_round_s
from specbook.validation.left_out import published_validation
from specbook.validation.rounds import TERMS
from specbook.validation.setting_overheads import NO_OVERHEADS
from specbook.validation.validate import example_validation
from tests.validation_cases import compared, incomplete, validation_of


def _text(measured: float, predicted: float, **labels: Any) -> str:
    row = compared(2, measured, predicted, overhead_source="sglang: fitted", **labels)
    return str(explained(validation_of(row))["explanation"][0])


def test_the_worst_come_first_and_half_is_as_wrong_as_twice():
    rows = [compared(2, 1.0, 1.9), compared(3, 1.0, 0.5), compared(4, 1.0, 1.1), incomplete(5, "batch")]
    found = explained(validation_of(*rows))
    assert found["line"].to_list() == [3, 2, 4]
    assert explained(validation_of(*rows), 1)["line"].to_list() == [3]
    assert explained(validation_of(*rows), 0).is_empty()
    assert explained(validation_of(incomplete(2, "batch"))).is_empty()


def test_the_measured_round_follows_from_the_measured_speedup():
    for row in example_validation().frame.iter_rows(named=True):
        measured_s = measured_round_s(row)
        tpot_s = measured_s / row["tokens_per_round"] + row["outside_s"]
        assert row["baseline_s"] / tpot_s == pytest.approx(row["measured_speedup"], rel=1e-12)
        met = {**row, "measured_speedup": row["predicted_speedup"]}
        assert measured_round_s(met) == pytest.approx(row["round_s"], rel=1e-12)


def test_a_longer_round_in_numbers():
    # 2.5 tokens of 10 ms: 20 ms where 12.5 ms were predicted.
    text = _text(1.25, 2.0)
    assert text.startswith("A round lasted 20.0 ms where 12.5 ms were predicted, 7.5 ms longer.")


def test_the_term_that_would_have_to_change_least_is_the_largest():
    sizes = dict(zip(TERMS, (1e-3, 1e-4, 8e-3, 0.0, 2e-3, 1.4e-3), strict=True))
    longer = _text(1.25, 2.0, **sizes)
    assert "With all else right" in longer
    row = compared(2, 1.25, 2.0) | sizes
    text = str(explained(validation_of(row))["explanation"][0])
    assert "the verify pass would have to take 1.9 × the 8.00 ms modelled" in text
    shorter = compared(2, 2.2, 2.0) | sizes
    text = str(explained(validation_of(shorter))["explanation"][0])
    assert "shorter." in text
    assert "the verify pass would have to take 0.9 × the 8.00 ms modelled" in text


def test_a_round_that_no_term_could_make_so_short():
    row = compared(2, 2.4, 0.5)
    text = str(explained(validation_of(row))["explanation"][0])
    assert "No single term could make it so short." in text


def test_a_speedup_beyond_the_tokens_of_a_round_is_no_matter_of_terms():
    text = _text(2.6, 2.0)
    assert "faster than its tokens per round allow" in text
    assert "With all else right" not in text


def test_what_the_model_lacks_is_said():
    assert "A look-up is on the host" in _text(1.25, 2.0, method="ngram")
    assert "A look-up" not in _text(1.25, 2.0, method="eagle3")
    assert "A look-up" not in _text(1.25, 2.0, method="lookahead")
    row = compared(2, 1.25, 2.0, overhead_source=NO_OVERHEADS.label)
    assert "Nobody fitted" in explained(validation_of(row))["explanation"][0]
    assert "Nobody fitted" not in _text(1.25, 2.0)


def test_every_shipped_row_is_explained_in_finite_numbers():
    found = explained(published_validation(), 1000)
    assert found.height == published_validation().scores["n_rows"][0]
    factors = [abs(math.log1p(error)) for error in found["error"]]
    assert factors == sorted(factors, reverse=True)
    for text in found["explanation"]:
        assert "nan" not in text
        assert "inf" not in text
        assert text.endswith(".")
    assert found.schema["explanation"] == pl.String


def test_an_explanation_changes_nothing():
    validation = example_validation()
    before = validation.frame.clone()
    explained(replace(validation), 3)
    assert validation.frame.equals(before)
