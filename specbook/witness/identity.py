"""Who decoded: versions, kernels, weights, and the machine without its name."""

from __future__ import annotations

import platform

from specbook import __version__
from specbook.engine.threads import blas_description
from specbook.hardware.probe.machine import n_processors, processor, total_memory_bytes
from specbook.measuring.subjects import shipped_weights
from specbook.witness.config import WitnessConfig
from specbook.witness.result import Engine


def engine_identity(config: WitnessConfig) -> Engine:
    """The engine of a run; BLAS as it is set while this is called.

    Parameters
    ----------
    config : WitnessConfig

    Examples
    --------
    >>> from specbook.witness.config import Configuration
    >>> four = Configuration(name="four", drafter="small", draft_length=4)
    >>> sorted(engine_identity(WitnessConfig(configurations=(four,))).weights_sha256)
    ['draft', 'target']
    """
    blas = blas_description()
    weights: dict[str, str] = {}
    for configuration in config.configurations:
        weights |= shipped_weights(configuration.drafter)
    return Engine(
        specbook_version=__version__,
        arithmetic=config.arithmetic,
        replication=config.replication,
        blas_kernel=str(blas["kernel"]),
        n_threads=int(blas["threads"]),
        host=host_description(),
        weights_sha256=weights,
    )


def host_description() -> dict[str, str]:
    """The machine: what its times depend on, and nothing that names it or its user.

    Examples
    --------
    >>> sorted(host_description())
    ['cores', 'machine', 'memory', 'processor', 'python', 'system']
    """
    memory_bytes = total_memory_bytes()
    return {
        "system": platform.system(),
        "machine": platform.machine(),
        "processor": processor(),
        "cores": str(n_processors()),
        "memory": f"{memory_bytes / 2**30:.0f} GiB" if memory_bytes else "unknown",
        "python": platform.python_version(),
    }
