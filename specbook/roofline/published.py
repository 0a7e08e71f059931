"""Published speed figures beside what the calibrated model says of the same settings.

Nothing here is tuned to the figures. What a source does not state is an assumption, and each row repeats it. Where the
model is off by a time that engines spend on scheduling and hosts, the row says which time that would be; it is not
added.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.optimize import minimize_scalar

from specbook.checks import BadInput
from specbook.files import read_json
from specbook.roofline.calibrated import product_seconds
from specbook.roofline.engine_overheads import engine_overheads
from specbook.roofline.published_settings import (
    MODELS,
    PublishedFigure,
    expert_products,
    round_of,
    target_step,
    token_rate,
)

_FIGURES = Path(__file__).with_name("published.json")
_COLUMNS: dict[str, Any] = {
    "group": pl.String, "key": pl.String, "setting": pl.String, "quantity": pl.String, "claim": pl.String,
    "hardware": pl.String, "target": pl.String, "drafter": pl.String, "method": pl.String, "draft_length": pl.Int64,
    "tree_nodes": pl.Int64, "batch": pl.Int64, "context": pl.Int64, "n_tokens": pl.Int64,
    "tokens_per_round": pl.Float64, "published": pl.Float64, "model": pl.Float64, "ratio": pl.Float64,
    "tokens_needed": pl.Float64, "missing_round_s": pl.Float64, "assumption": pl.String,
}  # fmt: skip


def _spread(line: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One line for each entry of its lists, which are as long as the list of published figures."""
    single = {"experts": tuple(line["experts"])} if "experts" in line else {}
    lists = {name: value for name, value in line.items() if isinstance(value, list) and name not in single}
    for entries in zip(*lists.values(), strict=True) if lists else [()]:
        yield {**line, **single, **dict(zip(lists, entries, strict=True))}


@cache
def published_figures() -> tuple[PublishedFigure, ...]:
    """Every published figure with its setting.

    References
    ----------
    soup843, pocketllm60, sequoia2024, eagle2025, vllm20780, magicdec2024, vllmblog2024, illusion2026, vllm46295,
    vidur2024, aiconfigurator

    Examples
    --------
    >>> len(published_figures()) > 100
    True
    """
    lines = [
        {**{name: value for name, value in group.items() if name != "lines"}, **line}
        for group in read_json(_FIGURES)
        for line in group["lines"]
    ]
    return tuple(PublishedFigure(**each) for line in lines for each in _spread(line))


def _row(figure: PublishedFigure) -> dict[str, Any]:
    times, published = round_of(figure), figure.published
    known = times is None or figure.tokens is not None
    says = MODELS[figure.kind](figure) if known else None
    row = {name: value for name, value in asdict(figure).items() if name in _COLUMNS}
    row |= {"tree_nodes": figure.n_nodes, "tokens_per_round": figure.tokens, "model": says}
    row["drafter"] = figure.drafter or figure.draft or figure.method
    row["ratio"] = None if says is None or published is None else says / published
    if times is not None and published is not None:
        tpot_s = _published_tpot_s(figure, published, float(times.baseline_tpot_s))
        row["tokens_needed"] = float(times.round_s) / tpot_s
        row["missing_round_s"] = None if figure.tokens is None else figure.tokens * tpot_s - float(times.round_s)
    return row


def _published_tpot_s(figure: PublishedFigure, published: float, baseline_s: float) -> float:
    """Seconds a token; a published gain is over the model's own time without speculation."""
    if figure.kind == "speedup":
        return baseline_s / published
    return published / 1e3 if figure.kind == "tpot_ms" else figure.batch / published


@cache
def published_comparisons() -> pl.DataFrame:
    """Published figures beside the model's, one row a figure.

    Returns
    -------
    polars.DataFrame
        ``published`` and ``model`` in the unit of ``quantity``, ``ratio`` = model ÷ published, and the setting.
        ``claim`` says what the row can show: ``absolute``, ``shape``, ``order of magnitude``, ``anchor`` (it sets an
        unknown of its group, and proves nothing), ``tokens needed``. For a round, ``tokens_needed`` is how many tokens
        the model would need to meet the figure, and ``missing_round_s`` which seconds a round would have to last beyond
        the model's: what an engine does beside the passes, if everything else is right. ``assumption`` is what the
        source does not state.

    References
    ----------
    soup843, pocketllm60, sequoia2024, eagle2025, vllm20780, magicdec2024, vllmblog2024, illusion2026, vllm46295,
    vidur2024, aiconfigurator

    Examples
    --------
    >>> table = published_comparisons()
    >>> table.filter(group="pocketllm").select("published", pl.col("model").round(2)).rows()
    [(5.76, 5.76), (4.92, 4.9), (2.88, 2.88), (1.8, 1.83)]
    """
    return pl.DataFrame([_row(figure) for figure in published_figures()], schema=_COLUMNS)


def published_curve(group: str) -> pl.DataFrame:
    """Published figures of a group and the model's, in long form for a chart over the batch.

    Parameters
    ----------
    group : str
        For instance ``eagle3-h100``, ``eagle3-rtx3090`` or ``magicdec``.

    Returns
    -------
    polars.DataFrame
        Columns ``target, drafter, draft_length, context, batch, source`` (``published`` or ``model``) ``, value``.

    Raises
    ------
    BadInput
        If there is no such group.

    References
    ----------
    eagle2025, magicdec2024

    Examples
    --------
    >>> published_curve("eagle3-h100").filter(drafter="EAGLE", batch=2)["value"].round(2).to_list()
    [1.4, 1.79]
    """
    table = published_comparisons()
    groups = table["group"].unique(maintain_order=True).to_list()
    if group not in groups:
        raise BadInput("no such group of figures", field="group", value=group, remedy=f"one of {', '.join(groups)}")
    axes = ["target", "drafter", "draft_length", "context", "batch"]
    return table.filter(group=group).unpivot(["published", "model"], index=axes, variable_name="source")


def served_comparisons(group: str, engine: str) -> pl.DataFrame:
    """Published token rates beside the model's, with what an engine spends beside the passes and without it.

    Parameters
    ----------
    group : str
        Of figures in tokens a second, such as ``eagle3-batch1``.
    engine : str
        Of :func:`~specbook.roofline.engine_overheads.engine_names`.

    Returns
    -------
    polars.DataFrame
        ``drafter`` (null without speculation), ``published``, ``passes`` and ``served``, in tokens per second.

    Raises
    ------
    BadInput
        If there is no such group, or nobody fitted that engine.

    References
    ----------
    eagle2025

    Examples
    --------
    >>> served_comparisons("eagle3-batch1", "sglang").columns
    ['drafter', 'published', 'passes', 'served']
    """
    overheads = engine_overheads(engine)
    figures = [each for each in published_figures() if each.group == group and each.kind == "tokens_per_s"]
    if not figures:
        raise BadInput("no such group of token rates", field="group", value=group, remedy="eagle3-batch1 is one")
    return pl.DataFrame(
        [
            {
                "drafter": figure.drafter,
                "published": figure.published,
                "passes": token_rate(figure),
                "served": token_rate(figure, overheads),
            }
            for figure in figures
        ]
    )


def routing_exponents() -> pl.DataFrame:
    r"""How independently tokens choose their experts, from published times of the experts' products.

    Returns
    -------
    polars.DataFrame
        For each table of times: the exponent that meets it best, and the mean error of the logarithm of times with it
        and with uniform routing (1).

    Notes
    -----
    .. math:: \min_\gamma \sum_T \left(\log \frac{T_\gamma(T)}{T_\gamma(1)} - \log t(T)\right)^2

    Launches are in the model's times, so that small experts, whose time for one token is mostly launch, are not taken
    for skewed routing.

    References
    ----------
    aiconfigurator, finn2026

    Examples
    --------
    >>> routing_exponents().columns
    ['experts', 'exponent', 'error', 'error_of_uniform_routing']
    """
    tables: dict[str, list[PublishedFigure]] = {}
    for figure in published_figures():
        if figure.group == "expert-products":
            tables.setdefault(figure.drafter or "", []).append(figure)
    return pl.DataFrame([{"experts": name, **_fitted(figures)} for name, figures in tables.items()])


def _fitted(figures: list[PublishedFigure]) -> dict[str, float]:
    products, rates = expert_products(figures[0]), target_step(figures[0]).rates
    rows = np.array([1.0, *(figure.n_tokens for figure in figures)])
    measured = np.log([figure.published or 0.0 for figure in figures])

    def errors(exponent: float) -> Any:
        skewed = replace(rates, routing_exponent=exponent)
        seconds = sum(product_seconds(rows, each, skewed) for each in products)
        return np.log(seconds[1:] / seconds[0]) - measured

    best = float(minimize_scalar(lambda each: np.sum(errors(each) ** 2), bounds=(0.2, 1.0), method="bounded").x)
    mean = [float(np.abs(errors(each)).mean()) for each in (best, 1.0)]
    return {"exponent": best, "error": mean[0], "error_of_uniform_routing": mean[1]}
