"""Products of rows with weights: rows that do not know of each other, in every size; and all four near the truth."""

from __future__ import annotations

import numpy as np
import pytest

from specbook.engine import arithmetic as module
from specbook.engine.arithmetic import ARITHMETICS, arithmetic, exact_linear, fast_linear, tiles

SIZES = [(5, 3), (32, 64), (33, 65), (1, 1), (7, 2049), (70, 4100)]


def _operands(n_out: int, n_in: int, n_rows: int = 12) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([n_out, n_in])
    return rng.normal(size=(n_out, n_in)), rng.normal(size=(n_rows, n_in))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n_out", "n_in"), SIZES)
def test_exact_linear_one_to_twelve_rows_are_bit_equal_to_each_alone(n_out: int, n_in: int, dtype: type):
    weights, rows = _operands(n_out, n_in)
    linear, rows = exact_linear(weights, dtype), rows.astype(dtype)
    alone = np.concatenate([linear(rows[row : row + 1]) for row in range(12)])
    for n_rows in range(1, 13):
        assert np.array_equal(linear(rows[:n_rows]), alone[:n_rows])


def test_exact_linear_row_is_bit_equal_wherever_it_stands():
    weights, rows = _operands(70, 130)
    linear, rows = exact_linear(weights), rows.astype(np.float32)
    order = np.random.default_rng(0).permutation(12)
    assert np.array_equal(linear(rows[order]), linear(rows)[order])


def test_exact_linear_no_rows_gives_none():
    assert exact_linear(np.ones((5, 3)))(np.empty((0, 3), np.float32)).shape == (0, 5)


@pytest.mark.parametrize("name", ARITHMETICS)
@pytest.mark.parametrize(("n_out", "n_in"), SIZES)
def test_linear_any_size_is_the_product(name: str, n_out: int, n_in: int):
    weights, rows = _operands(n_out, n_in, 40)
    chosen = arithmetic(name)
    linear, rows = chosen.prepare(weights), rows.astype(chosen.dtype)
    bound = 1e-13 if name == "ref64" else 1e-5
    for n_rows in (1, 2, 9, 40):
        found = linear(rows[:n_rows])
        assert found.dtype == chosen.dtype
        assert np.abs(found - rows[:n_rows] @ weights.T).max() < bound * n_in**0.5 * 4


@pytest.mark.parametrize("has_kernel", [True, False])
@pytest.mark.parametrize("n_rows", [1, 2, 9, 10, 300])
def test_fast_linear_with_and_without_small_kernels_is_the_product(
    has_kernel: bool, n_rows: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "has_small_product_kernel", lambda: has_kernel)
    weights, rows = _operands(70, 130, n_rows)
    assert np.abs(fast_linear(weights)(rows.astype(np.float32)) - rows @ weights.T).max() < 1e-4


def test_tiles_are_filled_with_zeros_and_hold_every_weight_once():
    weights = np.arange(1.0, 5 * 2049 + 1).reshape(5, 2049)
    tiled = tiles(weights, 4, np.float64)
    assert tiled.shape == (2, 2, 1025, 4)
    assert sorted(tiled[tiled > 0.0].tolist()) == weights.ravel().tolist()


def test_tiles_stay_below_a_quarter_of_a_mebibyte():
    tiled = tiles(np.ones((64, 5000)), 32, np.float32)
    assert tiled[0, 0].nbytes <= 2**18


def test_arithmetic_unknown_name_is_refused():
    with pytest.raises(ValueError, match=r"^arithmetic must be exact, fast, ref64 or naive; got 'float16'$"):
        arithmetic("float16")
