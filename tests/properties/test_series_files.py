"""A series says the same however it is written, and damage to some of its rows never costs another."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specbook.checks import BadInput, printable
from specbook.validation.published_series import published_series
from specbook.validation.series import SeriesFile, SeriesRow, example_series, read_series

# A hang is a failure: hypothesis counts an example that takes longer as one.
DAMAGE = settings(deadline=timedelta(seconds=5), suppress_health_check=[HealthCheck.function_scoped_fixture])

NAMES = ("series", "target", "hardware", "K", "batch", "acc_len_incl_bonus", "acc_rate", "tok_s", "unit", "note")
# Letters that UTF-8 cannot take for the rest of another, so that a text in Latin-1 is told from one in UTF-8.
TEXT = st.text(st.sampled_from('ab 4,;|"\té×üñÖ'), max_size=8).map(str.strip)


@st.composite
def good_rows(draw: st.DrawFn) -> list[list[str]]:
    """Rows of a series that can be used, cells as in a table with decimal points."""
    rows = []
    for _ in range(draw(st.integers(1, 6))):
        k = draw(st.integers(1, 9))
        rate = draw(st.integers(0, 999)) / 1000
        speed = draw(st.integers(1, 99_999)) / 100
        unit = draw(st.sampled_from(["tok/s", "tok/s per stream", "ms/token", ""]))
        batch = str(draw(st.integers(1, 64)))
        length = f"{1 + k * rate:.3f}"
        texts = [draw(TEXT) for _ in range(3)]
        rows.append([*texts, str(k), batch, length, f"{rate:.3f}", f"{speed:.2f}", unit, draw(TEXT)])
    return rows


def _written(rows: list[list[str]], separator: str, quoting: int, end: str) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=separator, quoting=quoting, lineterminator=end)
    writer.writerow(NAMES)
    numbers = slice(5, 8)
    for row in rows:
        cells = list(row)
        if separator != ",":
            # A speed with three digits behind the comma could be thousands; none here has three.
            cells[numbers] = [cell.replace(".", ",") for cell in cells[numbers]]
        writer.writerow(cells)
    return stream.getvalue()


def _read(path: Path, content: bytes) -> SeriesFile:
    path.write_bytes(content)
    return read_series(path)


def _read_or_refused(path: Path, content: bytes) -> SeriesFile | BadInput:
    try:
        return _read(path, content)
    except BadInput as error:
        return error


def _is_safe(said: object) -> bool:
    """One line that a terminal shows and does not act on."""
    return printable(str(said)) == str(said)


@DAMAGE
@given(
    rows=good_rows(),
    separator=st.sampled_from(",;\t|"),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp1252"]),
)
def test_read_series_says_the_same_however_it_is_written(
    tmp_path: Path, rows: list[list[str]], separator: str, quoting: int, end: str, encoding: str
):
    plain = _read(tmp_path / "plain.csv", _written(rows, ",", csv.QUOTE_MINIMAL, "\n").encode())
    assert len(plain.rows) == len(rows)
    other = _read(tmp_path / "other.csv", _written(rows, separator, quoting, end).encode(encoding))
    assert other.separator == separator
    assert other.rows == plain.rows


GARBAGE = st.one_of(
    st.binary(max_size=60),
    st.text(max_size=40).map(lambda text: text.encode("utf-8", "replace")),
    st.text(st.sampled_from(',;"\t|\r\0 1.e-%=@kK'), max_size=40).map(str.encode),
)


@DAMAGE
@given(garbage=st.lists(GARBAGE, min_size=1, max_size=5), places=st.lists(st.integers(0, 3), min_size=5, max_size=5))
def test_read_series_garbage_between_the_rows_loses_none(tmp_path: Path, garbage: list[bytes], places: list[int]):
    good = [f"kept,Llama-3.1-8B,H100,3,{batch},2.5,0.5,{90 + batch},tok/s,".encode() for batch in range(1, 5)]
    lines: list[bytes] = list(good)
    for each, place in zip(garbage, places, strict=False):
        lines.insert(place, each)
    table = _read(tmp_path / "a.csv", b"\n".join([",".join(NAMES).encode(), *lines, b""]))
    kept = [replace(row, line=0) for row in table.rows if row.series == "kept"]
    expected = [
        SeriesRow(
            line=0, series="kept", target="Llama-3.1-8B", hardware="H100", draft_length=3.0, batch=batch,
            tokens_per_round=2.5, draft_acceptance_rate=0.5, tokens_per_s=90.0 + batch, unit="tok/s",
        )
        for batch in range(1, 5)
    ]  # fmt: skip
    assert kept == expected
    assert all(_is_safe(problem) for problem in table.problems)


@DAMAGE
@given(
    content=st.one_of(st.binary(max_size=400), st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace")))
)
def test_read_series_any_bytes_are_a_series_or_one_line(tmp_path: Path, content: bytes):
    read = _read_or_refused(tmp_path / "a.csv", content)
    assert isinstance(read, SeriesFile) or _is_safe(read)


SHIPPED = (example_series().parent / "published" / "series.csv").read_bytes()[:20_000]


@DAMAGE
@given(
    places=st.lists(st.integers(0, len(SHIPPED) - 1), min_size=1, max_size=8),
    patches=st.lists(st.binary(max_size=6), min_size=8, max_size=8),
)
def test_read_series_damaged_shipped_file_is_a_series_or_one_line(
    tmp_path: Path, places: list[int], patches: list[bytes]
):
    damaged = bytearray(SHIPPED)
    for place, patch in zip(places, patches, strict=False):
        damaged[place : place + len(patch)] = patch
    read = _read_or_refused(tmp_path / "a.csv", bytes(damaged))
    assert isinstance(read, SeriesFile) or _is_safe(read)
    for row in read.rows if isinstance(read, SeriesFile) else ():
        assert row.draft_acceptance_rate is None or 0.0 <= row.draft_acceptance_rate <= 1.0
        assert row.tokens_per_round is None or row.tokens_per_round >= 1.0
        assert row.speedup is None or row.speedup > 0.0


@pytest.mark.parametrize("copies", [1, 3])
def test_read_series_repeated_rows_are_read_as_often(tmp_path: Path, copies: int):
    header, *rows = (example_series().parent / "published" / "series.csv").read_text("utf-8").splitlines(keepends=True)
    table = _read(tmp_path / "a.csv", "".join([header, *(rows * copies)]).encode())
    n_rows = len(published_series().rows)
    assert [replace(row, line=0) for row in table.rows[-n_rows:]] == [
        replace(row, line=0) for row in published_series().rows
    ]
    assert len(table.rows) == copies * n_rows
