"""The rounds that a request will run, drawn when it starts to decode.

How a request decodes does not depend on when: only the clock does. So its rounds are drawn at once, and the replica
adds up those of all that run, iteration by iteration. They are drawn again when the draft length changes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from specbook.serving.chances import Chances
from specbook.serving.kv_blocks import KvConfig
from specbook.serving.round_law import RoundLaw

Integers = NDArray[np.int64]
EMITTED, BLOCKS, REACHED = 0, 1, 2


@dataclass(slots=True, eq=False, kw_only=True)
class DecodePath:
    """What a request emits, takes and drafts in each round to come.

    Attributes
    ----------
    law : RoundLaw
        From which it was drawn.
    start_tick : int
        Decode iteration of the replica in which its first round runs.
    steps : (2 + K, n) ndarray of int64
        Tokens emitted in each round, blocks taken at its start, and, where a cut decides, whether it drafts a first
        token, a second one, and so on.
    tokens_before, blocks_before : int
        Tokens processed and blocks held when it starts.
    last_tick : int
        Decode iteration in which the last round runs.
    """

    law: RoundLaw
    start_tick: int
    steps: Integers
    tokens_before: int
    blocks_before: int
    last_tick: int = field(init=False)

    def __post_init__(self) -> None:
        self.last_tick = self.start_tick + int(self.steps.shape[1]) - 1

    def delay(self) -> None:
        """Move all rounds to come by one iteration."""
        self.start_tick += 1
        self.last_tick += 1

    def rounds_at(self, tick: int) -> int:
        """Rounds that are over before the iteration of a tick."""
        return tick - self.start_tick

    def tokens_at(self, tick: int) -> int:
        """Tokens of context before it."""
        return self.tokens_before + self.emitted_at(tick)

    def emitted_at(self, tick: int) -> int:
        """Tokens emitted before it."""
        n_rounds = tick - self.start_tick
        return int(self.steps[EMITTED, :n_rounds].sum()) if n_rounds else 0

    def blocks_at(self, tick: int) -> int:
        """Blocks held before it."""
        return self.blocks_before + int(self.steps[BLOCKS, : tick - self.start_tick].sum())

    def drafted_at(self, tick: int) -> int:
        """Tokens drafted before it."""
        n_rounds = tick - self.start_tick
        return n_rounds * self.law.n_nodes if self.law.is_fixed else int(self.steps[REACHED:, :n_rounds].sum())

    def blocks_taken(self, tick: int) -> int:
        """Blocks that the round of a tick takes."""
        return int(self.steps[BLOCKS, tick - self.start_tick])


@dataclass(slots=True, kw_only=True)
class PathStart:
    """Where a request stands when its path is drawn: tokens processed, blocks held, tokens to emit, rounds so far."""

    request_id: int
    tokens: int
    blocks: int
    rest_tokens: int
    rounds: int


def draw_path(
    start: PathStart, law: RoundLaw, tick: int, chances: Chances, kv: KvConfig, n_rows: int = REACHED
) -> DecodePath:
    r"""Draw the rounds of a request from a tick on.

    Parameters
    ----------
    start : PathStart
    law : RoundLaw
    tick : int
    chances : Chances
    kv : KvConfig
    n_rows : int
        Rows of ``steps``: 2, and one for each token that a law with a cut may draft.

    Notes
    -----
    Before round i, with :math:`e_i` tokens emitted since and c processed, the request needs
    :math:`\lceil (c - 1 + e_i + n + 1) / s \rceil` blocks of s slots: the last token is not in the cache yet, and n
    drafts and the bonus position get slots before anyone knows which of them stay. Blocks are not given back before the
    end, as the next round needs them.
    """
    steps = _drafted_steps(start, law, chances, kv, n_rows) if law.n_nodes else _plain_steps(start, kv, n_rows)
    return DecodePath(law=law, start_tick=tick, steps=steps, tokens_before=start.tokens, blocks_before=start.blocks)


def _plain_steps(start: PathStart, kv: KvConfig, n_rows: int) -> Integers:
    """One token a round, and a block whenever the one before is full."""
    steps = np.zeros((n_rows, start.rest_tokens), dtype=np.int64)
    steps[EMITTED] = 1
    steps[BLOCKS, start.blocks * kv.block_size_tokens - start.tokens + 1 :: kv.block_size_tokens] = 1
    return steps


def _drafted_steps(start: PathStart, law: RoundLaw, chances: Chances, kv: KvConfig, n_rows: int) -> Integers:
    drafted, accepted = law.outcomes(chances.of(start.request_id, start.rounds, start.rest_tokens))
    emitted = accepted + 1
    total = np.cumsum(emitted)
    n_rounds = int(np.searchsorted(total, start.rest_tokens)) + 1
    steps = np.zeros((n_rows, n_rounds), dtype=np.int64)
    steps[EMITTED] = emitted[:n_rounds]
    steps[EMITTED, -1] -= total[n_rounds - 1] - start.rest_tokens
    slots = start.tokens + law.n_nodes + total[:n_rounds] - emitted[:n_rounds]
    blocks = np.maximum(-(-slots // kv.block_size_tokens), start.blocks)
    steps[BLOCKS, 0] = blocks[0] - start.blocks
    steps[BLOCKS, 1:] = blocks[1:] - blocks[:-1]
    for depth in range(n_rows - REACHED):
        steps[REACHED + depth] = drafted[:n_rounds] > depth
    return steps
