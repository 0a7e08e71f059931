"""Decode prompts with a drafter and keep every round: a table with one row a round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from specbook.checks import check_counts
from specbook.engine.decoding import DecodingConfig, Round, check_prompt, speculative
from specbook.engine.draft import TreeShape
from specbook.engine.drafters.drafter import Drafter
from specbook.engine.sampling import GREEDY, SamplingConfig
from specbook.engine.transformer import Transformer
from specbook.progress import Progress, silent

SCHEMA: dict[str, Any] = {
    "prompt": pl.String,
    "round": pl.Int32,
    "drafted": pl.Int32,
    "depth": pl.Int32,
    "accepted": pl.Int32,
    "emitted": pl.Int32,
    "tried": pl.List(pl.Int32),
    "kept": pl.List(pl.Int32),
    "overlap": pl.List(pl.Float64),
    "tokens": pl.List(pl.Int32),
    "finish": pl.String,
    "draft_s": pl.Float64,
    "verify_s": pl.Float64,
    "accept_s": pl.Float64,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuringConfig:
    """What is decoded for each prompt.

    Parameters
    ----------
    shape : TreeShape
        What a round may draft.
    sampling : SamplingConfig
    max_new_tokens : int
        Of each prompt.
    max_context : int
        Prompt included.
    stop_tokens : frozenset of int
        End a text.
    seed : int
        Each prompt draws from a stream of its own.

    Raises
    ------
    ValueError
        If a number is out of range.
    """

    shape: TreeShape
    sampling: SamplingConfig = GREEDY
    max_new_tokens: int = 64
    max_context: int = 1024
    stop_tokens: frozenset[int] = frozenset()
    seed: int = 0

    def __post_init__(self) -> None:
        check_counts("seed", self.seed)
        self.decoding(0)

    def decoding(self, index: int) -> DecodingConfig:
        """The configuration of one prompt."""
        seed = int(np.random.SeedSequence([self.seed, index]).generate_state(1)[0])
        return DecodingConfig(
            max_new_tokens=self.max_new_tokens,
            max_context=self.max_context,
            stop_tokens=self.stop_tokens,
            sampling=self.sampling,
            seed=seed,
        )


def measure_rounds(
    target: Transformer,
    drafter: Drafter,
    prompts: Sequence[tuple[str, Sequence[int]]],
    config: MeasuringConfig,
    progress: Progress = silent,
) -> pl.DataFrame:
    """Decode every prompt speculatively and record its rounds.

    Parameters
    ----------
    target : Transformer
    drafter : Drafter
    prompts : sequence of (str, sequence of int)
        Name and token ids of each prompt.
    config : MeasuringConfig
    progress : callable
        Receives the number of prompts done since the last call.

    Returns
    -------
    DataFrame
        One row a round: prompt, round, drafted tokens, depth, accepted and emitted tokens; siblings tried and kept by
        rank; overlap ``1 − TV`` at each position that was reached (empty for greedy or deterministic drafts); tokens;
        why the text ended, if it did; seconds.

    Raises
    ------
    ValueError
        If a prompt cannot be continued, or the drafter has another vocabulary.

    Examples
    --------
    >>> from specbook.engine.draft import chain_shape
    >>> from specbook.engine.library import load_target
    >>> from specbook.engine.library.drafters import shipped_drafter
    >>> target = load_target()
    >>> config = MeasuringConfig(shape=chain_shape(4), max_new_tokens=8)
    >>> frame = measure_rounds(target, shipped_drafter("small", target), [("one", [1023, 65])], config)
    >>> int(frame["emitted"].sum())
    8
    """
    for name, tokens in prompts:  # before anything is decoded
        try:
            check_prompt(target, tokens, config.decoding(0))
        except ValueError as error:
            raise ValueError(f"prompt {name}: {error}") from None
    rows: list[tuple[Any, ...]] = []
    for index, (name, tokens) in enumerate(prompts):
        rounds = speculative(target, drafter, tokens, config.decoding(index), config.shape)
        rows += _rows(name, rounds)
        progress(1)
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _rows(name: str, rounds: Iterator[Round]) -> Iterator[tuple[Any, ...]]:
    for number, round_ in enumerate(rounds):
        record = round_.record
        counts = (record.drafted, record.depth, record.accepted, record.emitted)
        seconds = (record.draft_s, record.verify_s, record.accept_s)
        yield (
            name,
            number,
            *counts,
            list(record.tried),
            list(record.kept),
            overlaps(round_),
            list(round_.tokens),
            round_.finish,
            *seconds,
        )


def overlaps(round_: Round) -> list[float]:
    r"""Overlap of target and draft at each position of a chain that verification reached.

    .. math:: 1 - \mathrm{TV}(P, Q) = \sum_x \min(P(x), Q(x))

    Empty where drafts were chosen without chance: there acceptance itself is all that can be said.

    References
    ----------
    leviathan2023
    """
    draft = round_.draft
    if not draft.is_chain:
        return []
    shared: list[float] = []
    for node in range(min(len(round_.verdict.path) + 1, draft.n_nodes)):
        drawn_from = draft.probabilities[node]
        if drawn_from is None:
            return []
        shared.append(min(1.0, float(np.minimum(round_.target[node], drawn_from).sum())))
    return shared
