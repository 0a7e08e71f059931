"""A stand-in for torch: small tensors are computed by numpy, large ones have a shape alone, and work waits in a queue.

A kernel takes a picosecond for every byte that it reads or writes, but the clock learns of it only when the queue is
waited for, so that a time that was taken without waiting is seen to be wrong.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

SECONDS_PER_BYTE = 1e-12
LAUNCH_S = 2e-5
_SMALL = 2**14


class Tensor:
    """Values, or a shape alone; ``item_bytes`` is that of the type it stands for."""

    def __init__(self, torch: FakeTorch, values: Any, item_bytes: int, device: str) -> None:
        self.torch, self.values, self.item_bytes, self.device = torch, values, item_bytes, device

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    @property
    def n_bytes(self) -> int:
        return self.values.size * self.item_bytes

    def _like(self, values: Any) -> Tensor:
        return Tensor(self.torch, values, self.item_bytes, self.device)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, key: Any) -> Tensor:
        return self._like(self.values[key])

    def __setitem__(self, key: Any, other: Tensor) -> None:
        assert self.values[key].shape == other.shape
        self.torch.queue(2 * other.n_bytes)
        if self.values.flags.writeable:
            self.values[key] = other.values

    def __mul__(self, other: Any) -> Tensor:
        return self.torch.made(np.multiply, self, other)

    __rmul__ = __mul__

    def __add__(self, other: Tensor) -> Tensor:
        return self.torch.made(np.add, self, other)

    def clone(self) -> Tensor:
        self.torch.queue(2 * self.n_bytes)
        return self._like(self.values.copy() if self.values.flags.writeable else self.values)

    def copy_(self, other: Tensor) -> Tensor:
        assert self.shape == other.shape
        self.torch.queue(self.n_bytes + other.n_bytes)
        if self.values.flags.writeable:
            self.values[...] = other.values
        return self

    def reshape(self, *shape: Any) -> Tensor:
        wanted = shape[0] if isinstance(shape[0], tuple) else shape
        if self.values.flags.writeable:
            return self._like(self.values.reshape(wanted))
        assert self.values.size == np.prod(wanted)
        return self._like(_hollow(wanted))

    def swapaxes(self, first: int, second: int) -> Tensor:
        return self._like(self.values.swapaxes(first, second))

    def chunk(self, n_parts: int, axis: int) -> list[Tensor]:
        if self.values.flags.writeable:
            return [self._like(part) for part in np.split(self.values, n_parts, axis)]
        assert axis == -1
        size = self.shape[-1] // n_parts
        return [self._like(self.values[..., part * size : (part + 1) * size]) for part in range(n_parts)]


def _hollow(shape: tuple[int, ...]) -> Any:
    return np.broadcast_to(np.float32(0.5), shape)


class FakeTorch:
    """The part of torch that the probe uses."""

    bfloat16, float32 = SimpleNamespace(size=2), SimpleNamespace(size=4)
    __version__ = "9.9"

    def __init__(self, device: str = "cuda", *, available: bool = True) -> None:
        self.now_s, self.free_at_s, self.n_waits, self.device = 10.0, 10.0, 0, device
        properties = SimpleNamespace(
            name="NVIDIA Model T", total_memory=80 * 2**30, L2_cache_size=4 * 2**20, multi_processor_count=132
        )
        self.cuda = SimpleNamespace(
            is_available=lambda: available,
            synchronize=self.synchronize,
            mem_get_info=lambda: (60 * 2**30, 80 * 2**30),
            get_device_properties=lambda _: properties,
        )
        self.mps = SimpleNamespace(
            synchronize=self.synchronize,
            recommended_max_memory=lambda: 10 * 2**30,
            current_allocated_memory=lambda: 2**30,
        )
        self.backends = SimpleNamespace(mps=SimpleNamespace(is_available=lambda: available))
        self.version = SimpleNamespace(cuda="13.0", hip=None)
        self.nn = SimpleNamespace(functional=self)
        self.attended: list[tuple[tuple[int, ...], tuple[int, ...]]] = []

    def clock(self) -> float:
        return self.now_s

    def synchronize(self) -> None:
        self.n_waits += 1
        self.now_s = max(self.now_s, self.free_at_s)

    def queue(self, n_bytes: int) -> None:
        """Launch a kernel that moves so many bytes; it runs when those before it are done."""
        self.now_s += LAUNCH_S
        self.free_at_s = max(self.free_at_s, self.now_s) + SECONDS_PER_BYTE * n_bytes

    def made(self, compute: Any, *parts: Any, shape: tuple[int, ...] | None = None) -> Tensor:
        """The result of an operation over tensors and numbers."""
        tensors = [part for part in parts if isinstance(part, Tensor)]
        values = [part.values if isinstance(part, Tensor) else part for part in parts]
        assert {tensor.device for tensor in tensors} == {self.device}
        shape = np.broadcast_shapes(*(tensor.shape for tensor in tensors)) if shape is None else shape
        small = all(tensor.values.size <= _SMALL for tensor in tensors)
        found = tensors[0]._like(np.array(compute(*values)) if small else _hollow(shape))
        assert found.shape == shape
        self.queue(sum(tensor.n_bytes for tensor in tensors) + found.n_bytes)
        return found

    def _new(self, shape: tuple[int, ...], values: Any, dtype: Any, device: str) -> Tensor:
        assert device == self.device
        small = int(np.prod(shape)) <= _SMALL
        return Tensor(self, values() if small else _hollow(shape), dtype.size, device)

    def full(self, shape: tuple[int, ...], value: float, *, dtype: Any, device: str) -> Tensor:
        return self._new(shape, lambda: np.full(shape, value, np.float32), dtype, device)

    def randn(self, shape: tuple[int, ...], *, dtype: Any, device: str) -> Tensor:
        return self._new(shape, lambda: np.random.default_rng(0).standard_normal(shape, np.float32), dtype, device)

    def _into(self, out: Tensor, compute: Any, *parts: Tensor) -> Tensor:
        self.queue(out.n_bytes + sum(part.n_bytes for part in parts))
        if out.values.flags.writeable:
            out.values[...] = compute(*(part.values for part in parts))
        return out

    def mul(self, x: Tensor, factor: float, *, out: Tensor) -> Tensor:
        return self._into(out, lambda values: factor * values, x)

    def add(self, x: Tensor, y: Tensor, *, alpha: float = 1.0, out: Tensor) -> Tensor:
        return self._into(out, lambda left, right: left + alpha * right, x, y)

    def sum(self, x: Tensor) -> Tensor:
        self.queue(x.n_bytes)
        return x._like(x.values.sum())

    def matmul(self, left: Tensor, right: Tensor) -> Tensor:
        return self.made(np.matmul, left, right, shape=(*left.shape[:-1], right.shape[-1]))

    def linear(self, rows: Tensor, weights: Tensor) -> Tensor:
        assert rows.shape[-1] == weights.shape[1]
        return self.made(lambda r, w: r @ w.T, rows, weights, shape=(*rows.shape[:-1], weights.shape[0]))

    def silu(self, x: Tensor) -> Tensor:
        return self.made(lambda values: values / (1.0 + np.exp(-values)), x)

    def rms_norm(self, rows: Tensor, shape: tuple[int], weight: Tensor, epsilon: float) -> Tensor:
        assert rows.shape[-1:] == shape == weight.shape
        return self.made(lambda r, w: w * r / np.sqrt((r**2).mean(-1, keepdims=True) + epsilon), rows, weight)

    def cat(self, parts: tuple[Tensor, Tensor], axis: int) -> Tensor:
        shape = (*parts[0].shape[:-1], sum(part.shape[-1] for part in parts))
        return self.made(lambda *values: np.concatenate(values, axis), *parts, shape=shape)

    def scaled_dot_product_attention(self, q: Tensor, k: Tensor, v: Tensor, *, enable_gqa: bool) -> Tensor:
        assert k.shape == v.shape
        assert enable_gqa
        assert q.shape[1] % k.shape[1] == 0
        self.attended.append((q.shape, k.shape))
        return self.made(_attention, q, k, v, shape=q.shape)


def _attention(q: Any, k: Any, v: Any) -> Any:
    group = q.shape[1] // k.shape[1]
    keys, values = (np.repeat(part, group, axis=1) for part in (k, v))
    scores = q @ keys.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ values
