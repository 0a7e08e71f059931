"""Fit the overheads of engines to the shipped series and write them where the roofline reads them.

Run as ``python -m specbook.validation.record_overheads`` after the shipped series, the catalogue or the model changed;
a test says when.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from specbook.files import to_json, write_text
from specbook.roofline import engine_overheads
from specbook.roofline.engine_overheads import CONSTANTS
from specbook.validation.constants import fitted_constants
from specbook.validation.published_errors import FEWEST_ROWS, FITTED, KNOWN, comparable, left_out_ratios

_SOURCES = {
    "sglang": "specbundle",
    "llama.cpp": "an order of magnitude from a few rows (inventivehq2026), and tables of kernels (llamacpp17034)",
}
# Engines that nobody published enough rows of, and whose figures stand in.
ASSUMED = {"vllm": "sglang", "tensorrt-llm": "sglang"}
_SEED = 8
_DIGITS = 4
# What a bound of 0 leaves of a fit that stays inside it.
_NOTHING = 1e-12


def recorded_overheads() -> dict[str, Any]:
    """The figures of every engine, as the file holds them.

    Examples
    --------
    >>> sorted(recorded_overheads())
    ['llama.cpp', 'sglang', 'tensorrt-llm', 'vllm']
    """
    fitted = {engine: _fitted(engine) for engine in FITTED}
    return {**fitted, **{engine: {"as": other} for engine, other in ASSUMED.items()}}


def _fitted(engine: str) -> dict[str, Any]:
    rows, rng = comparable(engine), np.random.default_rng(_SEED)
    found = fitted_constants(rows.passes, rows.speedups, rows.groups("series"), rng, KNOWN[engine])
    names = [name for name, free in zip(CONSTANTS, found.is_free, strict=True) if free]
    free = found.is_free
    bounds = zip(names, found.low[free].tolist(), found.high[free].tolist(), strict=True)
    ratios = left_out_ratios(engine)
    is_enough = ratios.size >= FEWEST_ROWS
    low, high = np.quantile(ratios, [0.05, 0.95]).tolist()
    return {
        **dict(zip(CONSTANTS, _rounded(found.values.tolist()), strict=True)),
        "evidence": "fitted" if is_enough else "assumed",
        "source": _SOURCES[engine],
        "n_rows": found.n_rows,
        "n_series": found.n_series,
        "intervals": {name: _rounded([start, end]) for name, start, end in bounds},
        "ratio_interval": _rounded([low, high]) if is_enough else [None, None],
    }


def _rounded(values: list[float]) -> list[float]:
    return [float(f"{value:.{_DIGITS}g}") if value > _NOTHING else 0.0 for value in values]


def main() -> None:
    """Write the file."""
    write_text(Path(engine_overheads.__file__).with_suffix(".json"), to_json(recorded_overheads()))


if __name__ == "__main__":
    main()
