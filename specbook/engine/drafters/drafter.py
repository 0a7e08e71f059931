"""What every drafter is: it starts on a prompt, proposes a tree of tokens, and is told which nodes stayed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from specbook.engine.chance import Chance
from specbook.engine.draft import Draft, TreeShape
from specbook.engine.kv_cache import KVCache
from specbook.engine.sampling import SamplingConfig
from specbook.engine.transformer import Transformer

Array = NDArray[Any]


class TargetState:
    """What the target knows about the sequence so far, for drafters that build on it.

    Parameters
    ----------
    model : Transformer
    capacity : int
        Slots of the cache.

    Attributes
    ----------
    cache : KVCache
        Of one sequence: all tokens but the last.
    """

    def __init__(self, model: Transformer, capacity: int) -> None:
        self.model = model
        self.cache: KVCache = model.new_cache(capacity)
        self._hidden = np.zeros((capacity, model.spec.n_embedding), model.arithmetic.dtype)

    @property
    def length(self) -> int:
        """Committed tokens."""
        return int(self.cache.lengths[0])

    def prefill(self, tokens: Sequence[int]) -> None:
        """Run the first tokens of a sequence; none at all is allowed."""
        if tokens:
            self._hidden[: len(tokens)] = self.model.prefill(tokens, self.cache)

    def commit(self, rows: Sequence[int], hidden: Array) -> None:
        """Keep these rows of the last pass, whose hidden vectors are (n_pending, n_embedding)."""
        start = self.length
        self.cache.commit([rows])
        self._hidden[start : self.length] = hidden[list(rows)]

    def features(self, start: int) -> Array:
        """Vectors after the final norm from position ``start`` on, (length − start, n_embedding)."""
        return self.model.features(self._hidden[start : self.length])


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What is asked of a drafter in one round.

    Attributes
    ----------
    tokens : sequence of int
        The sequence so far; its last token is not in the target's cache yet.
    shape : TreeShape
        The most that may be drafted.
    sampling : SamplingConfig
        How the target is sampled; drafts are drawn alike.
    chance : Chance
        Of drafts alone.
    """

    tokens: Sequence[int]
    shape: TreeShape
    sampling: SamplingConfig
    chance: Chance


class Drafter(Protocol):
    """A source of drafts.

    Attributes
    ----------
    method : str
        As acceptance profiles name it: draft_model, eagle, medusa, early_exit, prompt_lookup, ngram, lookahead.
    n_vocab : int or None
        Size of its vocabulary, which must be the target's; None if it only repeats tokens that it saw.
    """

    @property
    def method(self) -> str:
        """Name of the method."""

    @property
    def n_vocab(self) -> int | None:
        """Size of the vocabulary."""

    def start(self, state: TargetState, tokens: Sequence[int], capacity: int) -> None:
        """Begin a sequence; ``capacity`` is the most tokens that it, and one draft, may reach."""

    def propose(self, request: Request) -> Draft:
        """Draft at most the nodes of ``request.shape``."""

    def accept(self, path: Sequence[int]) -> None:
        """Learn which nodes of the last draft stayed, from the root on."""
