"""The rows that were predicted worst, and which term would have had to be how much larger or smaller."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from specbook.validation.rounds import TERMS
from specbook.validation.scores import compared_rows
from specbook.validation.setting_overheads import NO_OVERHEADS
from specbook.validation.validate import Validation

_WORDS = {
    "draft_s": "drafting",
    "draft_floor_s": "the engine's share of draft passes",
    "verify_s": "the verify pass",
    "verify_rows_s": "what kernels for few rows add",
    "step_residual_s": "what a step takes beyond the model",
    "round_overhead_s": "the engine's share of a round",
}
_SCHEMA: dict[str, Any] = {
    "line": pl.Int64, "series": pl.String, "draft_length": pl.Float64, "batch": pl.Int64,
    "measured_speedup": pl.Float64, "predicted_speedup": pl.Float64, "error": pl.Float64, "explanation": pl.String,
}  # fmt: skip


def explained(validation: Validation, n: int = 10) -> pl.DataFrame:
    """The ``n`` worst rows, each with what its measured round says of the terms.

    Parameters
    ----------
    validation : Validation
    n : int

    Returns
    -------
    polars.DataFrame
        ``line, series, draft_length, batch, measured_speedup, predicted_speedup, error, explanation``, the largest
        error of the speedup first, as a factor: half and twice are equally wrong.

    Examples
    --------
    >>> from specbook.validation.validate import example_validation
    >>> explained(example_validation(), 1)["explanation"][0].startswith("A round")
    True
    """
    worst = (
        compared_rows(validation.frame)
        .sort((pl.col("error") + 1.0).log().abs(), descending=True, maintain_order=True)
        .head(n)
    )
    rows = [{**row, "explanation": " ".join(_sentences(row))} for row in worst.iter_rows(named=True)]
    return pl.DataFrame([{name: row[name] for name in _SCHEMA} for row in rows], schema=_SCHEMA)


def measured_round_s(row: dict[str, Any]) -> float:
    """Seconds that a measured round lasted, by its speedup, tokens per round and the time outside decoding."""
    return float(row["tokens_per_round"] * (row["baseline_s"] / row["measured_speedup"] - row["outside_s"]))


def _sentences(row: dict[str, Any]) -> Iterator[str]:
    measured_s, predicted_s = measured_round_s(row), row["round_s"]
    more = "longer" if measured_s > predicted_s else "shorter"
    yield (
        f"A round lasted {1e3 * measured_s:.1f} ms where {1e3 * predicted_s:.1f} ms were predicted, "
        f"{1e3 * abs(measured_s - predicted_s):.1f} ms {more}."
    )
    if row["measured_speedup"] > row["tokens_per_round"]:
        yield (
            "It is faster than its tokens per round allow: its run without speculation had slower steps than its "
            "verify passes, and what differs between the two runs is not speculation."
        )
        return
    yield from _by_term(row, measured_s - predicted_s)
    yield from _reasons(row)


def _by_term(row: dict[str, Any], gap_s: float) -> Iterator[str]:
    """The term that would have to change least, as a factor, to meet the measured round alone."""
    factors = {name: 1.0 + gap_s / row[name] for name in TERMS if row[name] > 0.0}
    positive = {name: factor for name, factor in factors.items() if factor > 0.0}
    if not positive:
        yield "No single term could make it so short."
        return
    name = min(positive, key=lambda each: max(positive[each], 1.0 / positive[each]))
    needed = f"would have to take {positive[name]:.1f} × the {_ms(row[name])} modelled"
    yield f"With all else right, {_WORDS[name]} {needed}."


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.2f} ms"


def _reasons(row: dict[str, Any]) -> Iterator[str]:
    """What is known to be missing from the model in such a setting."""
    if row["overhead_source"] == NO_OVERHEADS.label:
        yield "Nobody fitted what this engine spends beside the passes."
    if row["method"] == "ngram":
        yield "A look-up is on the host, and its time is not measured here."
