"""The figures that the roofline reads are those that the shipped series give today."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specbook.roofline import engine_overheads
from specbook.roofline.engine_overheads import CONSTANTS
from specbook.validation import record_overheads
from specbook.validation.published_errors import FITTED, KNOWN, comparable
from specbook.validation.record_overheads import ASSUMED, recorded_overheads

STORED = Path(engine_overheads.__file__).with_suffix(".json")


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    return recorded_overheads()


def _numbers(entry: dict[str, Any]) -> dict[str, float]:
    """Every number of an entry by its place."""
    intervals = {f"{name} {end}": value for name, ends in entry["intervals"].items() for end, value in enumerate(ends)}
    ratios = {f"ratio {end}": value for end, value in enumerate(entry["ratio_interval"]) if value is not None}
    return {**{name: entry[name] for name in CONSTANTS}, **intervals, **ratios}


@pytest.mark.parametrize("engine", FITTED)
def test_stored_figures_are_those_of_the_shipped_series(recorded: dict[str, Any], engine: str):
    # After the series, the catalogue or the model changed: python -m specbook.validation.record_overheads
    stored, now = json.loads(STORED.read_text(encoding="utf-8"))[engine], recorded[engine]
    assert _numbers(stored) == pytest.approx(_numbers(now), rel=1e-3, abs=1e-9)
    for name in ("evidence", "source", "n_rows", "n_series"):
        assert stored[name] == now[name]


def test_stored_engines_are_those_that_are_fitted_and_those_that_take_their_figures():
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    assert set(stored) == {*FITTED, *ASSUMED}
    assert {name: entry["as"] for name, entry in stored.items() if "as" in entry} == ASSUMED
    assert set(ASSUMED.values()) <= set(FITTED)


@pytest.mark.parametrize("engine", FITTED)
def test_an_entry_holds_what_was_fitted_and_what_was_known(recorded: dict[str, Any], engine: str):
    entry, rows = recorded[engine], comparable(engine)
    assert (entry["n_rows"], entry["n_series"]) == (len(rows.found), len(set(rows.groups("series"))))
    for name, value in KNOWN[engine].items():
        assert entry[name] == value
        assert name not in entry["intervals"]
    for name, (low, high) in entry["intervals"].items():
        assert low <= entry[name] <= high
        assert low == 0.0 or low > 1e-12


def test_recording_writes_what_it_says(recorded: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(record_overheads.engine_overheads, "__file__", str(tmp_path / "engine_overheads.py"))
    monkeypatch.setattr(record_overheads, "recorded_overheads", lambda: recorded)
    record_overheads.main()
    assert json.loads((tmp_path / "engine_overheads.json").read_text(encoding="utf-8")) == recorded


def test_recording_twice_gives_the_same_figures(recorded: dict[str, Any]):
    assert recorded_overheads() == recorded
