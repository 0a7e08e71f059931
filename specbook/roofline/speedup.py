"""From step times and tokens per round to speedup, best draft length and break-even."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specbook.checks import check_counts, check_finite
from specbook.roofline.drafting import Drafter
from specbook.roofline.step_time import StepTime

Ints = NDArray[np.int64]


def round_seconds(draft_length: Any, draft_step_s: Any, verify_s: Any) -> Any:
    r"""Time of one round of a chain: K passes of the drafter, then one verify pass of the target.

    Parameters
    ----------
    draft_length : (...) array_like of int, or an expression
        Drafted tokens K.
    draft_step_s, verify_s : (...) array_like, or expressions
        Seconds of one drafter pass, and of the target's pass over K + 1 positions.

    Returns
    -------
    (...) ndarray of float64, or an expression
        Seconds.

    Notes
    -----
    .. math:: T_r = K\,T_d + T_v(K + 1)

    References
    ----------
    leviathan2023, section 3.3

    Examples
    --------
    >>> round_seconds(4, 0.001, 0.006)
    0.01
    """
    return draft_length * draft_step_s + verify_s


def speedup(tokens_per_round: Any, baseline_s: Any, round_s: Any) -> Any:
    r"""How many times faster than autoregressive decoding a round yields its tokens.

    Parameters
    ----------
    tokens_per_round : (...) array_like, or an expression
        Mean tokens of one round, the bonus token included.
    baseline_s, round_s : (...) array_like, or expressions
        Seconds of the target's pass over one position, and of one round.

    Returns
    -------
    (...) ndarray of float64, or an expression
        Dimensionless; 1 without speculation.

    Notes
    -----
    .. math:: S = E \, T(1) / T_r

    References
    ----------
    leviathan2023, theorem 3.8

    Examples
    --------
    >>> speedup(3.0, 0.005, 0.010)
    1.5
    """
    return tokens_per_round * baseline_s / round_s


@dataclass(frozen=True, kw_only=True, slots=True)
class DraftingPair:
    """A target and a drafter on one device: how long each takes, and what they hold in its memory.

    Attributes
    ----------
    target : StepTime
    drafter : Drafter
    target_weight_bytes, draft_weight_bytes : float
        All weights, as they lie in the memory of one device.
    target_kv_bytes_per_token, draft_kv_bytes_per_token : float
        Keys and values of one token of context in each.
    """

    target: StepTime
    drafter: Drafter
    target_weight_bytes: Any
    draft_weight_bytes: Any
    target_kv_bytes_per_token: Any
    draft_kv_bytes_per_token: Any


def kv_bytes(depth: Any, batch: Any, context: Any, pair: DraftingPair, xp: Any = np) -> Any:
    """Keys and values of all sequences: the target's, and the drafter's where anything is drafted.

    Parameters
    ----------
    depth, batch, context : (...) array_like, or expressions
        Draft passes of a round, 0 for none; sequences; tokens of context in each.
    pair : DraftingPair
    xp : namespace
        Provides ``where``.

    Returns
    -------
    (...) ndarray of float64, or an expression
        Bytes.

    References
    ----------
    scalingbook

    Examples
    --------
    >>> from specbook.roofline.grid import drafting_pair, example_grid
    >>> print(kv_bytes(np.array([0, 4]), 1, 512, drafting_pair(example_grid())) / 1e6)
    [67.108864 83.88608 ]
    """
    drafter = xp.where(depth > 0, pair.draft_kv_bytes_per_token, 0.0)
    return batch * context * (drafter + pair.target_kv_bytes_per_token)


def memory_bytes(depth: Any, batch: Any, context: Any, pair: DraftingPair, xp: Any = np) -> Any:
    """Weights and cache that must fit in memory; nothing is set aside for activations or the runtime.

    Parameters
    ----------
    depth, batch, context : (...) array_like, or expressions
    pair : DraftingPair
    xp : namespace
        Provides ``where``.

    Returns
    -------
    (...) ndarray of float64, or an expression
        Bytes.

    References
    ----------
    scalingbook

    Examples
    --------
    >>> from specbook.roofline.grid import drafting_pair, example_grid
    >>> round(float(memory_bytes(np.float64(4), 1, 512, drafting_pair(example_grid()))) / 1e9, 1)
    18.6
    """
    weights = xp.where(depth > 0, pair.draft_weight_bytes, 0.0) + pair.target_weight_bytes
    return weights + kv_bytes(depth, batch, context, pair, xp)


@dataclass(frozen=True, kw_only=True, slots=True)
class RoundTimes:
    """One round; arrays that broadcast together, or expressions. Seconds, and a ratio."""

    draft_s: Any
    verify_s: Any
    round_s: Any
    baseline_tpot_s: Any
    tpot_s: Any
    speedup: Any


def round_times(
    depth: Any, n_nodes: Any, batch: Any, context: Any, tokens_per_round: Any, pair: DraftingPair, xp: Any = np
) -> RoundTimes:
    r"""Everything about the time of one round, from the step times of target and drafter.

    Parameters
    ----------
    depth, n_nodes : (...) array_like, or expressions
        Draft passes and drafted tokens. They are the same for a chain: its draft length K.
    batch, context : (...) array_like, or expressions
        Sequences, tokens of context in each.
    tokens_per_round : (...) array_like, or an expression
        Mean tokens that a round yields, the bonus token included.
    pair : DraftingPair
    xp : namespace
        numpy, or the Vega expressions of :mod:`specbook.display.formula`.

    Returns
    -------
    RoundTimes

    Notes
    -----
    .. math:: S = \frac{E \, T(1)}{T_d(d, n) + T(1 + n)}

    A chain of K tokens drafts in :math:`K \, T_d(1)` and verifies K + 1 positions; a tree of n nodes drafts in as many
    passes as it is deep and verifies 1 + n. The grid and the sliders of the published page both evaluate this function.

    References
    ----------
    leviathan2023, theorem 3.8; chen2024sequoia for trees

    Examples
    --------
    >>> from specbook.roofline.grid import drafting_pair, example_grid
    >>> times = round_times(4.0, 4.0, 1.0, 512.0, 3.3616, drafting_pair(example_grid()))
    >>> print(f"{1e3 * times.tpot_s.item():.2f} ms a token, {times.speedup.item():.2f} times faster")
    3.46 ms a token, 1.77 times faster
    """
    draft_s = pair.drafter.seconds(depth, n_nodes, batch, context, xp)
    verify_s = pair.target(pair.drafter.verify_width(n_nodes), batch, context, xp)
    baseline_s = pair.target(1.0, batch, context, xp)
    seconds = draft_s + verify_s
    return RoundTimes(
        draft_s=draft_s,
        verify_s=verify_s,
        round_s=seconds,
        baseline_tpot_s=baseline_s,
        tpot_s=seconds / tokens_per_round,
        speedup=speedup(tokens_per_round, baseline_s, seconds),
    )


def best_draft_length(speedups: ArrayLike, draft_lengths: ArrayLike, axis: int = -1) -> Ints:
    r"""The draft length with the highest speedup; the shortest one on a tie.

    Parameters
    ----------
    speedups : (..., n_draft_lengths, ...) array_like of float
        Speedup by draft length along ``axis``. It need not be unimodal: measured lengths do not always rise with K.
    draft_lengths : (n_draft_lengths,) array_like of int
        Candidates in rising order; include 0, the choice not to speculate.
    axis : int
        The axis of draft lengths.

    Returns
    -------
    (...) ndarray of int64
        K*, with ``axis`` removed.

    Raises
    ------
    ValueError
        If a speedup is not finite, or the draft lengths are negative, not whole or not rising.

    Notes
    -----
    .. math:: K^* = \arg\max_K S(K)

    References
    ----------
    leviathan2023, section 3.5

    Examples
    --------
    >>> print(best_draft_length([1.0, 1.4, 1.3], [0, 2, 4]))
    2
    """
    lengths = check_counts("draft_lengths", draft_lengths)
    if np.any(np.diff(lengths) <= 0):
        raise ValueError(f"draft_lengths must rise; got {lengths.tolist()}")
    return np.asarray(lengths[check_finite("speedups", speedups).argmax(axis=axis)])


def break_even_batch(speedups: ArrayLike, batches: ArrayLike, axis: int = -1) -> NDArray[np.float64]:
    """The batch from which on speculation no longer pays.

    Parameters
    ----------
    speedups : (..., n_batches, ...) array_like of float
        Best speedup over the draft lengths of at least 1, by batch along ``axis``.
    batches : (n_batches,) array_like of int
        Batch sizes in rising order.
    axis : int
        The axis of batches.

    Returns
    -------
    (...) ndarray of float64
        The first batch of ``batches`` from which every larger one has a speedup of at most 1; infinity where the
        largest still pays. It need not be a single crossing: at long context the speedup can rise with the batch.

    Raises
    ------
    ValueError
        If a speedup is not finite, or the batches are not whole, positive and rising.

    References
    ----------
    magicdec2024 for speedup that rises with batch.

    Examples
    --------
    >>> print(break_even_batch([1.9, 1.2, 0.8, 0.7], [1, 8, 64, 128]))
    64.0
    """
    sizes = check_counts("batches", batches, minimum=1)
    if np.any(np.diff(sizes) <= 0):
        raise ValueError(f"batches must rise; got {sizes.tolist()}")
    pays = np.moveaxis(check_finite("speedups", speedups) > 1.0, axis, -1)
    after_last = pays.shape[-1] - np.argmax(pays[..., ::-1], axis=-1)  # index after the last batch that pays
    index = np.where(pays.any(axis=-1), after_last, 0)
    return np.append(sizes.astype(np.float64), np.inf)[index]


def paying_from(speedups: ArrayLike, contexts: ArrayLike, axis: int = -1) -> NDArray[np.float64]:
    """The context from which on speculation pays.

    Parameters
    ----------
    speedups : (..., n_contexts, ...) array_like of float
        Best speedup over the draft lengths of at least 1, by context along ``axis``.
    contexts : (n_contexts,) array_like of int
        Context lengths in rising order.
    axis : int
        The axis of contexts.

    Returns
    -------
    (...) ndarray of float64
        The first of ``contexts`` from which every longer one has a speedup above 1; infinity where the longest loses.

    Raises
    ------
    ValueError
        If a speedup is not finite, or the contexts are not whole, positive and rising.

    References
    ----------
    magicdec2024

    Examples
    --------
    >>> print(paying_from([1.2, 0.9, 1.1, 1.4], [512, 2048, 8192, 32768]))
    8192.0
    """
    sizes = check_counts("contexts", contexts, minimum=1)
    if np.any(np.diff(sizes) <= 0):
        raise ValueError(f"contexts must rise; got {sizes.tolist()}")
    loses = np.moveaxis(check_finite("speedups", speedups) <= 1.0, axis, -1)
    after_last = loses.shape[-1] - np.argmax(loses[..., ::-1], axis=-1)
    return np.append(sizes.astype(np.float64), np.inf)[np.where(loses.any(axis=-1), after_last, 0)]
