"""What configurations come to over several seeds: means with the range over seeds, and how often each one stays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import polars as pl

# What is compared between configurations, beside the tails of latencies.
_RATES = ("throughput_tokens_per_s", "goodput_requests_per_s")
_TAILS = ("ttft", "tpot", "e2e")


@dataclass(frozen=True, kw_only=True)
class Spread:
    """A figure over seeds.

    Attributes
    ----------
    mean, lowest, highest : float
    """

    mean: float
    lowest: float
    highest: float


@dataclass(frozen=True, kw_only=True)
class ConfigurationSpread:
    """One configuration over all seeds.

    Attributes
    ----------
    name : str
    draft_lengths : tuple of int
    kv_blocks : int
    n_runs, n_stable : int
        Seeds, and at how many of them the load was one that it can serve.
    dropped : mapping of int to str
        Seed → why it is dropped there; it stays at the others.
    figures : mapping of str to Spread or None
        ``ttft_s``, ``tpot_s``, ``e2e_s`` at the percentile of the objectives, ``throughput_tokens_per_s``,
        ``goodput_requests_per_s``, and ``tpot_gain``: the tail of TPOT without speculation ÷ its own, seed by seed.
        None where a seed has none.
    """

    name: str
    draft_lengths: tuple[int, ...]
    kv_blocks: int
    n_runs: int
    n_stable: int
    dropped: Mapping[int, str]
    figures: Mapping[str, Spread | None]

    @property
    def stays(self) -> bool:
        """Whether it stays at every seed."""
        return not self.dropped

    @property
    def drafts(self) -> bool:
        """Whether it drafts at all."""
        return any(self.draft_lengths)


def spread_over_seeds(runs: pl.DataFrame, percentile: int) -> tuple[ConfigurationSpread, ...]:
    """Each configuration over its seeds, in the order of the table.

    Parameters
    ----------
    runs : DataFrame
        As :func:`~specbook.serving.many.simulate_many` gives it.
    percentile : int
        The tail: 50, 90 or 99.

    Examples
    --------
    >>> row = {"name": "K = 2", "seed": 0, "draft_length": "2", "kv_blocks": 64, "stable": True, "viable": True}
    >>> row |= {"reason": "", "ttft_p90_s": 0.1, "tpot_p90_s": 0.02, "e2e_p90_s": 1.0}
    >>> row |= {"throughput_tokens_per_s": 900.0, "goodput_requests_per_s": None}
    >>> found = spread_over_seeds(pl.DataFrame([row, row | {"seed": 1, "tpot_p90_s": 0.04}]), 90)
    >>> found[0].n_runs, found[0].figures["tpot_s"]
    (2, Spread(mean=0.03, lowest=0.02, highest=0.04))
    """
    tail = f"tpot_p{percentile}_s"
    plain = runs.filter(pl.col("draft_length") == "0").select("seed", plain=tail).unique("seed", keep="first")
    with_gain = runs.join(plain, on="seed", how="left", maintain_order="left").with_columns(
        tpot_gain=pl.when(pl.col(tail) > 0.0).then(pl.col("plain") / pl.col(tail))
    )
    groups = with_gain.group_by("name", maintain_order=True)
    return tuple(_spread(str(name), rows, percentile) for (name,), rows in groups)


def _spread(name: str, rows: pl.DataFrame, percentile: int) -> ConfigurationSpread:
    columns = {f"{tail}_s": f"{tail}_p{percentile}_s" for tail in _TAILS} | {each: each for each in _RATES}
    first = rows.row(0, named=True)
    return ConfigurationSpread(
        name=name,
        draft_lengths=tuple(int(text) for text in first["draft_length"].split(",")),
        kv_blocks=first["kv_blocks"],
        n_runs=rows.height,
        n_stable=int(rows["stable"].sum()),
        dropped={seed: why for seed, why, stays in rows.select("seed", "reason", "viable").iter_rows() if not stays},
        figures={figure: _over(rows[column]) for figure, column in (columns | {"tpot_gain": "tpot_gain"}).items()},
    )


def _over(values: pl.Series) -> Spread | None:
    numbers = values.to_list()
    if None in numbers:
        return None
    return Spread(mean=sum(numbers) / len(numbers), lowest=min(numbers), highest=max(numbers))


def best_of(configurations: Iterable[ConfigurationSpread]) -> ConfigurationSpread | None:
    """The one with the shortest tail of TPOT in the mean, of those that stay at every seed; the first of equals.

    Examples
    --------
    >>> def configuration(name, tpot_s, dropped):
    ...     figures = {"tpot_s": Spread(mean=tpot_s, lowest=tpot_s, highest=tpot_s)}
    ...     numbers = {"draft_lengths": (2,), "kv_blocks": 64, "n_runs": 2, "n_stable": 2}
    ...     return ConfigurationSpread(name=name, dropped=dropped, figures=figures, **numbers)
    >>> slow, fast = configuration("slow", 0.03, {}), configuration("fast", 0.02, {})
    >>> best_of([slow, fast, configuration("dropped", 0.01, {7: "unstable"})]).name
    'fast'
    """
    left = [(each.figures["tpot_s"], each) for each in configurations if each.stays]
    known = [(tail.mean, each) for tail, each in left if tail is not None]
    return min(known, key=lambda pair: pair[0])[1] if known else None
