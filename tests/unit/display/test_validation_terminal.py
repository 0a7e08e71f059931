"""A validation on a terminal: the figures with their counts, cut lists that say so, and cells that stay inert."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbook.display.validation_missing import commonest_lack, line_ranges, missing_groups
from specbook.display.validation_terminal import MOST_LINES, group_rows, grouped_scores, missing_rows, show_validation
from specbook.display.validation_words import counts_line, headlines
from specbook.validation.explain import explained
from specbook.validation.validate import Validation
from tests.validation_cases import compared, incomplete, problem, validation_of

NO_ROWS = pl.DataFrame()
WHICH_H100 = "hardware: 'H100' may be h100-sxm5 or h100-pcie; they differ: state --device h100-sxm5"


def _shown(validation: Validation, capsys: pytest.CaptureFixture[str], n_worst: int = 0) -> str:
    show_validation(validation, explained(validation, n_worst))
    return capsys.readouterr().out


def test_figures_come_with_counts_and_conditions(capsys: pytest.CaptureFixture[str]) -> None:
    lengths = [compared(2, 1.5, 1.6), compared(3, 2.0, 1.9, draft_length=4.0), compared(4, 1.8, 2.0, draft_length=7.0)]
    others = [compared(5, 0.8, 1.2, series="yours"), compared(6, 1.02, 0.9, series="yours", status="completed")]
    out = _shown(validation_of(*lengths, *others), capsys)
    lines = out.splitlines()
    assert (
        lines[0] == "mine.csv: 5 rows; 5 predicted and compared, 1 of them with something worked out or taken as usual"
    )
    assert lines[1] == (
        "win or lose: right for 3 of 4 rows (75 %) that were measured outside ±5 % of 1; drafting always would be "
        "for 3; not counted: 1 within it"
    )
    assert lines[2] == (
        "best draft length: within one token for 0 of 1 choices of K (0 %), exact for 0, "
        "within one of the lengths that were tried for 1; the predicted K costs 10.0 % of the speed in the mean"
    )
    assert lines[3].startswith("speedup: median |error| 11.1 % over 5 rows; nine of ten within ")
    assert "all that is needed, 4 rows: " in lines[4]
    assert "with something worked out, 1 row: 11.8 %" in lines[4]
    assert "note: Acceptance is taken as given." in lines


def test_what_cannot_be_said_is_not_a_figure() -> None:
    first, second, *_ = headlines(validation_of(compared(2, 1.0, 1.1)))
    assert first == "win or lose: nothing to say, as no row was measured outside ±5 % of 1"
    assert second == "best draft length: nothing to say, as no series varies K at one batch"


def test_intervals_are_told_where_there_are_any() -> None:
    bounded = [compared(2, 1.5, 1.6, predicted_low=1.4, predicted_high=1.7), compared(3, 1.5, 2.0)]
    bounded.append(compared(4, 3.0, 2.0, predicted_low=1.4, predicted_high=2.1))
    assert list(headlines(validation_of(*bounded)))[-1].startswith("intervals: hold 50 % ")
    assert not any(line.startswith("intervals") for line in headlines(validation_of(compared(2, 1.5, 1.6))))


def test_rows_are_counted_by_what_became_of_them() -> None:
    rows = [compared(2, 1.5, 1.6), incomplete(3, "batch"), incomplete(4, "batch"), {"line": 5, "status": "impossible"}]
    told = counts_line(validation_of(*rows))
    assert told == "mine.csv: 4 rows; 1 predicted and compared; 2 lack something; 1 cannot be true or read"


def test_groups_are_by_engine_device_and_target_together() -> None:
    rows = [
        compared(2, 1.0, 1.1),
        compared(3, 1.0, 1.3),
        compared(4, 2.0, 1.0, device="l4"),
        compared(5, 2.0, 3.0, engine=None),
        incomplete(6, "batch"),
    ]
    scores = grouped_scores(validation_of(*rows).frame)
    found = scores.select("engine", "device", "n_rows", "median_absolute_error").rows()
    assert found[0] == ("SGLang", "h200-sxm", 2, pytest.approx(0.2))
    assert set(found[1:]) == {("SGLang", "l4", 1, 0.5), ("not stated", "h200-sxm", 1, 0.5)}
    assert group_rows(validation_of(*rows).frame)[0][">win or lose"] == "–"


def test_what_is_missing_is_grouped_with_what_answers() -> None:
    rows = [
        incomplete(2, f"{WHICH_H100}; batch", hardware="H100"),
        incomplete(3, WHICH_H100, hardware="H100"),
        incomplete(4, "hardware: 'CPU' does not say which one: state --device", hardware="CPU"),
        incomplete(9, "weight format of the target: --precision; a run without speculation", target="Llama 8B GGUF"),
        incomplete(10, "the phase of the moon"),
    ]
    groups = missing_groups(validation_of(*rows).frame)
    assert [(each.what, each.written, each.n_rows, each.n_alone, each.lines) for each in groups] == [
        ("hardware", "H100", 2, 1, (2, 3)),
        ("batch", None, 1, 0, (2,)),
        ("hardware", "CPU", 1, 1, (4,)),
        ("weight format of the target", "Llama 8B GGUF", 1, 0, (9,)),
        ("a run without speculation", None, 1, 0, (9,)),
        ("the phase of the moon", None, 1, 1, (10,)),
    ]
    assert commonest_lack(groups) == (groups[0], 3)
    answers = {row["missing"]: row["answer"] for row in missing_rows(validation_of(*rows).frame)}
    assert answers["batch"] == "column batch"
    assert answers["weight format of the target"] == "--precision"
    assert answers["hardware"].startswith("'CPU' does not say")


def test_a_question_keeps_its_own_semicolons() -> None:
    group = missing_groups(validation_of(incomplete(2, f"{WHICH_H100}; batch", hardware="H100")).frame)[0]
    assert group.question == "'H100' may be h100-sxm5 or h100-pcie; they differ: state --device h100-sxm5"


@given(st.sets(st.integers(2, 60), min_size=1))
def test_ranges_of_lines_are_the_lines(lines: set[int]) -> None:
    told = line_ranges(sorted(lines))
    parts = [part.split("–") for part in told.removesuffix(" …").split(", ")]
    covered = {line for part in parts for line in range(int(part[0]), int(part[-1]) + 1)}
    assert covered <= lines
    assert (covered == lines) != told.endswith(" …")


def test_long_lists_are_cut_and_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    n_rows = MOST_LINES + 3
    rows = [compared(line, 1.5, 1.6, target_model=f"model {line}") for line in range(2, 2 + n_rows)]
    rows += [incomplete(line, f"thing {line}") for line in range(100, 100 + n_rows)]
    out = _shown(validation_of(*rows, problems=[problem(line) for line in range(200, 200 + n_rows)]), capsys)
    assert out.count("… and 3 more; --json and --out have all rows") == 3
    assert out.count("not used: line") == MOST_LINES


def test_the_worst_are_explained_and_say_where_they_stand(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [compared(2, 1.5, 1.6), compared(17, 0.8, 1.2, batch=64)]
    lines = _shown(validation_of(*rows), capsys, 1).splitlines()
    assert "  line 17, K 3, batch 64, mine: measured 0.80, predicted 1.20, +50.0 %" in lines
    assert not any(line.strip().startswith("line 2,") for line in lines)
    assert any(line.startswith("    A round lasted ") for line in lines)


def test_problems_say_whether_the_row_was_used(capsys: pytest.CaptureFixture[str]) -> None:
    problems = [problem(7), problem(9, "0.1", is_fatal=False)]
    out = _shown(validation_of(compared(2, 1.5, 1.6), problems=problems), capsys)
    assert "  not used: line 7, column tok_s: 0 is not above 0; leave it empty\n" in out
    assert "  line 9, column tok_s: 0.1 is not above 0; leave it empty\n" in out


def test_cells_of_a_hostile_file_are_shown_and_never_acted_on(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "\x1b[31m[red]x[/red]\u202e"
    labels = dict.fromkeys(("series", "engine", "target_model", "workload"), hostile)
    rows = [compared(2, 1.5, 1.6, **labels), incomplete(3, f"hardware: {hostile!s} --device", hardware=hostile)]
    out = _shown(validation_of(*rows, problems=[problem(4, hostile)]), capsys, 1)
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert "\\x1b[31m[red]x[/red]\\u202e" in out


def test_answers_have_room_where_a_table_has_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    out = _shown(validation_of(compared(2, 1.5, 1.6), incomplete(3, WHICH_H100, hardware="H100")), capsys)
    lines = [line.strip() for line in out[out.index("rows that lack something") :].splitlines()]
    assert lines[1] == "hardware: 1"
    assert len(lines[2].split()) > 3


@pytest.mark.parametrize("columns", [80, 120, 200])
def test_tables_fit(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    rows = [compared(2, 1.5, 1.6), incomplete(3, WHICH_H100, hardware="H100")]
    out = _shown(validation_of(*rows), capsys)
    tables = out[out.index("by engine, device and target") :]
    assert max(len(line.rstrip()) for line in tables.splitlines()) <= columns
    assert "6.7 %" in tables
    assert "--device" in tables
