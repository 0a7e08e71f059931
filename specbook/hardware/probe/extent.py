"""How much a budget of time allows: all of it in a minute, the most important in five seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Extent:
    """What a budget of time allows."""

    square_size: int
    rows: tuple[int, ...]
    with_smollm_head: bool
    attention_contexts: tuple[int, ...]
    contexts: tuple[int, ...]
    batches: tuple[int, ...]
    widths: tuple[int, ...]
    n_pass_arithmetics: int


_EXTENTS = {
    45.0: Extent(
        square_size=1536,
        rows=tuple(range(1, 18)),
        with_smollm_head=True,
        attention_contexts=(512, 2048, 4096, 8192, 16384),
        contexts=(512, 4096, 16384),
        batches=(1, 4, 16),
        widths=(1, 2, 3, 5, 9),
        n_pass_arithmetics=2,
    ),
    15.0: Extent(
        square_size=1024,
        rows=(1, 2, 3, 5, 9, 17),
        with_smollm_head=True,
        attention_contexts=(512, 4096, 16384),
        contexts=(512, 4096, 16384),
        batches=(1, 4, 16),
        widths=(1, 5),
        n_pass_arithmetics=2,
    ),
    0.0: Extent(
        square_size=512,
        rows=(1, 5, 9),
        with_smollm_head=False,
        attention_contexts=(512, 4096),
        contexts=(512, 4096),
        batches=(1, 4),
        widths=(1, 5),
        n_pass_arithmetics=1,
    ),
}


def extent(budget_s: float) -> Extent:
    """What a budget allows.

    Examples
    --------
    >>> extent(60.0).widths, extent(5.0).widths
    ((1, 2, 3, 5, 9), (1, 5))
    """
    return next(found for least_s, found in _EXTENTS.items() if budget_s >= least_s)
