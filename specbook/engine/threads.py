"""BLAS threads and kernels: set inside the process, and stated wherever a time or a bit pattern is.

One thread is the rule. A second one halves a large step on a quiet machine, and makes it ten times slower on a busy
one, because threads spin while they wait for each other.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from threadpoolctl import threadpool_info, threadpool_limits

from specbook.checks import check_counts

# OpenBLAS has kernels for small products, which read the weights once and pack nothing, on these alone.
_SMALL_PRODUCT_KERNELS = frozenset({"SkylakeX", "Cooperlake", "SapphireRapids"})
# What its SkylakeX kernels ask of a processor.
_SKYLAKE_X_FLAGS = frozenset({"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"})
_CPUINFO = Path("/proc/cpuinfo")


@contextmanager
def blas_threads(n_threads: int = 1) -> Iterator[None]:
    """Limit BLAS to ``n_threads`` inside the block, whatever the environment says.

    Examples
    --------
    >>> with blas_threads(1):
    ...     blas_description()["threads"]
    1
    """
    with threadpool_limits(int(check_counts("n_threads", n_threads, minimum=1)), user_api="blas"):
        yield


def blas_description() -> dict[str, str | int]:
    """Library, version, kernel family and threads of numpy's BLAS, as a receipt states them.

    Examples
    --------
    >>> sorted(blas_description())
    ['kernel', 'library', 'threads', 'version']
    """
    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    # scipy brings a BLAS of its own; numpy's is the one that the engine multiplies with.
    pools.sort(key=lambda pool: "numpy" not in str(pool["filepath"]))
    if not pools:
        return {"library": "unknown", "version": "unknown", "kernel": "unknown", "threads": 1}
    names = {"library": "internal_api", "version": "version", "kernel": "architecture"}
    found = {name: str(pools[0].get(key) or "unknown") for name, key in names.items()}
    return {**found, "threads": int(pools[0]["num_threads"])}


def processor_name() -> str:
    """Name of the processor as Linux states it, else what Python knows.

    Examples
    --------
    >>> bool(processor_name())
    True
    """
    return _cpuinfo("model name") or platform.processor() or platform.machine() or "unknown"


def _cpuinfo(name: str) -> str:
    """The first entry of this name in what Linux says of the processors; empty without one."""
    lines = _CPUINFO.read_text(encoding="utf-8").splitlines() if _CPUINFO.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")


def kernel_advice() -> str | None:
    """What to set where OpenBLAS chose kernels that are slow at small products on a processor that has fast ones.

    It does not know every processor with AVX-512, and takes its Haswell kernels on those: a pass over five rows then
    takes two single steps instead of one.

    Examples
    --------
    >>> kernel_advice() is None or "OPENBLAS_CORETYPE" in kernel_advice()
    True
    """
    blas = blas_description()
    is_known = blas["library"] != "openblas" or blas["kernel"] in _SMALL_PRODUCT_KERNELS
    if is_known or not set(_cpuinfo("flags").split()) >= _SKYLAKE_X_FLAGS:
        return None
    return (
        f"OpenBLAS runs its {blas['kernel']} kernels on a processor with AVX-512; with OPENBLAS_CORETYPE=SkylakeX in "
        "the environment, passes over several rows may take half the time"
    )


@lru_cache(maxsize=1)
def has_small_product_kernel() -> bool:
    """Whether BLAS multiplies a few rows with a tile of weights without packing the tile first."""
    return blas_description()["kernel"] in _SMALL_PRODUCT_KERNELS
