"""What strict comparison of outputs does not see: a stripped notebook passes it, and so does one that opts out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
MAX_BYTES = 200_000
MAX_CELL_LINES = 16
ALLOWED_TAGS = {"hide-cell"}
CHAPTER_PARTS = (
    "You will be able to",
    "You need",
    "**Predict.**",
    "**Check",
    "Takeaway",
    "**Question:**",
    "## Limits",
    "## Exercises",
    "## Summary",
    "Terms:",
    "Sources:",
    "Next:",
)


def _read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def _code(path: Path) -> list[Any]:
    return [cell for cell in _read(path).cells if cell.cell_type == "code"]


def test_notebooks_exist() -> None:
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
class TestNotebook:
    def test_execution_counts_run_from_one(self, path: Path) -> None:
        assert [cell.execution_count for cell in _code(path)] == list(range(1, len(_code(path)) + 1))

    def test_size_is_within_the_promise(self, path: Path) -> None:
        assert path.stat().st_size <= MAX_BYTES

    def test_no_cell_failed_or_wrote_to_standard_error(self, path: Path) -> None:
        outputs = [output for cell in _code(path) for output in cell.outputs]
        assert all(output.output_type != "error" and output.get("name") != "stderr" for output in outputs)

    def test_no_cell_opts_out_of_the_comparison(self, path: Path) -> None:
        for cell in _read(path).cells:
            assert set(cell.metadata.get("tags", [])) <= ALLOWED_TAGS
            assert "NBVAL" not in cell.source.upper()

    def test_no_widget_state_or_timing_is_stored(self, path: Path) -> None:
        notebook = _read(path)
        assert set(notebook.metadata) == {"kernelspec", "language_info"}
        assert all("execution" not in cell.metadata for cell in notebook.cells)

    def test_code_cells_are_short_and_define_no_long_function(self, path: Path) -> None:
        for cell in _code(path):
            assert len(cell.source.splitlines()) <= MAX_CELL_LINES, cell.source
            assert "\ndef " not in f"\n{cell.source}", cell.source

    def test_chapter_has_the_parts_of_the_form(self, path: Path) -> None:
        prose = "\n".join(cell.source for cell in _read(path).cells if cell.cell_type == "markdown")
        assert prose.splitlines()[0].endswith("?")
        for part in CHAPTER_PARTS:
            assert part in prose, part
        assert prose.count("**Predict") >= 4
        folded = [cell for cell in _code(path) if "hide-cell" in cell.metadata.get("tags", [])]
        assert len(folded) >= 3
        assert all(cell.outputs for cell in folded)

    def test_every_exercise_has_its_question(self, path: Path) -> None:
        prose = "\n".join(cell.source for cell in _read(path).cells if cell.cell_type == "markdown")
        exercises = prose[prose.index("## Exercises") : prose.index("## Summary")]
        assert [line[2] for line in exercises.splitlines() if line[:2] == "**" and line[3:5] == ". "] == ["1", "2", "3"]
