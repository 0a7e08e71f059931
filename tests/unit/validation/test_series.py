"""Files of measured series: what is read, what is worked out, and what is named by line and column."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specbook.checks import BadInput
from specbook.validation.series import SeriesFile, SeriesRow, read_series

Save = Callable[[str, Any], Path]

GOOD: dict[str, str] = {
    "series": "a", "source": "x/y#1", "hardware": "NVIDIA H100 SXM", "engine": "vLLM", "target": "Llama-3.1-8B",
    "drafter": "EAGLE-3", "K": "3", "batch": "1", "context": "512", "workload": "chat", "acc_len_incl_bonus": "2.5",
    "acc_rate": "0.5", "n_rounds": "", "n_drafted": "", "n_accepted": "", "tok_s": "180", "baseline_tok_s": "120",
    "unit": "tok/s", "note": "",
}  # fmt: skip


def _table(*rows: dict[str, str]) -> str:
    """A table of bars, which no cell here holds, so that commas in cells need no quotes."""
    names = list(dict.fromkeys(name for row in (GOOD, *rows) for name in row))
    lines = [names, *([(GOOD | row).get(name, "") for name in names] for row in rows)]
    return "".join("|".join(line) + "\n" for line in lines)


@pytest.fixture
def read(save: Save) -> Callable[..., SeriesFile]:
    """Read rows that differ from a good one in the cells given, with a good one behind them."""

    def of(*rows: dict[str, str]) -> SeriesFile:
        return read_series(save("a.csv", _table(*rows, {})))

    return of


def _only(table: SeriesFile) -> SeriesRow:
    assert [problem for problem in table.problems if problem.is_fatal] == []
    return table.rows[0]


def test_read_series_good_row_is_read_as_written(read: Callable[..., SeriesFile]):
    assert _only(read({})) == SeriesRow(
        line=2, series="a", source="x/y#1", hardware="NVIDIA H100 SXM", engine="vLLM", target="Llama-3.1-8B",
        drafter="EAGLE-3", workload="chat", unit="tok/s", draft_length=3.0, batch=1, context_tokens=512.0,
        tokens_per_round=2.5, draft_acceptance_rate=0.5, tokens_per_s=180.0, baseline_tokens_per_s=120.0,
    )  # fmt: skip
    assert _only(read({})).speedup == 1.5


EMPTY = dict.fromkeys(("K", "acc_len_incl_bonus", "acc_rate"), "")


@pytest.mark.parametrize(
    ("cells", "draft_length", "length", "rate"),
    [
        ({"n_rounds": "100", "n_drafted": "400", "n_accepted": "250"}, 4.0, 3.5, 0.625),
        ({"n_rounds": "100", "n_accepted": "250"}, None, 3.5, None),
        ({"acc_rate": "0.5", "acc_len_incl_bonus": "3"}, 4.0, 3.0, 0.5),
        ({"acc_rate": "0.5", "K": "4"}, 4.0, 3.0, 0.5),
        ({"n_drafted": "400", "n_accepted": "200", "K": "4"}, 4.0, 3.0, 0.5),
        ({"n_drafted": "400", "n_accepted": "200", "acc_len_incl_bonus": "3"}, 4.0, 3.0, 0.5),
        ({"acc_rate": "0", "acc_len_incl_bonus": "1"}, None, 1.0, 0.0),
        ({"n_drafted": "0", "n_accepted": "0", "acc_len_incl_bonus": "1"}, None, 1.0, None),
        ({"K": "0", "acc_len_incl_bonus": "1"}, 0.0, 1.0, None),
        ({"K": "0"}, 0.0, 1.0, None),
        ({"acc_rate": "0.5"}, None, None, 0.5),
        ({}, None, None, None),
    ],
)
def test_read_series_missing_figures_follow_from_others_or_stay_missing(
    read: Callable[..., SeriesFile], cells: dict[str, str], draft_length: float, length: float, rate: float
):
    row = _only(read(EMPTY | {"tok_s": "100", "baseline_tok_s": "100"} | cells))
    assert (row.draft_length, row.tokens_per_round, row.draft_acceptance_rate) == (draft_length, length, rate)
    n_stated = sum(bool(cells.get(name)) for name in EMPTY)
    assert len(row.derived) == sum(figure is not None for figure in (draft_length, length, rate)) - n_stated


@pytest.mark.parametrize(
    ("cells", "speed", "baseline"),
    [
        ({"batch": "8", "unit": "tok/s per stream", "tok_s": "50", "baseline_tok_s": "40"}, 400.0, 320.0),
        ({"batch": "4", "unit": "ms/token", "tok_s": "10", "baseline_tok_s": "20"}, 400.0, 200.0),
        ({"batch": "8", "unit": "output tok/s total", "tok_s": "400", "baseline_tok_s": ""}, 400.0, None),
        ({"batch": "", "unit": "tok/s", "tok_s": "50", "baseline_tok_s": "40"}, 50.0, 40.0),
    ],
)
def test_read_series_speeds_become_totals(
    read: Callable[..., SeriesFile], cells: dict[str, str], speed: float, baseline: float
):
    row = _only(read(cells))
    assert (row.tokens_per_s, row.baseline_tokens_per_s) == (pytest.approx(speed), baseline and pytest.approx(baseline))


def test_read_series_speedup_is_measured_or_else_the_stated_one(read: Callable[..., SeriesFile]):
    stated = read({"tok_s": "", "baseline_tok_s": "", "speedup": "1.4"})
    assert _only(stated).speedup == 1.4
    both = read({"speedup": "1.9"})
    assert _only(both).speedup == 1.5
    assert str(both.problems[0]) == (
        "line 2, column speedup: 1.9 is not tok_s ÷ baseline_tok_s = 1.5, which is used; correct either"
    )


@pytest.mark.parametrize(
    ("cells", "column", "problem"),
    [
        ({"acc_rate": "54.7"}, "acc_rate", "above 1: percent?"),
        ({"acc_rate": "-0.1"}, "acc_rate", "below 0"),
        ({"acc_len_incl_bonus": "4.1"}, "acc_len_incl_bonus", "above K + 1 = 4"),
        ({"acc_len_incl_bonus": "0.9"}, "acc_len_incl_bonus", "below 1"),
        ({"acc_len_incl_bonus": "1.2", "K": "0"}, "acc_len_incl_bonus", "above K + 1 = 1"),
        ({"K": "-1"}, "K", "below 0"),
        ({"K": "2.5"}, "K", "not a whole number"),
        ({"K": "9999999"}, "K", "above 1000000"),
        ({"batch": "0"}, "batch", "below 1"),
        ({"batch": "1.5"}, "batch", "not a whole number"),
        ({"devices": "0"}, "devices", "below 1"),
        ({"tok_s": "0"}, "tok_s", "not above 0"),
        ({"tok_s": "-5"}, "tok_s", "not above 0"),
        ({"tok_s": "nan"}, "tok_s", "not finite"),
        ({"tok_s": "inf"}, "tok_s", "not finite"),
        ({"tok_s": "1,488"}, "tok_s", "thousands"),
        ({"tok_s": "fast"}, "tok_s", "not a number"),
        ({"baseline_tok_s": "0"}, "baseline_tok_s", "not above 0"),
        ({"tok_s": "1e-320", "unit": "ms/token"}, "tok_s", "no speed of anything"),
        ({"tok_s": "1e308", "baseline_tok_s": "1e-300"}, "tok_s", "no speedup that is a number"),
        ({"tok_s": "1e-300"}, "tok_s", "times the baseline, which no drafting is"),
        ({"context": "-5"}, "context", "no number of tokens in a cache"),
        ({"context": "1.024"}, "context", "thousands separator"),
        ({"speedup": "0"}, "speedup", "not above 0"),
        ({"unit": "req/s"}, "unit", "no unit of speed"),
        ({"unit": "tok/s per user", "batch": ""}, "tok_s", "the batch is missing"),
        ({"n_drafted": "10", "n_accepted": "11"}, "n_accepted", "more than the 10 drafted"),
        ({"n_rounds": "10", "n_accepted": "31", "acc_len_incl_bonus": ""}, "n_accepted", "K × n_rounds = 30"),
        ({"n_rounds": "10", "n_drafted": "31"}, "n_drafted", "K × n_rounds = 30"),
        ({"n_rounds": "0"}, "n_rounds", "below 1"),
    ],
)
def test_read_series_impossible_row_is_named_and_the_rest_is_read(
    read: Callable[..., SeriesFile], cells: dict[str, str], column: str, problem: str
):
    table = read({}, cells)
    assert [row.line for row in table.rows] == [2, 4]
    fatal = [each for each in table.problems if each.is_fatal]
    assert {(each.line, each.column) for each in fatal} >= {(3, column)}
    assert any(problem in each.problem and each.value == cells.get(column, "180") for each in fatal)


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ({"acc_rate": "0.3"}, "column acc_rate: 0.3 is 0.3, and (acc_len_incl_bonus − 1) ÷ K = 0.5; fewer than K"),
        ({"n_drafted": "100", "n_accepted": "80"}, "acc_rate: 0.5 is 0.5, and n_accepted ÷ n_drafted = 0.8; correct"),
        ({"n_rounds": "100", "n_accepted": "90"}, "incl_bonus: 2.5 is 2.5, and 1 + n_accepted ÷ n_rounds = 1.9"),
        (
            {"tok_s": "360"},
            "column tok_s: 360 is 3 times the baseline, faster than its 2.5 tokens per round allow; the",
        ),
        ({"context": "long"}, "column context: long is no length of a context; write 4096"),
    ],
)
def test_read_series_odd_row_is_warned_about_and_kept(
    read: Callable[..., SeriesFile], cells: dict[str, str], said: str
):
    table = read(cells)
    assert len(table.rows) == 2
    assert len(table.problems) == 1
    assert said in str(table.problems[0])
    assert str(table.problems[0]).startswith("line 2, ")
    assert not table.problems[0].is_fatal


@pytest.mark.parametrize(
    "cells",
    [{"acc_rate": "0.47"}, {"acc_rate": "0.54"}, {"acc_rate": "1.0", "acc_len_incl_bonus": "4.015"}, {"tok_s": "301"}],
)
def test_read_series_rounding_and_averaging_are_no_contradiction(
    read: Callable[..., SeriesFile], cells: dict[str, str]
):
    assert read(cells).problems == ()


@pytest.mark.parametrize(
    ("units", "speeds", "lines"),
    [
        (("tok/s total", ""), ("400", "50"), [3]),
        (("tok/s total", "tok/s"), ("400", "51"), [3]),
        (("", ""), ("400", "50"), [3]),
        (("tok/s total", "tok/s per stream"), ("400", "50"), []),
        (("tok/s", "tok/s"), ("400", "50"), []),
        (("tok/s total", ""), ("400", "60"), []),
    ],
)
def test_read_series_speed_that_may_be_of_one_stream_is_asked_about(
    read: Callable[..., SeriesFile], units: tuple[str, str], speeds: tuple[str, str], lines: list[int]
):
    rows = [
        {"batch": "8", "unit": unit, "tok_s": speed, "baseline_tok_s": ""}
        for unit, speed in zip(units, speeds, strict=True)
    ]
    table = read(*rows)
    assert [each.line for each in table.problems if "per stream or total?" in each.problem] == lines
    assert len(table.rows) == 3
    other = read(rows[0], rows[1] | {"series": "b"})
    assert other.problems == ()


def test_read_series_speeds_of_one_stated_unit_are_not_asked_about(read: Callable[..., SeriesFile]):
    pairs = [("tok/s", "400"), ("tok/s", "50"), ("tok/s total", "20")]
    rows = [{"batch": "8", "unit": unit, "tok_s": speed, "baseline_tok_s": ""} for unit, speed in pairs]
    assert read(*rows).problems == ()


def test_read_series_percent_by_column_by_sign_and_by_unit(save: Save):
    text = "target,K,acc_rate_percent,tok_s\na,3,50,1\na,3,50 %,1\na,3,0.5,1\n"
    table = read_series(save("a.csv", text))
    assert [row.draft_acceptance_rate for row in table.rows] == [0.5, 0.5, 0.005]
    assert [(each.line, each.is_fatal) for each in table.problems] == [(4, False)]
    by_unit = read_series(save("b.csv", 'target,acc_rate,tok_s,unit\na,50,1,"tok/s, acc_rate in %"\n'))
    assert by_unit.rows[0].draft_acceptance_rate == 0.5


def test_read_series_open_names_are_warned_about(save: Save):
    table = read_series(save("a.csv", "Model,acceptance rate,Acceptance-Length,tok/s\na,0.5,2.5,1\n"))
    assert [str(problem) for problem in table.problems] == [
        "line 1, column acceptance rate: is taken as accepted ÷ drafted tokens; name the column acc_rate, or "
        "acc_len_incl_bonus",
        "line 1, column Acceptance-Length: is taken to count the bonus token; name the column acc_rate, or "
        "acc_len_incl_bonus",
    ]
    assert (table.rows[0].target, table.rows[0].tokens_per_round, table.rows[0].draft_length) == ("a", 2.5, 3.0)


def test_read_series_problem_shows_what_a_terminal_would_act_on_escaped(read: Callable[..., SeriesFile]):
    (problem,) = read({"K": "\x1b[31m" + "9" * 200}).problems
    assert str(problem).startswith("line 2, column K: \\x1b[31m999")
    assert "…" in str(problem)
    assert len(str(problem)) < 200


@pytest.mark.parametrize("text", ["=cmd()", "+1", "-1", "@SUM(A1)", "=1+1"])
def test_read_series_formulas_are_plain_text(read: Callable[..., SeriesFile], text: str):
    assert _only(read({"note": text, "series": text})).note == text


def test_read_series_unknown_unit_without_a_speed_does_not_matter(read: Callable[..., SeriesFile]):
    assert _only(read({"tok_s": "", "baseline_tok_s": "", "unit": "furlongs"})).tokens_per_s is None


def test_read_series_separate_columns_of_lengths_and_devices(read: Callable[..., SeriesFile]):
    row = _only(read({"context": "", "ISL": "1024", "osl": "128", "TP": "8"}))
    assert (row.prompt_tokens, row.output_tokens, row.context_tokens, row.n_devices) == (1024.0, 128.0, None, 8)


def test_read_series_duplicate_columns(save: Save):
    with pytest.raises(BadInput, match=r"a\.csv: header = 'k': names the column k twice; rename one of them"):
        read_series(save("a.csv", "target,K,k,tok_s\na,1,2,3\n"))
    table = read_series(save("b.csv", "target,draft_length,K,tok_s,colour,tps,colour\na,1,2,3,red,4,blue\n"))
    assert (table.rows[0].draft_length, table.rows[0].tokens_per_s) == (2.0, 3.0)
    assert table.ignored_columns == ("draft_length", "colour", "tps", "colour")
