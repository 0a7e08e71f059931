"""Which draft length for which batches: ranges that do not change for a gain that is not worth a change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from specbook.checks import Floats, check_count, check_counts, check_non_negative, check_positive

Bools = NDArray[np.bool_]

# Most that putting a short range into a neighbour may cost: a share of the time per token.
MERGE_LIMIT = 0.1


@dataclass(frozen=True, kw_only=True)
class LengthTable:
    """Time per token of each draft length at each batch, of one device, context and kind of evidence.

    Attributes
    ----------
    batches : tuple of int
        Rising, at least 1.
    draft_lengths : tuple of int
        Rising from 0.
    tpot_s : (n_batches, n_lengths) ndarray of float64
        Time per output token of one sequence, s.
    pays : (n_batches, n_lengths) ndarray of bool
        Where a length may be chosen: it fits in memory and beats no speculation. Column 0 may always be chosen.

    Raises
    ------
    ValueError
        If an axis does not rise, a shape does not fit, or a time is not positive.
    """

    batches: tuple[int, ...]
    draft_lengths: tuple[int, ...]
    tpot_s: Floats
    pays: Bools

    def __post_init__(self) -> None:
        batches, lengths = check_counts("batches", self.batches, 1), check_counts("draft_lengths", self.draft_lengths)
        for name, values in (("batches", batches), ("draft_lengths", lengths)):
            if values.size == 0 or np.any(np.diff(values) <= 0):
                raise ValueError(f"{name} must rise; got {values.tolist()}")
        if lengths[0] != 0:
            raise ValueError(f"draft_lengths must start at 0; got {lengths.tolist()}")
        if self.tpot_s.shape != (batches.size, lengths.size) or self.pays.shape != self.tpot_s.shape:
            raise ValueError("tpot_s and pays must be n_batches by n_lengths")
        check_positive("tpot_s", self.tpot_s)
        if not np.all(self.pays[:, 0]):
            raise ValueError("pays must allow draft length 0 at every batch")

    @property
    def losses(self) -> Floats:
        """Time per token over that of the best length that may be chosen, minus 1; infinite where one may not be."""
        allowed = np.where(self.pays, self.tpot_s, np.inf)
        best = allowed.min(axis=1, keepdims=True)
        return np.asarray(np.where(self.pays, self.tpot_s / best - 1.0, np.inf))

    @property
    def speedups(self) -> Floats:
        """Time per token without speculation over that of each length."""
        return np.asarray(self.tpot_s[:, :1] / self.tpot_s)


@dataclass(frozen=True, kw_only=True)
class BatchRange:
    """One draft length for a range of batches.

    Attributes
    ----------
    first_batch, last_batch : int
        Inclusive.
    draft_length : int
    projected_batches : tuple of int
        Those in the range that the projection holds.
    largest_loss : float
        Most that another length would have gained at one of them: a share of the time per token.
    smallest_speedup : float
        Over no speculation, at one of them.
    was_merged : bool
        Whether a range that was too short went into it.
    """

    first_batch: int
    last_batch: int
    draft_length: int
    projected_batches: tuple[int, ...]
    largest_loss: float
    smallest_speedup: float
    was_merged: bool = False


def draft_schedule(table: LengthTable, *, min_gain: float = 0.03, min_batches: int = 2) -> tuple[BatchRange, ...]:
    r"""Draft lengths by range of batches, from 1 to the largest.

    The best length of the smallest batch is kept from batch to batch until another is faster by more than
    ``min_gain``, or until it no longer pays; then the best one there takes over. A range of fewer than ``min_batches``
    batches then goes into the neighbour whose length loses least in it, if that length may be used there and loses at
    most :data:`MERGE_LIMIT`. The last range is open, and is never too short.

    Parameters
    ----------
    table : LengthTable
    min_gain : float
        Share of the time per token for which a length is left, at least 0.
    min_batches : int
        Fewest batches of a range, at least 1; 1 merges nothing.

    Returns
    -------
    tuple of BatchRange
        Without gaps; neighbours have different lengths. Batches between two that were projected have the length of
        the smaller one.

    Raises
    ------
    ValueError
        If ``min_gain`` or ``min_batches`` is out of range.

    Notes
    -----
    With :math:`T_{b,K}` the time per token and :math:`T^*_b` that of the best length that may be chosen, the loss is
    :math:`T_{b,K} / T^*_b - 1`. It is at most ``min_gain`` in every range into which nothing was merged. An engine
    whose running batch moves about a threshold changes the shape of its passes at each step, which can cost far more
    than a few per cent.

    References
    ----------
    vllm49548, vllm32374

    Examples
    --------
    >>> tpot_s = np.array([[9.0, 5.0, 4.0], [9.0, 6.0, 5.9], [9.0, 7.0, 8.0], [9.0, 9.5, 12.0]])
    >>> table = LengthTable(batches=(1, 4, 8, 16), draft_lengths=(0, 2, 4), tpot_s=tpot_s, pays=tpot_s <= 9.0)
    >>> [(each.first_batch, each.last_batch, each.draft_length) for each in draft_schedule(table)]
    [(1, 7, 4), (8, 15, 2), (16, 16, 0)]
    """
    check_non_negative("min_gain", min_gain)
    check_count("min_batches", min_batches, 1)
    columns = _held_columns(table.losses, float(min_gain))
    ranges = _merged(table, _as_ranges(table, columns), min_batches)
    return tuple(_extended_to_one(ranges))


def _held_columns(losses: Floats, min_gain: float) -> list[int]:
    """Index of the length at each batch: the one before it, unless it loses more than ``min_gain``."""
    columns = [int(losses[0].argmin())]
    for row in losses[1:]:
        columns.append(columns[-1] if row[columns[-1]] <= min_gain else int(row.argmin()))
    return columns


def _as_ranges(table: LengthTable, columns: Sequence[int]) -> list[BatchRange]:
    starts = [0, *(i for i in range(1, len(columns)) if columns[i] != columns[i - 1])]
    return [_range(table, start, stop, columns[start]) for start, stop in zip(starts, [*starts[1:], None], strict=True)]


def _range(table: LengthTable, start: int, stop: int | None, column: int) -> BatchRange:
    """The range from the batch of index ``start`` up to that of ``stop``; None is the end."""
    rows = slice(start, stop)
    return BatchRange(
        first_batch=table.batches[start],
        last_batch=table.batches[-1] if stop is None else table.batches[stop] - 1,
        draft_length=table.draft_lengths[column],
        projected_batches=table.batches[rows],
        largest_loss=float(table.losses[rows, column].max()),
        smallest_speedup=float(table.speedups[rows, column].min()),
    )


def _merged(table: LengthTable, ranges: list[BatchRange], min_batches: int) -> list[BatchRange]:
    """Put each range that is too short into a neighbour, the shortest first; those that neither can take stay."""
    stay: set[int] = set()  # first batches of ranges to pass over, until a neighbour of theirs may have changed
    while (short := _shortest(ranges, min_batches, stay)) is not None:
        here = ranges[short]
        neighbours = [ranges[i] for i in (short - 1, short + 1) if 0 <= i < len(ranges)]
        losses = {each.draft_length: _loss_in(table, here, each.draft_length) for each in neighbours}
        length = min(losses, key=lambda each: (losses[each], each))
        if losses[length] > MERGE_LIMIT:
            stay.add(here.first_batch)
        else:
            ranges[short] = replace(here, draft_length=length, was_merged=True)
            ranges = _joined(table, ranges)
            stay.clear()
    return ranges


def _shortest(ranges: Sequence[BatchRange], min_batches: int, stay: set[int]) -> int | None:
    """Index of the shortest range that is too short and may move; the last one is open and never is."""
    widths = {
        i: each.last_batch - each.first_batch + 1
        for i, each in enumerate(ranges[:-1])
        if each.last_batch - each.first_batch + 1 < min_batches and each.first_batch not in stay
    }
    return min(widths, key=lambda i: (widths[i], i)) if widths else None


def _loss_in(table: LengthTable, place: BatchRange, draft_length: int) -> float:
    """Largest loss of a length at the batches of a range; infinite if it may not be used at one of them."""
    rows = [table.batches.index(batch) for batch in place.projected_batches]
    return float(table.losses[rows, table.draft_lengths.index(draft_length)].max())


def _joined(table: LengthTable, ranges: Sequence[BatchRange]) -> list[BatchRange]:
    """Ranges whose neighbour has the same length become one."""
    columns: list[int] = []
    merged: dict[int, bool] = {}
    for each in ranges:
        columns += [table.draft_lengths.index(each.draft_length)] * len(each.projected_batches)
        merged |= dict.fromkeys(each.projected_batches, each.was_merged)
    return [
        replace(each, was_merged=any(merged[batch] for batch in each.projected_batches))
        for each in _as_ranges(table, columns)
    ]


def _extended_to_one(ranges: Sequence[BatchRange]) -> list[BatchRange]:
    """The same ranges, the first of which starts at batch 1, since every batch of an engine needs a length."""
    return [replace(ranges[0], first_batch=1), *ranges[1:]]


def best_length(table: LengthTable, batch: int) -> int:
    """The fastest length at one batch of the table, the shorter on a tie; 0 where drafting does not pay.

    Raises
    ------
    ValueError
        If the table does not hold the batch.

    Examples
    --------
    >>> tpot_s = np.array([[9.0, 5.0, 4.0]])
    >>> table = LengthTable(batches=(1,), draft_lengths=(0, 2, 4), tpot_s=tpot_s, pays=tpot_s <= 9.0)
    >>> best_length(table, 1)
    4
    """
    if batch not in table.batches:
        raise ValueError(f"batch must be one of {table.batches}; got {batch}")
    return table.draft_lengths[int(table.losses[table.batches.index(batch)].argmin())]
