"""Rejecting a bad argument and a bad file."""

from __future__ import annotations

import numpy as np
import pytest

from specbook.checks import (
    BadInput,
    check_counts,
    check_draft_axis,
    check_finite,
    check_non_increasing,
    check_non_negative,
    check_positive,
    check_probability,
    printable,
    shown,
)


def test_bad_input_with_all_parts_names_file_field_value_problem_remedy():
    error = BadInput("is negative", remedy="export again", file="a.json", field="n_rounds", value=-3)
    assert str(error) == "a.json: n_rounds = -3: is negative; export again"
    assert (error.file, error.field, error.remedy) == ("a.json", "n_rounds", "export again")


def test_bad_input_value_none_is_shown():
    assert str(BadInput("is missing", remedy="add it", field="draft_length", value=None)).startswith(
        "draft_length = None: "
    )


def test_bad_input_without_field_shows_value_alone():
    assert str(BadInput("no such device", remedy="one of l4", value="h9")) == "'h9': no such device; one of l4"


def test_bad_input_is_a_value_error():
    assert isinstance(BadInput("x", remedy="y"), ValueError)


@pytest.mark.parametrize("part", ["file", "field", "value", "problem", "remedy"])
def test_bad_input_with_line_break_or_escape_anywhere_stays_one_printable_line(part: str):
    parts = {"file": "a", "field": "b", "value": "c", "problem": "d", "remedy": "e", part: "x\n\x1b[2J\u202ey"}
    text = str(BadInput(parts.pop("problem"), **parts))
    assert len(text.splitlines()) == 1
    assert "\x1b" not in text
    assert "\u202e" not in text


@pytest.mark.parametrize(
    ("hostile", "expected"),
    [
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\u202eb", "a\\u202eb"),
        ("a\u200bb", "a\\u200bb"),
        ("a\nb\tc\rd", "a\\nb\\tc\\rd"),
        ("a\u2028b\u2029c", "a\\u2028b\\u2029c"),
        ("a\x9b31m", "a\\x9b31m"),
        ("a\ue000b", "a\\ue000b"),
        ("a\ud800b", "a\\ud800b"),
    ],
)
def test_printable_character_that_acts_is_escaped(hostile: str, expected: str):
    assert printable(hostile) == expected


@pytest.mark.parametrize("text", ["Llama-3.1-8B", "通义千问", "Größe – é", "👍", "a b"])
def test_printable_visible_text_is_unchanged(text: str):
    assert printable(text) == text


def test_shown_long_value_is_cut_to_eighty_characters():
    assert len(shown("x" * 10_000)) == 80
    assert shown([1, 2]) == "[1, 2]"


@pytest.mark.parametrize(
    ("check", "value"),
    [
        (check_finite, [-1.0, 0.0, 2.5]),
        (check_probability, [0.0, 0.5, 1.0]),
        (check_positive, [1e-300, 2.0]),
        (check_non_negative, [0.0, 2.0]),
    ],
)
def test_check_good_values_returns_them_as_float64(check, value: list[float]):
    checked = check("x", value)
    assert checked.dtype == np.float64
    assert checked.tolist() == value


@pytest.mark.parametrize(
    ("check", "value", "message"),
    [
        (check_finite, [1.0, np.nan], r"^draft_s must be finite; got nan$"),
        (check_finite, -np.inf, r"^draft_s must be finite; got -inf$"),
        (check_probability, [0.2, 1.2, 7.0], r"^draft_s must lie in \[0, 1\]; got 1\.2$"),
        (check_probability, -0.1, r"^draft_s must lie in \[0, 1\]; got -0\.1$"),
        (check_probability, np.nan, r"^draft_s must lie in \[0, 1\]; got nan$"),
        (check_positive, [1, 0], r"^draft_s must be greater than 0; got 0\.0$"),
        (check_positive, np.inf, r"^draft_s must be finite; got inf$"),
        (check_non_negative, [[1, -2]], r"^draft_s must not be negative; got -2\.0$"),
        (check_non_negative, np.nan, r"^draft_s must be finite; got nan$"),
        (check_counts, 2.5, r"^draft_s must be whole and at least 0; got 2\.5$"),
        (check_counts, [3, -1], r"^draft_s must be whole and at least 0; got -1\.0$"),
        (check_counts, np.nan, r"^draft_s must be finite; got nan$"),
    ],
)
def test_check_bad_value_raises_with_name_and_value(check, value: object, message: str):
    with pytest.raises(ValueError, match=message):
        check("draft_s", value)


def test_check_counts_below_minimum_raises_with_minimum():
    with pytest.raises(ValueError, match=r"batch must be whole and at least 1; got 0"):
        check_counts("batch", [4, 0], minimum=1)


def test_check_counts_whole_floats_become_integers():
    assert check_counts("batch", [4.0, 1.0]).dtype == np.int64


@pytest.mark.parametrize("values", [[], [0.5], [0.5, 0.5, 0.0], [[0.9, 0.1], [0.2, 0.2]]])
def test_check_non_increasing_level_or_falling_returns_it(values: list):
    array = np.asarray(values, dtype=np.float64)
    assert check_non_increasing("marginal", array) is array


def test_check_non_increasing_rise_in_any_row_raises():
    with pytest.raises(ValueError, match=r"marginal must not rise from one position to the next; got 0\.3"):
        check_non_increasing("marginal", np.array([[0.9, 0.1], [0.2, 0.3]]))


def test_check_draft_axis_scalar_raises():
    with pytest.raises(ValueError, match=r"conditional_acceptance needs a draft axis; got a scalar"):
        check_draft_axis("conditional_acceptance", np.asarray(0.5))


def test_check_draft_axis_empty_vector_is_kept():
    assert check_draft_axis("conditional_acceptance", np.empty(0)).size == 0
