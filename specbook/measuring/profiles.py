"""From recorded rounds to an acceptance profile: pooled, and with intervals, as files of other people are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from specbook.acceptance.importing.pool import Pool
from specbook.acceptance.importing.profiles import pooled_profile
from specbook.acceptance.profile import AcceptanceProfile, Measurement, Provenance
from specbook.acceptance.readers.observation import Observation, Table

FORMAT = "specbook-measure"
_N_REPLICATES = 2000


def profile_of_rounds(
    frame: pl.DataFrame,
    labels: Mapping[str, Any],
    *,
    is_tree: bool,
    measurement: Measurement | None = None,
    provenance: Sequence[Provenance] = (),
    seed: int = 0,
) -> AcceptanceProfile:
    """The profile of a table of rounds.

    Parameters
    ----------
    frame : DataFrame
        One row a round, of :func:`specbook.measuring.rounds.measure_rounds`.
    labels : mapping
        target, drafter, method, domain, temperature.
    is_tree : bool
        Whether drafts were trees: then acceptance is by depth and by rank, and the chain formula does not apply.
    measurement : Measurement, optional
        How the rounds were made.
    provenance : sequence of Provenance
        Files of prompts.
    seed : int
        Of the bootstrap.

    Returns
    -------
    AcceptanceProfile
        Evidence ``counts`` for chains, ``marginal`` for trees; intervals over prompts from ten prompts on.

    Examples
    --------
    >>> from specbook.measuring.rounds import SCHEMA
    >>> row = ("p", 0, 2, 2, 1, 2, [2], [1], [], [7, 8], None, 0.0, 0.0, 0.0)
    >>> frame = pl.DataFrame([row], schema=SCHEMA, orient="row")
    >>> profile_of_rounds(frame, {"method": "draft_model"}, is_tree=False).rounds_by_drafted
    {'2': [0, 1, 0]}
    """
    pool = Pool()
    frame = without_tokens_behind_a_stop(frame)
    for observation in observations(frame, is_tree=is_tree):
        pool.add(observation, FORMAT)
    names = ("target", "drafter", "method", "domain", "temperature")
    agreed: dict[str, Any] = {name: labels.get(name) for name in names}
    agreed |= {"draft_length": None, "warnings": [], "provenance": list(provenance)}
    profile = pooled_profile(pool, agreed, {}, _N_REPLICATES, seed)
    changes: dict[str, Any] = {
        "measurement": measurement,
        "expected_acceptance": None if is_tree else mean_overlap(frame) or None,
    }
    if profile.tree is not None:
        changes["tree"] = profile.tree.model_copy(update={"rank_acceptance": rank_acceptance(frame)})
    return profile.model_copy(update=changes)


def without_tokens_behind_a_stop(frame: pl.DataFrame) -> pl.DataFrame:
    """Rounds in which a draft ended the text, as if nothing had been drafted behind it.

    The target judged those drafts on a text that nobody will read. A round that was only cut at the largest number of
    tokens keeps them: there the text would have gone on. A tree keeps its number of nodes, since its siblings were
    drafted before the stop; which rank was tried at which depth is not recorded, so the round says nothing of ranks.

    Examples
    --------
    >>> row = {"drafted": [4], "depth": [4], "accepted": [3], "emitted": [2], "finish": ["stop"]}
    >>> row |= {"tried": [[4]], "kept": [[3]], "overlap": [[0.9, 0.8, 0.7, 0.6]]}
    >>> without_tokens_behind_a_stop(pl.DataFrame(row)).select("drafted", "accepted", "tried", "overlap").row(0)
    (2, 2, [], [0.9, 0.8])
    """
    ended = (pl.col("finish") == "stop").fill_null(value=False) & (pl.col("emitted") <= pl.col("accepted"))
    chain = pl.col("drafted") == pl.col("depth")
    return frame.with_columns(
        drafted=pl.when(ended & chain).then("emitted").otherwise("drafted"),
        accepted=pl.when(ended).then("emitted").otherwise("accepted"),
        overlap=pl.when(ended).then(pl.col("overlap").list.head(pl.col("emitted"))).otherwise("overlap"),
        tried=pl.when(ended).then(pl.col("tried").list.head(0)).otherwise("tried"),
        kept=pl.when(ended).then(pl.col("kept").list.head(0)).otherwise("kept"),
    )


def observations(frame: pl.DataFrame, *, is_tree: bool) -> Iterator[Observation]:
    """One observation a prompt; prompts stay in order."""
    for (prompt,), rounds in frame.group_by("prompt", maintain_order=True):
        table = table_of_rounds(rounds)
        if not is_tree:
            yield Observation(prompt=str(prompt), by_drafted=table)
            continue
        accepted = [0] * (int(rounds["accepted"].to_numpy().max()) + 1)
        for value in rounds["accepted"].to_list():
            accepted[value] += 1
        drafted = int(rounds["drafted"].sum())
        nodes = int(rounds["drafted"].to_numpy().max())
        yield Observation(
            prompt=str(prompt), by_accepted=accepted, n_drafted_tokens=drafted, is_tree=True, n_tree_nodes=nodes
        )


def table_of_rounds(frame: pl.DataFrame) -> Table:
    """Rounds by drafted and accepted tokens.

    Examples
    --------
    >>> table_of_rounds(pl.DataFrame({"drafted": [2, 2, 1], "accepted": [0, 2, 1]}))
    {1: [0, 1], 2: [1, 0, 1]}
    """
    table: Table = {}
    for drafted, accepted in frame.select("drafted", "accepted").iter_rows():
        table.setdefault(drafted, [0] * (drafted + 1))[accepted] += 1
    return dict(sorted(table.items()))


def mean_overlap(frame: pl.DataFrame) -> list[float | None]:
    """Mean of ``1 − TV`` by position over rounds that reached it; empty where no draft was drawn.

    Examples
    --------
    >>> mean_overlap(pl.DataFrame({"overlap": [[0.5, 1.0], [0.7]]}))
    [0.6, 1.0]
    """
    means: list[float | None] = []
    for position in range(int(frame["overlap"].list.len().to_numpy().max(initial=0))):
        column = frame["overlap"].list.get(position, null_on_oob=True).drop_nulls()
        means.append(float(column.to_numpy().mean()))
    return means


def rank_acceptance(frame: pl.DataFrame) -> list[float | None]:
    """Accepted ÷ tried by rank among siblings.

    Examples
    --------
    >>> rank_acceptance(pl.DataFrame({"tried": [[2, 1], [1]], "kept": [[1, 1], [1]]}))
    [0.6666666666666666, 1.0]
    """
    shares: list[float | None] = []
    for rank in range(int(frame["tried"].list.len().to_numpy().max(initial=0))):
        tried, kept = (
            frame[name].list.get(rank, null_on_oob=True).drop_nulls().to_list() for name in ("tried", "kept")
        )
        shares.append(sum(kept) / sum(tried) if sum(tried) else None)
    return shares
