"""Every reader of step times survives damage: a valid table or one line, and never a traceback."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specbook.checks import BadInput
from specbook.hardware.readers import FORMATS, StepTimeOptions, import_step_times
from specbook.hardware.step_times import LONGEST_S, SHORTEST_S, StepTimeTable, read_step_times, write_step_times
from specbook.roofline.measured_steps import MeasuredSteps
from tests import step_time_files as files

# A hang is a failure: hypothesis counts an example that takes longer as one.
DAMAGE = settings(deadline=timedelta(seconds=5), suppress_health_check=[HealthCheck.function_scoped_fixture])

ODD_WORDS = [
    "", "nan", "inf", "-1", "0", "1e308", "9" * 400, "1.5", "true", "null", "\x00", "\x1b[31m", "\u202e", "é" * 50, "{",
    "[", "]", '"', "|", ",", ";", "\t", "tg1", "pp1", "@ d5", "\\ud800", "1_0", "5", "GGML_BATCH_COSTS=", "---",
]  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn, text: str) -> bytes:
    """Up to three stretches cut, repeated, replaced or swapped; of characters, of words or of lines."""
    for _ in range(draw(st.integers(1, 3))):
        separator = draw(st.sampled_from(["", " ", ",", "\n", ":", "|"]))
        parts = list(text) if not separator else text.split(separator)
        if not parts:
            break
        place = draw(st.integers(0, len(parts) - 1))
        match draw(st.sampled_from(["cut", "repeat", "replace", "swap", "end"])):
            case "cut":
                del parts[place]
            case "repeat":
                parts.insert(place, parts[place])
            case "replace":
                parts[place] = draw(st.sampled_from(ODD_WORDS))
            case "swap":
                other = draw(st.integers(0, len(parts) - 1))
                parts[place], parts[other] = parts[other], parts[place]
            case _:
                parts = parts[:place]
        text = separator.join(parts)
    content = text.encode("utf-8", errors="surrogatepass")
    place = draw(st.integers(0, len(content)))
    return content if draw(st.booleans()) else content[:place] + draw(st.binary(max_size=2)) + content[place + 1 :]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.mark.parametrize("name", files.EXAMPLES)
@given(data=st.data())
@DAMAGE
def test_damaged_file_is_a_table_or_one_line(folder: Path, name: str, data: st.DataObject):
    (folder / name).write_bytes(data.draw(damaged(files.EXAMPLES[name])))
    _check_survival(folder, name, data.draw(st.sampled_from(["auto", *FORMATS])))


@given(content=st.binary(max_size=200))
@DAMAGE
def test_any_bytes_are_a_table_or_one_line(folder: Path, content: bytes):
    (folder / "a").write_bytes(content)
    _check_survival(folder, "a", "auto")


def _check_survival(folder: Path, name: str, wanted: str) -> None:
    """What was read says nothing impossible, reads back the same, and is a step time or says why it is none."""
    refusal = ""
    try:
        table = import_step_times(folder / name, StepTimeOptions(format=wanted))
        _check_table(table, folder / "out.json")
    except BadInput as error:
        refusal = str(error)
    assert len(refusal.splitlines()) <= 1


def _check_table(table: StepTimeTable, out: Path) -> None:
    write_step_times(table, out)
    assert read_step_times(out) == table
    if table.unit == "seconds":
        assert all(SHORTEST_S <= point.seconds <= LONGEST_S for point in table.points)
    one_pass_s = 0.01 if table.unit == "relative" else None
    step = MeasuredSteps.from_table(table, one_pass_s=one_pass_s, nearest=["context"])
    assert step(table.widths[0], table.batches[0], 512) > 0.0
