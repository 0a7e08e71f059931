"""STREAM's kernels in numpy: copy, scale, add, triad, and a read, over arrays that no cache holds.

Numpy has no call for ``x + s·y``. In two calls it needs a block between them, whose way through the cache next to the
core costs an eighth of the bandwidth. A product of small matrices does it in one: with the halves of x and y as four
rows, ``[[1, 0, s, 0], [0, 1, 0, s]] @ rows`` gives the two halves of the result. Where BLAS multiplies small matrices
without packing them, that runs as fast as a compiled loop on some processors and a quarter slower on others, so that
both ways are tried there; elsewhere it is two calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from specbook.checks import check_counts
from specbook.engine.threads import has_small_product_kernel
from specbook.hardware.probe.backend import STREAM_FACTOR, Work

Arrays = NDArray[np.float64]

_ITEM_BYTES = 8
_PAGE_BYTES = 2**21

# Distances of a large power of two put all three arrays into the same banks of memory, which costs up to a quarter.
_OFF_THE_POWER_BYTES = 2**14 + 2**8
_STEP_BYTES = 2**20

# Columns of one small product, and values of a block where it takes two calls: some tens and hundreds of kilobytes.
_COLUMNS = 8192
_BLOCK = 65536

# Turns of each way where there are two; the first finds cold pages.
_N_TRIES = 3


def stream_arrays(array_bytes: int) -> Arrays:
    """Three arrays side by side, x, y and z, of about so many bytes each.

    Parameters
    ----------
    array_bytes : int
        Rounded to whole mebibytes, plus 32 KiB and 512 bytes.

    Returns
    -------
    (3, n) ndarray of float64
        On large pages where the system has them; n is a multiple of 16. x is 1 and y is 2.

    Raises
    ------
    ValueError
        If the size is no positive whole number.

    Examples
    --------
    >>> stream_arrays(2**21).shape
    (3, 266304)
    """
    wanted = int(check_counts("array_bytes", array_bytes, minimum=1))
    half_bytes = max(1, wanted // (2 * _STEP_BYTES)) * _STEP_BYTES + _OFF_THE_POWER_BYTES
    n = 2 * half_bytes // _ITEM_BYTES
    room = np.empty(3 * n * _ITEM_BYTES + _PAGE_BYTES, np.uint8)
    start = -room.ctypes.data % _PAGE_BYTES
    arrays = room[start : start + 3 * n * _ITEM_BYTES].view(np.float64).reshape(3, n)
    arrays[:] = [[1.0], [2.0], [0.0]]
    return arrays


def stream_kernels(arrays: Arrays, n_threads: int = 1, one_call: bool | None = None) -> dict[str, Work]:
    """The kernels: z ← x, z ← s·x, z ← x + y, z ← x + s·y, and x·x, with s = 3.

    Parameters
    ----------
    arrays : (3, n) ndarray of float64
        Contiguous, n a multiple of 16.
    n_threads : int
        Parts that are computed side by side; the read is split by BLAS itself.
    one_call : bool, optional
        Whether add and triad are products of small matrices; by default whichever is faster here, each tried a few
        times.

    Returns
    -------
    dict of str to callable

    Examples
    --------
    >>> arrays = stream_arrays(2**21)
    >>> _ = stream_kernels(arrays)["triad"]()
    >>> set(arrays[2].tolist())
    {7.0}
    """
    x, y, z = arrays
    parts = _parts(x.size, int(check_counts("n_threads", n_threads, minimum=1)))
    works: dict[str, Sequence[Work]] = {
        "copy": [_call(np.copyto, z[part], x[part]) for part in parts],
        "scale": [_call(np.multiply, x[part], STREAM_FACTOR, z[part]) for part in parts],
        "add": [_call(np.add, x[part], y[part], z[part]) for part in parts],
        "triad": [_two_calls(arrays[:, part]) for part in parts],
    }
    kernels = {name: _together(work) for name, work in works.items()}
    if has_small_product_kernel() if one_call is None else one_call:
        for name, factor in (("add", 1.0), ("triad", STREAM_FACTOR)):
            product = _together(_small_products(arrays, factor, n_threads))
            kernels[name] = product if one_call else _faster(kernels[name], product)
    return kernels | {"read": _call(np.dot, x, x)}


def _faster(*works: Work) -> Work:
    """Whichever takes less time, each at its best of a few turns."""

    def taken_s(work: Work) -> float:
        start = perf_counter()
        work()
        return perf_counter() - start

    return min(works, key=lambda work: min(taken_s(work) for _ in range(_N_TRIES)))


def _call(function: Any, *arguments: Any) -> Work:
    return lambda: function(*arguments)


def _together(works: Sequence[Work]) -> Work:
    """All at once, each in a thread of its own."""
    if len(works) == 1:
        return works[0]
    pool = ThreadPoolExecutor(len(works))
    return lambda: list(pool.map(lambda work: work(), works))


def _parts(n: int, n_parts: int) -> list[slice]:
    """Slices of about the same length that begin on cache lines."""
    edges = [n * part // n_parts // 8 * 8 for part in range(n_parts)] + [n]
    return [slice(start, stop) for start, stop in pairwise(edges)]


def _two_calls(arrays: Arrays) -> Work:
    """The triad block by block; the product waits in the cache for its sum."""
    n, factor = arrays.shape[1], np.array(STREAM_FACTOR)
    waiting = np.empty(_BLOCK)
    starts = range(0, n, _BLOCK)
    blocks = [(*arrays[:, start : start + _BLOCK], waiting[: min(_BLOCK, n - start)]) for start in starts]

    def work() -> None:
        for x, y, z, product in blocks:
            np.multiply(y, factor, product)
            np.add(x, product, z)

    return work


def _small_products(arrays: Arrays, factor: float, n_threads: int) -> list[Work]:
    """The batches of products, one for each thread, that make z ← x + factor·y."""
    half = arrays.shape[1] // 2
    edges = [half * part // n_threads // 8 * 8 for part in range(n_threads)] + [half]
    mix = np.array([[1.0, 0.0, factor, 0.0], [0.0, 1.0, 0.0, factor]])
    return [_small_product_batch(arrays, mix, *ends) for ends in pairwise(edges)]


def _small_product_batch(arrays: Arrays, mix: Arrays, start: int, stop: int) -> Work:
    """Columns ``start`` to ``stop`` of both halves, a few thousand at a time, and what is left over."""
    n_whole, rest = divmod(stop - start, _COLUMNS)
    batches = [(start, n_whole, _COLUMNS), (stop - rest, 1, rest)]
    views = [_views(arrays, *batch) for batch in batches if batch[1] and batch[2]]

    def work() -> None:
        for rows, result in views:
            np.matmul(mix, rows, out=result)

    return work


def _views(arrays: Arrays, start: int, n_batches: int, columns: int) -> tuple[Arrays, Arrays]:
    """Halves of x and y as (n_batches, 4, columns) and those of z as (n_batches, 2, columns), nothing copied."""
    half = arrays.shape[1] // 2
    strides = (columns * _ITEM_BYTES, half * _ITEM_BYTES, _ITEM_BYTES)
    rows = as_strided(arrays[0, start:], (n_batches, 4, columns), strides, writeable=False)
    return rows, as_strided(arrays[2, start:], (n_batches, 2, columns), strides)
