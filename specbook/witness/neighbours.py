"""Other work on the machine, on purpose: what a witness must notice."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_SPIN = "while True: pass"


@contextmanager
def busy_neighbours(n: int) -> Iterator[None]:
    """So many processes that keep a processor busy meanwhile, each for as long as the block lasts.

    Examples
    --------
    >>> with busy_neighbours(0):
    ...     pass
    """
    processes = [subprocess.Popen([sys.executable, "-I", "-c", _SPIN]) for _ in range(n)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()
