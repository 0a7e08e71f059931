"""Wall-clock measurements of the engine: what a pass of several rows costs, and what speculation gains by the clock.

Runs that are compared are interleaved in random order, so that a drift of the machine meets all alike; medians are over
repetitions, and one BLAS thread is used. What was measured for the book stands in ``timings.json``, with the machine's
kernels; times on another machine differ, and nothing is tested against them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import polars as pl

from specbook.engine.decoding import Generation, autoregressive, generate, speculative
from specbook.engine.draft import TreeShape
from specbook.engine.drafters.drafter import Drafter
from specbook.engine.layout import chain_positions
from specbook.engine.threads import blas_threads
from specbook.engine.transformer import Transformer
from specbook.measuring.rounds import MeasuringConfig

FILE = Path(__file__).parent / "timings.json"


def pass_seconds(
    targets: Sequence[Transformer], widths: Sequence[int], *, context: int = 128, n_repeats: int = 30, seed: int = 0
) -> list[list[float]]:
    """Median seconds of one pass over a few rows behind a context, models and widths interleaved.

    Parameters
    ----------
    targets : sequence of Transformer
        Measured side by side.
    widths : sequence of int
        Rows of a pass, each at least 1.
    context : int
        Tokens in the cache.
    n_repeats : int
        Passes of each kind.
    seed : int
        Of the order.

    Returns
    -------
    list of list of float
        Seconds, one list a model, one entry a width; logits of all rows included.
    """
    rng = np.random.default_rng(seed)
    caches = [target.new_cache(context + max(widths)) for target in targets]
    seconds: dict[tuple[int, int], list[float]] = {(t, w): [] for t in range(len(targets)) for w in range(len(widths))}
    with blas_threads(1):
        for target, cache in zip(targets, caches, strict=True):
            target.prefill(np.arange(context) % 256, cache)
        for _ in range(n_repeats):
            for which in rng.permutation(len(seconds)):
                t, w = divmod(int(which), len(widths))
                seconds[t, w].append(_one_pass(targets[t], caches[t], widths[w]))
    return [[float(np.median(seconds[t, w])) for w in range(len(widths))] for t in range(len(targets))]


def _one_pass(target: Transformer, cache: Any, width: int) -> float:
    tokens = np.arange(width)[None] % 256
    start = perf_counter()
    hidden = target.forward(tokens, chain_positions(cache, width), None, cache)
    target.logits(hidden)
    elapsed = perf_counter() - start
    cache.drop_pending()
    return elapsed


@dataclass(frozen=True, kw_only=True, slots=True)
class ClockedSpeedup:
    """Speculation against autoregressive decoding by the clock.

    Attributes
    ----------
    speedup : float
        Seconds per token without ÷ with speculation, prompts pooled; prefill left out of both.
    low, high : float
        95 % percentile bootstrap over prompts.
    tokens_per_round : float
    baseline_tpot_s, tpot_s : float
        Seconds per token without and with.
    """

    speedup: float
    low: float
    high: float
    tokens_per_round: float
    baseline_tpot_s: float
    tpot_s: float


def clocked_speedup(
    target: Transformer,
    drafter: Drafter,
    prompts: Sequence[Sequence[int]],
    config: MeasuringConfig,
    *,
    n_replicates: int = 2000,
) -> ClockedSpeedup:
    """Decode each prompt with and without speculation, in random order.

    Parameters
    ----------
    target : Transformer
    drafter : Drafter
    prompts : sequence of sequences of int
        At least two.
    config : MeasuringConfig
        Its shape is drafted; its seed shuffles.
    n_replicates : int
        Of the bootstrap.

    Raises
    ------
    ValueError
        If there are fewer than two prompts, or one cannot be continued.
    """
    if len(prompts) < 2:
        raise ValueError(f"prompts must number at least 2; got {len(prompts)}")
    rng = np.random.default_rng(config.seed)
    runs: dict[tuple[int, bool], Generation] = {}
    with blas_threads(1):
        _decode(target, drafter, prompts[0], 0, config, config.shape)  # warm-up, discarded
        for run in rng.permutation(2 * len(prompts)):
            index, drafts = int(run) // 2, bool(run % 2)
            shape = config.shape if drafts else None
            runs[index, drafts] = _decode(target, drafter, prompts[index], index, config, shape)
    without = np.array([_cost(runs[index, False]) for index in range(len(prompts))])  # (n_prompts, 2): seconds, tokens
    drafted = np.array([_cost(runs[index, True]) for index in range(len(prompts))])
    ratios = np.array([_ratio(without[rows], drafted[rows]) for rows in _resamples(len(prompts), n_replicates, rng)])
    low, high = np.quantile(ratios, [0.025, 0.975])
    rounds = sum(len(runs[index, True].rounds) for index in range(len(prompts)))
    baseline, speculating = (costs[:, 0].sum() / costs[:, 1].sum() for costs in (without, drafted))
    return ClockedSpeedup(
        speedup=float(baseline / speculating),
        low=float(low),
        high=float(high),
        tokens_per_round=float(drafted[:, 1].sum() / rounds),
        baseline_tpot_s=float(baseline),
        tpot_s=float(speculating),
    )


def _decode(
    target: Transformer,
    drafter: Drafter,
    prompt: Sequence[int],
    index: int,
    config: MeasuringConfig,
    shape: TreeShape | None,
) -> Generation:
    decoding = config.decoding(index)
    rounds = (
        autoregressive(target, prompt, decoding)
        if shape is None
        else speculative(target, drafter, prompt, decoding, shape)
    )
    return generate(rounds, prompt, decoding)


def _cost(run: Generation) -> tuple[float, int]:
    """Seconds of the rounds and tokens that they gave."""
    return sum(round_.draft_s + round_.verify_s + round_.accept_s for round_ in run.rounds), len(run.tokens)


def _ratio(without: Any, drafted: Any) -> float:
    baseline, speculating = (costs[:, 0].sum() / costs[:, 1].sum() for costs in (without, drafted))
    return float(baseline / speculating)


def _resamples(n_prompts: int, n_replicates: int, rng: np.random.Generator) -> Any:
    return rng.integers(0, n_prompts, size=(n_replicates, n_prompts))


def book_timings(kind: str) -> pl.DataFrame:
    """What was measured for the book: ``passes``, ``speedups`` or ``smollm``; times in seconds.

    Raises
    ------
    ValueError
        If there is no such table.

    Examples
    --------
    >>> book_timings("passes").columns
    ['replication', 'arithmetic', 'rows', 'pass_s']
    """
    return pl.DataFrame(_table(kind)["rows"])


def book_conditions(kind: str) -> dict[str, Any]:
    """Processor, BLAS, date, and what else a table of :func:`book_timings` depends on.

    Raises
    ------
    ValueError
        If there is no such table.

    Examples
    --------
    >>> book_conditions("speedups")["draft_length"]
    4
    """
    return dict(_table(kind)["conditions"])


def _table(kind: str) -> dict[str, Any]:
    tables: dict[str, dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))["tables"]
    if kind not in tables:
        raise ValueError(f"kind must be one of {', '.join(tables)}; got {kind!r}")
    return tables[kind]
