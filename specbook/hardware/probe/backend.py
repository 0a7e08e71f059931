"""What a probe asks of whatever computes: numpy on a processor, torch on a device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from specbook.hardware.probe.models import Heads, Weights

Work = Callable[[], object]

STREAM_KERNELS = ("copy", "scale", "add", "triad", "read")

# Arrays that each kernel reads or writes, as STREAM counts them: what a store fetches first is not counted.
ARRAYS_MOVED = {"copy": 2, "scale": 2, "add": 3, "triad": 3, "read": 1}

STREAM_FACTOR = 3.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Calls:
    """Work that does one thing several times."""

    work: Work
    n_calls: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Stream:
    """The kernels of :data:`STREAM_KERNELS` over three arrays of so many bytes each."""

    array_bytes: int
    kernels: Mapping[str, Calls]


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceFacts:
    """What is known of a device without measuring it; 0 bytes for what it does not say."""

    device: str
    vendor: str
    kind: Literal["gpu", "unified", "cpu"]
    memory_bytes: int
    last_level_cache_bytes: int
    n_processors: int
    blas: dict[str, str | int]


class Backend(Protocol):
    """Arrays, kernels and a clock.

    Everything that returns work prepares it, so that calling the work does what is timed and nothing else. Several
    calls are timed together where one would be over before the device has been waited for.

    Attributes
    ----------
    name : str
        numpy, cuda or mps.
    facts : DeviceFacts
    product_arithmetics, pass_arithmetics : tuple of str
        What products, and attention and passes, are measured in.
    rate_precision : "fp16" or "fp32"
        What the large product is computed in.
    heads : Heads
        Of the attention that is measured.
    further_weights : tuple of Weights
        Measured beside the engine's own.
    kv_value_bytes : int
        Bytes of one entry of the cache.
    square_factor : int
        How much larger the large product is than on one core of a processor, for both to take time.
    """

    name: str
    facts: DeviceFacts
    product_arithmetics: tuple[str, ...]
    pass_arithmetics: tuple[str, ...]
    rate_precision: Literal["fp16", "fp32"]
    heads: Heads
    further_weights: tuple[Weights, ...]
    kv_value_bytes: int
    square_factor: int

    def clock(self) -> float:
        """Seconds since some moment."""
        ...

    def synchronise(self) -> None:
        """Wait until everything that was asked for is done."""
        ...

    def free_memory_bytes(self) -> int:
        """Memory that scratch arrays may be taken from."""
        ...

    def engine_name(self, arithmetic: str) -> str:
        """Who computes the passes, as a table of step times names it."""
        ...

    def weight_bytes(self, arithmetic: str) -> int:
        """Bytes that a prepared weight takes."""
        ...

    def product_bytes(self, arithmetic: str, weights: Weights) -> int:
        """Bytes that :meth:`product` takes, copies included."""
        ...

    def stream(self, array_bytes: int) -> Stream:
        """Bandwidth kernels over arrays of about so many bytes each."""
        ...

    def square_product(self, size: int) -> Calls:
        """The product of two (size, size) matrices."""
        ...

    def tiny_product(self) -> Calls:
        """Products too small to take time."""
        ...

    def product(self, arithmetic: str, weights: Weights) -> Callable[[int], Calls]:
        """Prepared weights: a number of rows → products of so many rows with them."""
        ...

    def fill_cache(self, n_values: int) -> None:
        """Set aside and fill so many keys and as many values, for attention and passes."""
        ...

    def attention(self, arithmetic: str, batch: int, context: int, rows: int) -> Calls:
        """Attention of one layer over a part of the cache that was not read of late."""
        ...

    def model(self, name: str, arithmetic: str) -> Callable[[int, int, int], Work]:
        """A scratch model: batch, context, width → one pass, head included."""
        ...


def seconds_of(backend: Backend, calls: Calls) -> float:
    """Seconds of one call, from a device at rest to a device at rest.

    Parameters
    ----------
    backend : Backend
    calls : Calls

    Returns
    -------
    float
        Elapsed time ÷ calls.
    """
    backend.synchronise()
    start = backend.clock()
    calls.work()
    backend.synchronise()
    return (backend.clock() - start) / calls.n_calls
