"""Bandwidth kernels: each computes what it is called, over arrays that lie as they should."""

from __future__ import annotations

import numpy as np
import pytest

from specbook.hardware.probe import numpy_stream
from specbook.hardware.probe.backend import ARRAYS_MOVED, STREAM_KERNELS, Work
from specbook.hardware.probe.numpy_stream import stream_arrays, stream_kernels

# Shorter and longer than one small product (8,192 columns of each half) and one block (65,536 values), and no multiple.
SIZES = (16, 16 * 1000, 16 * 1024 * 3 + 16, 16 * 16384 + 48)

WAYS = [(1, True), (1, False), (2, True), (3, False), (3, True)]


def _random_arrays(n: int) -> np.ndarray:
    """Whole numbers, of which sums and products are exact."""
    return np.random.default_rng(n).integers(-1000, 1000, (3, n)).astype(np.float64)


def _results(x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    return {"copy": x, "scale": 3.0 * x, "add": x + y, "triad": x + 3.0 * y}


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(("n_threads", "one_call"), WAYS)
def test_stream_kernels_compute_what_they_are_called(n: int, n_threads: int, one_call: bool):
    arrays = _random_arrays(n)
    x, y = arrays[:2].copy()
    kernels = stream_kernels(arrays, n_threads, one_call)
    assert tuple(kernels) == STREAM_KERNELS
    for name, expected in _results(x, y).items():
        arrays[2] = np.nan
        kernels[name]()
        assert np.array_equal(arrays[2], expected), name
    assert kernels["read"]() == np.dot(x, x)
    assert np.array_equal(arrays[:2], [x, y])


@pytest.mark.parametrize("slow", [0, 1])
def test_of_two_ways_the_faster_one_is_taken(monkeypatch: pytest.MonkeyPatch, slow: int):
    now, done = [0.0], []

    def way(number: int) -> Work:
        def work() -> None:
            now[0] += 2.0 if number == slow else 1.0
            done.append(number)

        return work

    monkeypatch.setattr(numpy_stream, "perf_counter", lambda: now[0])
    numpy_stream._faster(way(0), way(1))()
    assert done[-1] == 1 - slow


@pytest.mark.parametrize("has_kernel", [True, False])
def test_both_ways_are_tried_where_there_are_two(monkeypatch: pytest.MonkeyPatch, has_kernel: bool):
    tried: list[int] = []
    monkeypatch.setattr(numpy_stream, "has_small_product_kernel", lambda: has_kernel)
    monkeypatch.setattr(numpy_stream, "_faster", lambda *works: tried.append(len(works)) or works[0])
    stream_kernels(stream_arrays(2**21))
    assert tried == ([2, 2] if has_kernel else [])


def test_stream_kernels_can_be_repeated_without_growing():
    arrays = stream_arrays(2**21)
    kernels = stream_kernels(arrays)
    for _ in range(3):
        for work in kernels.values():
            work()
    assert set(arrays[2].tolist()) == {7.0}


@pytest.mark.parametrize("array_bytes", [1, 2**21, 5 * 2**20 + 17, 64 * 2**20])
def test_stream_arrays_are_side_by_side_and_off_the_powers_of_two(array_bytes: int):
    arrays = stream_arrays(array_bytes)
    assert arrays.flags.c_contiguous
    assert arrays.ctypes.data % 2**21 == 0
    assert arrays.shape[1] % 16 == 0
    assert abs(arrays[0].nbytes - array_bytes) <= 2**21 + 2**18
    for distance in (arrays[0].nbytes, arrays[0].nbytes // 2):
        assert 2**14 <= distance % 2**20 <= 2**20 - 2**14


@pytest.mark.parametrize("array_bytes", [0, -1, 1.5])
def test_stream_arrays_of_no_size_are_refused(array_bytes: float):
    with pytest.raises(ValueError, match=r"^array_bytes must be whole and at least 1; got "):
        stream_arrays(array_bytes)


def test_arrays_moved_are_those_that_stream_counts():
    assert ARRAYS_MOVED == {"copy": 2, "scale": 2, "add": 3, "triad": 3, "read": 1}
