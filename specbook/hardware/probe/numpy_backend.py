"""The probe's kernels on the processor: numpy and the native engine."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from specbook.engine.arithmetic import ARITHMETICS
from specbook.engine.arithmetic import arithmetic as arithmetic_of
from specbook.engine.attention import attend_as_block, attend_by_row
from specbook.engine.layout import causal_mask
from specbook.engine.threads import blas_description, has_small_product_kernel
from specbook.hardware.probe import machine
from specbook.hardware.probe.backend import Calls, DeviceFacts, Stream, Work
from specbook.hardware.probe.models import ROOM_TOKENS, SCRATCH_MODELS, TARGET_HEADS, Heads, Weights
from specbook.hardware.probe.numpy_model import ScratchCache, pass_work, random_model, random_values
from specbook.hardware.probe.numpy_stream import stream_arrays, stream_kernels

Floats = NDArray[Any]

_TINY_CALLS = 1000
_TINY = 8
_CACHE_LINE_VALUES = 16


class NumpyBackend:
    """The processor, as the native engine uses it.

    Parameters
    ----------
    n_threads : int
        Threads of bandwidth kernels; limit BLAS to as many around the probe.

    Examples
    --------
    >>> backend = NumpyBackend()
    >>> products = backend.product("exact", Weights(n_out=8, n_in=4))
    >>> products(3).work().shape
    (3, 8)
    """

    name = "numpy"
    product_arithmetics: tuple[str, ...] = tuple(ARITHMETICS)
    pass_arithmetics: tuple[str, ...] = ("fast", "exact")
    rate_precision: Literal["fp16", "fp32"] = "fp32"
    heads: Heads = TARGET_HEADS
    further_weights: tuple[Weights, ...] = ()
    kv_value_bytes = 4
    square_factor = 1

    def __init__(self, n_threads: int = 1) -> None:
        self.n_threads = n_threads
        device = machine.processor()
        self.facts = DeviceFacts(
            device=device,
            vendor=machine.vendor(device),
            kind="cpu",
            memory_bytes=machine.total_memory_bytes(),
            last_level_cache_bytes=machine.last_level_cache_bytes(),
            n_processors=machine.n_processors(),
            blas=blas_description(),
        )
        self._rng = np.random.default_rng(0)
        self._keys: Floats = np.empty(0, np.float32)
        self._values: Floats = np.empty(0, np.float32)
        self._next_value = 0

    def clock(self) -> float:
        """Seconds since some moment."""
        return perf_counter()

    def synchronise(self) -> None:
        """Nothing waits: numpy returns when it is done."""

    def free_memory_bytes(self) -> int:
        """Memory that the system says is available."""
        return machine.available_memory_bytes()

    def engine_name(self, arithmetic: str) -> str:
        """The native engine in one of its arithmetics."""
        return f"specbook {arithmetic}"

    def weight_bytes(self, arithmetic: str) -> int:
        """Bytes of a prepared weight; ``fast`` keeps two layouts where BLAS has no kernel for small products."""
        n_layouts = 2 if arithmetic == "fast" and not has_small_product_kernel() else 1
        return n_layouts * int(np.dtype(arithmetic_of(arithmetic).dtype).itemsize)

    def product_bytes(self, arithmetic: str, weights: Weights) -> int:
        """One copy."""
        return weights.n_values * self.weight_bytes(arithmetic)

    def stream(self, array_bytes: int) -> Stream:
        """STREAM's kernels, and a read."""
        arrays = stream_arrays(array_bytes)
        kernels = stream_kernels(arrays, self.n_threads)
        return Stream(array_bytes=arrays[0].nbytes, kernels={name: Calls(work=work) for name, work in kernels.items()})

    def square_product(self, size: int) -> Calls:
        """One float32 product of two (size, size) matrices."""
        left, right = (self._rng.standard_normal((size, size), np.float32) for _ in range(2))
        out = np.empty((size, size), np.float32)
        return Calls(work=lambda: np.matmul(left, right, out=out))

    def tiny_product(self) -> Calls:
        """A thousand products of an (1, 8) and an (8, 8) matrix."""
        row, square = np.ones((1, _TINY), np.float32), np.ones((_TINY, _TINY), np.float32)
        out = np.empty((1, _TINY), np.float32)

        def work() -> None:
            for _ in range(_TINY_CALLS):
                np.matmul(row, square, out=out)

        return Calls(work=work, n_calls=_TINY_CALLS)

    def product(self, arithmetic: str, weights: Weights) -> Callable[[int], Calls]:
        """Random weights, prepared as the engine prepares them."""
        chosen = arithmetic_of(arithmetic)
        shape = (weights.n_out, weights.n_in)
        linear = chosen.prepare(random_values(weights.n_values).reshape(shape))

        def calls(n_rows: int) -> Calls:
            rows = self._rng.standard_normal((n_rows, weights.n_in)).astype(chosen.dtype)
            return Calls(work=lambda: linear(rows))

        return calls

    def fill_cache(self, n_values: int) -> None:
        """Random keys and values, which attention and passes share."""
        self._keys, self._values = random_values(n_values), random_values(n_values)

    def attention(self, arithmetic: str, batch: int, context: int, rows: int) -> Calls:
        """The engine's attention of each sequence, over the part of the cache behind the last one that was read.

        Parts follow one another round the whole cache, so that keys and values come from memory, as they do in a pass
        that reads all weights between two visits to a layer.
        """
        heads, capacity = self.heads, context + ROOM_TOKENS
        start = self._part(batch * heads.kv_values_per_token * capacity)
        keys = self._view(self._keys, start, (batch, heads.n_kv_heads, heads.head_size, capacity))
        values = self._view(self._values, start, (batch, heads.n_kv_heads, capacity, heads.head_size))
        queries = self._rng.standard_normal((batch, rows, heads.n_heads, heads.head_size)).astype(np.float32)
        queries /= np.float32(np.sqrt(heads.head_size))
        attend = attend_by_row if arithmetic_of(arithmetic).by_row else attend_as_block
        mask = causal_mask(0, rows)
        sequences = list(zip(queries, keys, values, strict=True))
        return Calls(work=lambda: [attend(*sequence, context, mask) for sequence in sequences])

    def _part(self, n_values: int) -> int:
        """Where the next part of the cache begins."""
        start = self._next_value if self._next_value + n_values <= self._keys.size else 0
        self._next_value = start + -(-n_values // _CACHE_LINE_VALUES) * _CACHE_LINE_VALUES
        return start

    @staticmethod
    def _view(values: Floats, start: int, shape: tuple[int, ...]) -> Floats:
        return values[start : start + int(np.prod(shape))].reshape(shape)

    def model(self, name: str, arithmetic: str) -> Callable[[int, int, int], Work]:
        """A scratch model on the native engine, its caches over the shared keys and values."""
        spec = SCRATCH_MODELS[name]
        model = random_model(spec, arithmetic)

        def work_of(batch: int, context: int, width: int) -> Work:
            return pass_work(model, ScratchCache(spec, self._keys, self._values, batch, context), width)

        return work_of
