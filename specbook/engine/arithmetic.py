"""Four ways to multiply rows with weights, which differ in bits and in time; every receipt names the one it used.

=========  ========================================================================================================
exact      float32; one matrix-vector product a row and tile. A row's result does not depend on how many rows are
           computed with it, so a verify pass is bit-equal to single steps. The default.
fast       float32; one small matrix product a tile, which reads the weights once for all rows. Results differ from
           single steps in the last bits.
ref64      as ``exact`` in float64, logits rounded to float32. For committed traces and for the gates.
naive      float32; plain ``rows @ weights``. Two rows or more make BLAS repack the whole matrix at each call, so that
           verification looks expensive: kept as the measured trap.
=========  ========================================================================================================

Weights are held as tiles of a few columns, each (n_in, columns): a tile stays in the cache nearest to the core while
all rows use it, and reading down the rows of a tile streams memory at its full speed, where dot products along
rows of (n_out, n_in) reached half of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from specbook.engine.threads import has_small_product_kernel

Rows = NDArray[Any]
Linear = Callable[[Rows], Rows]
ArithmeticName = Literal["exact", "fast", "ref64", "naive"]

_EXACT_COLUMNS = 32
_FAST_COLUMNS = 64

# Longer inputs are cut, so that a tile stays below 256 KiB and a product of eight rows below BLAS's small limit.
_LONGEST_INPUT = 2048

# OpenBLAS takes the kernel that packs nothing while rows × columns × inputs stay below this.
_SMALL_PRODUCT = 1_000_000

# Without that kernel, packing pays from this many rows on.
_ROWS_WORTH_PACKING = 10


def tiles(weights: Rows, columns: int, dtype: Any) -> Rows:
    """Weights as tiles: (n_out, n_in) → (n_tiles, n_pieces, piece, columns), filled up with zeros.

    Examples
    --------
    >>> tiles(np.ones((5, 3)), 4, np.float32).shape
    (2, 1, 3, 4)
    """
    n_out, n_in = weights.shape
    n_pieces = -(-n_in // _LONGEST_INPUT)
    piece, n_tiles = -(-n_in // n_pieces), -(-n_out // columns)
    filled = np.zeros((n_tiles * columns, n_pieces * piece), dtype)
    filled[:n_out, :n_in] = weights
    return np.ascontiguousarray(filled.reshape(n_tiles, columns, n_pieces, piece).transpose(0, 2, 3, 1))


def _pieces(rows: Rows, n_pieces: int, piece: int) -> Rows:
    """Rows cut as the tiles are: (n_rows, n_in) → (n_pieces, n_rows, piece)."""
    n_rows, n_in = rows.shape
    if n_pieces == 1:
        return rows[None]
    filled = np.zeros((n_rows, n_pieces * piece), rows.dtype)
    filled[:, :n_in] = rows
    return np.ascontiguousarray(filled.reshape(n_rows, n_pieces, piece).transpose(1, 0, 2))


def _joined(products: Rows, n_out: int) -> Rows:
    """Sum over pieces, one after the other, then columns side by side: (n_tiles, n_pieces, n_rows, columns) → rows."""
    total = products[:, 0]
    for piece in range(1, products.shape[1]):
        total = total + products[:, piece]
    n_tiles, n_rows, columns = total.shape
    return np.ascontiguousarray(total.transpose(1, 0, 2)).reshape(n_rows, n_tiles * columns)[:, :n_out]


def exact_linear(weights: Rows, dtype: Any = np.float32) -> Linear:
    """A product whose rows do not know of each other: one matrix-vector product for each tile and row.

    Parameters
    ----------
    weights : (n_out, n_in) ndarray
    dtype : dtype
        float32 or float64.

    Returns
    -------
    callable
        (n_rows, n_in) → (n_rows, n_out).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> linear, rows = exact_linear(rng.random((7, 5))), rng.random((3, 5), np.float32)
    >>> bool((linear(rows)[1] == linear(rows[1:2])[0]).all())
    True
    """
    n_out = weights.shape[0]
    tiled = tiles(weights, _EXACT_COLUMNS, dtype)[:, :, None]  # (n_tiles, n_pieces, 1, piece, columns)
    n_pieces, piece = tiled.shape[1], tiled.shape[3]

    def linear(rows: Rows) -> Rows:
        products = np.matmul(_pieces(rows, n_pieces, piece)[None, :, :, None], tiled)
        return _joined(products[..., 0, :], n_out)

    return linear


def fast_linear(weights: Rows, dtype: Any = np.float32) -> Linear:
    """A product that reads the weights once for all rows.

    A single row is computed as two, because the kernel for small products streams memory faster than the one for
    vectors. Without that kernel a few rows are multiplied one by one, since packing a tile costs more than it saves.

    Parameters
    ----------
    weights : (n_out, n_in) ndarray
    dtype : dtype
        float32 or float64.

    Returns
    -------
    callable
        (n_rows, n_in) → (n_rows, n_out).
    """
    if has_small_product_kernel():
        return _small_products(weights, dtype)
    one_by_one = exact_linear(weights, dtype)
    transposed = np.ascontiguousarray(weights.T.astype(dtype))

    def linear(rows: Rows) -> Rows:
        return one_by_one(rows) if len(rows) < _ROWS_WORTH_PACKING else rows @ transposed

    return linear


def _small_products(weights: Rows, dtype: Any) -> Linear:
    n_out = weights.shape[0]
    tiled = tiles(weights, _FAST_COLUMNS, dtype)
    n_pieces, piece = tiled.shape[1], tiled.shape[2]
    most = max(2, _SMALL_PRODUCT // (piece * _FAST_COLUMNS))

    def block(rows: Rows) -> Rows:
        return _joined(np.matmul(_pieces(rows, n_pieces, piece)[None], tiled), n_out)

    def linear(rows: Rows) -> Rows:
        if len(rows) == 1:
            return block(np.repeat(rows, 2, axis=0))[:1]
        if len(rows) <= most:
            return block(rows)
        n_blocks = -(-len(rows) // most)
        return np.concatenate([block(part) for part in np.array_split(rows, n_blocks)])

    return linear


def naive_linear(weights: Rows, dtype: Any = np.float32) -> Linear:
    """The product that most people write first: ``rows @ weights``."""
    transposed = np.ascontiguousarray(weights.T.astype(dtype))
    return lambda rows: rows @ transposed


@dataclass(frozen=True, kw_only=True, slots=True)
class Arithmetic:
    """How a model computes: element type, matrix product, and whether attention goes row by row."""

    name: ArithmeticName
    dtype: Any
    linear: Callable[[Rows, Any], Linear]
    by_row: bool

    def prepare(self, weights: Rows) -> Linear:
        """The product with these weights, (n_out, n_in)."""
        return self.linear(weights, self.dtype)


ARITHMETICS: dict[str, Arithmetic] = {
    "exact": Arithmetic(name="exact", dtype=np.float32, linear=exact_linear, by_row=True),
    "fast": Arithmetic(name="fast", dtype=np.float32, linear=fast_linear, by_row=False),
    "ref64": Arithmetic(name="ref64", dtype=np.float64, linear=exact_linear, by_row=True),
    "naive": Arithmetic(name="naive", dtype=np.float32, linear=naive_linear, by_row=False),
}


def arithmetic(name: str) -> Arithmetic:
    """The arithmetic of that name.

    Raises
    ------
    ValueError
        If there is none.

    Examples
    --------
    >>> arithmetic("quick")
    Traceback (most recent call last):
        ...
    ValueError: arithmetic must be exact, fast, ref64 or naive; got 'quick'
    """
    if name not in ARITHMETICS:
        raise ValueError(f"arithmetic must be exact, fast, ref64 or naive; got {name!r}")
    return ARITHMETICS[name]
