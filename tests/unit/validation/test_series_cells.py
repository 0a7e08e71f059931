"""Cells of a series: numbers, shares, lengths and units as people write them, and what is refused."""

from __future__ import annotations

import pytest

from specbook.checks import BadInput
from specbook.validation.cells import is_missing, number, share, whole
from specbook.validation.context_cells import ContextTokens, context_figure, context_tokens, is_figure
from specbook.validation.units import speed_unit


@pytest.mark.parametrize(
    ("text", "value"),
    [("4", 4.0), ("4.0", 4.0), ("+4.", 4.0), (".5", 0.5), ("1e3", 1000.0), ("-2.5E-1", -0.25), ("1488.36", 1488.36)],
)
def test_number_plain_digits_are_read(text: str, value: float):
    assert number(text) == value


@pytest.mark.parametrize(("text", "value"), [("54,7", 54.7), (",5", 0.5), ("-1,25", -1.25), ("0,547", 0.547)])
def test_number_decimal_comma_needs_another_separator(text: str, value: float):
    assert number(text, decimal_comma=True) == value
    with pytest.raises(BadInput, match="comma"):
        number(text)


@pytest.mark.parametrize(
    "text", ["1,488", "1,488.36", "1.488,36", "1 488", "1'488", "1_488", "1.488.360", "1\u00a0488"]
)
@pytest.mark.parametrize("decimal_comma", [False, True])
def test_number_thousands_separator_is_refused_as_ambiguous(text: str, decimal_comma: bool):
    with pytest.raises(BadInput, match="thousands"):
        number(text, decimal_comma=decimal_comma)


def test_number_below_a_thousand_has_no_thousands_separator():
    assert number("1,851", decimal_comma=True, is_below_1000=True) == 1.851


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("nan", "not finite"), ("-inf", "not finite"), ("Infinity", "not finite"), ("1e999", "too large"),
        ("9" * 400, "too large"), ("0x10", "not a number"), ("٣", "not a number"), ("=1+1", "not a number"),
        ("4\0", "not a number"), ("~4", "not a number"), ("−4", "not a number"), ("1e99999", "not a number"),
    ],
)  # fmt: skip
def test_number_anything_else_is_refused(text: str, problem: str):
    with pytest.raises(BadInput, match=problem):
        number(text)


@pytest.mark.parametrize("text", ["", "-", "n/a", "NA", "None", "null", "Not recorded", "?"])
def test_is_missing_words_for_nothing(text: str):
    assert is_missing(text)


@pytest.mark.parametrize(("value", "problem"), [(1.5, "whole"), (0.0, "below 1"), (11.0, "above 10")])
def test_whole_anything_else_is_refused(value: float, problem: str):
    with pytest.raises(BadInput, match=problem):
        whole(value, least=1, most=10)


@pytest.mark.parametrize(
    ("text", "in_percent", "value"),
    [
        ("0.547", False, 0.547), ("1.0", False, 1.0), ("0", False, 0.0), ("54.7 %", False, 0.547),
        ("54.7%", False, 0.547), ("100%", False, 1.0), ("54.7", True, 0.547), ("54.7 %", True, 0.547),
        ("1", True, 0.01),
    ],
)  # fmt: skip
def test_share_fraction_or_percentage(text: str, in_percent: bool, value: float):
    assert share(text, in_percent=in_percent) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "in_percent", "problem"),
    [
        ("54.7", False, "above 1: percent\\?; write 0.547 or 54.7 %"), ("1.01", False, "above 1"),
        ("-0.1", False, "below 0"), ("547", False, "above 1; it is a share"), ("101 %", False, "above 100 %"),
        ("100.5", True, "above 100 %"), ("%", False, "not a number"),
    ],
)  # fmt: skip
def test_share_outside_the_range_is_refused(text: str, in_percent: bool, problem: str):
    with pytest.raises(BadInput, match=problem):
        share(text, in_percent=in_percent)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("4096", (4096.0, None, None)), ("32k", (32768.0, None, None)), ("32 K ctx", (32768.0, None, None)),
        ("167 in, 512 out", (None, 167.0, 512.0)), ("1k in / 1k out", (None, 1024.0, 1024.0)),
        ("prompts ~80-170 tok, 512 out", (None, 125.0, 512.0)), ("1-2k", (1536.0, None, None)),
        ("ISL 1024, OSL 128", (None, 1024.0, 128.0)), ("context 8192; 100 generated", (8192.0, None, 100.0)),
    ],
)  # fmt: skip
def test_context_tokens_texts(text: str, tokens: tuple[float | None, ...]):
    found = context_tokens(text)
    assert (found.context, found.prompt, found.output) == tokens


def test_context_tokens_mean_of_a_range_is_said():
    assert context_tokens("80-170") == ContextTokens(
        context=125.0, derived=("context tokens are the mean of 80 to 170",)
    )
    assert context_tokens("512").derived == ()


@pytest.mark.parametrize(
    "text",
    [
        "4,096",
        "1024/512",
        "long",
        "4096 pages",
        "-5",
        "10m",
        "4.096",
        "170-80",
        "1e9",
        "9" * 30,
        "1 2",
        "4096" + " " * 300,
    ],
)
def test_context_tokens_anything_else_is_refused(text: str):
    with pytest.raises(BadInput, match="no length of a context"):
        context_tokens(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("-5", "no number of tokens"), ("0", "no number of tokens"), ("1e10", "no number of tokens"),
        ("1,024", "thousands or for decimals"), ("1.024", "write 1024 if it does"), ("4 096", "thousands separator"),
    ],
)  # fmt: skip
def test_context_figure_that_is_no_number_of_tokens_is_refused(text: str, problem: str):
    assert is_figure(text)
    with pytest.raises(BadInput, match=problem):
        context_figure(text)


def test_context_figure_may_be_a_mean_in_either_notation():
    assert context_figure("4096.5") == context_figure("4096,5", decimal_comma=True) == 4096.5
    assert not any(map(is_figure, ("32k", "167 in", "~500", "80-170", "long")))


@pytest.mark.parametrize(
    "text",
    [
        "", "tok/s", "Tokens/s", "t/s", "TPS", "output tok/s total", "tok/s, mean over prompts", "tokens per second",
        "tok/sec (aggregate)", "total output tokens/s", "tok/s over all requests",
    ],
)  # fmt: skip
def test_speed_unit_totals(text: str):
    assert speed_unit(text).total_tokens_per_s(300.0, None) == 300.0


@pytest.mark.parametrize(
    "text",
    [
        "tok/s per stream",
        "tok/s/user",
        "tokens/s per request",
        "output tok/s, each sequence",
        "tok/s (per-user)",
        "t/s/slot",
    ],
)
def test_speed_unit_of_one_stream_is_multiplied_by_the_batch(text: str):
    assert speed_unit(text).total_tokens_per_s(50.0, 8) == 400.0
    with pytest.raises(BadInput, match="batch is missing"):
        speed_unit(text).total_tokens_per_s(50.0, None)


@pytest.mark.parametrize(
    "text", ["ms/token", "ms per token", "TPOT ms", "TPOT (ms)", "mean TPOT, ms", "milliseconds/token"]
)
def test_speed_unit_time_per_token_is_inverted(text: str):
    assert speed_unit(text).total_tokens_per_s(20.0, 4) == pytest.approx(200.0)


def test_speed_unit_seconds_per_token():
    assert speed_unit("s/token").total_tokens_per_s(0.5, 1) == 2.0


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("tokens/min", "no unit of speed"), ("req/s", "no unit of speed"), ("tok/s/gpu", "no unit of speed"),
        ("total token throughput (tok/s)", "no unit of speed"), ("prompt tok/s", "no unit of speed"),
        ("total tok/s per user", "both"), ("x" * 10_000, "no unit of speed"), ("acc" * 40_000, "no unit of speed"),
    ],
)  # fmt: skip
def test_speed_unit_unknown_is_refused_with_the_accepted_ones(text: str, problem: str):
    with pytest.raises(BadInput, match=rf"{problem}.*; one of tok/s total, tok/s per stream, ms/token"):
        speed_unit(text)


def test_speed_unit_may_say_that_acceptance_is_in_percent():
    unit = speed_unit("tok/s total, acceptance in percent")
    assert unit.acceptance_in_percent
    assert unit.says_total
    assert not speed_unit("tok/s").acceptance_in_percent
