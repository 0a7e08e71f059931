"""Run the notebooks again and store their outputs: ``make refresh``. No code change must give an empty diff.

Timings, widget state and random ids are left out; execution counts run from 1, without which the strict comparison of
outputs would compare nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from specbook.files import write_text

_WIDGET = "application/vnd.jupyter.widget-view+json"
_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def refresh(path: Path) -> None:
    """Execute one notebook from a fresh kernel and write it back."""
    notebook: Any = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(path.parent)}}
    NotebookClient(notebook, timeout=120, kernel_name="python3", record_timing=False, resources=resources).execute()
    notebook.metadata = nbformat.from_dict(_METADATA)
    for index, cell in enumerate(notebook.cells):
        cell.id = f"cell-{index:02d}"
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", []):
            view = output.get("data", {}).get(_WIDGET)
            if view:
                view["model_id"] = f"{path.stem}-{index:02d}"
    nbformat.validate(notebook)
    write_text(path, nbformat.writes(notebook).rstrip("\n") + "\n")


def main() -> None:
    """Refresh every notebook of ``notebooks/``, or those that are named."""
    paths = [Path(name) for name in sys.argv[1:]] or sorted(Path("notebooks").glob("*.ipynb"))
    for path in paths:
        refresh(path)
        sys.stdout.write(f"{path}: {path.stat().st_size / 1000:.0f} kB\n")


if __name__ == "__main__":
    main()
