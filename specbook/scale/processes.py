"""Workers that are processes of this machine."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import ParamSpec, TypeVar

from threadpoolctl import threadpool_limits

from specbook.checks import check_count
from specbook.scale.workers import Note, Workers, no_note

P = ParamSpec("P")
T = TypeVar("T")

_THREAD_COUNTS = ("POLARS_MAX_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@contextmanager
def process_workers(n_workers: int, note: Note = no_note) -> Iterator[Workers]:
    """Processes that share the work, until the end of the block.

    Parameters
    ----------
    n_workers : int
        Started as they are needed, each as a new interpreter: never a copy of a process with threads.
    note : callable
        Is told in a sentence when a worker died and its work is done again.

    Yields
    ------
    Workers

    Raises
    ------
    ValueError
        If the number is not whole and at least 1.

    Notes
    -----
    A script that uses them keeps what it does under ``if __name__ == "__main__":``, since a new interpreter imports it.
    The processes end with the block, at once if it raises, and with this process even if that is killed.

    Examples
    --------
    >>> with process_workers(2) as workers:
    ...     workers.n_workers
    2
    """
    workers = _Processes(check_count("n_workers", n_workers, minimum=1), note)
    try:
        yield workers
    except BaseException:
        workers.end()
        raise
    workers.shutdown()


class _Processes(Workers):
    """A process pool that is replaced when it breaks."""

    def __init__(self, n_workers: int, note: Note) -> None:
        self._n_workers, self._note = n_workers, note
        self._pool = self._new_pool()

    def _new_pool(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(self._n_workers, mp_context=get_context("spawn"), initializer=_begin)

    @property
    def n_workers(self) -> int:
        return self._n_workers

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        with _no_interrupt_inherited():
            return self._pool.submit(fn, *args, **kwargs)

    def mended(self) -> Workers:
        self._note("a worker process died; what it had begun is done again")
        self.end()
        self._pool = self._new_pool()
        return self

    def end(self) -> None:
        """End the processes at once; whatever they had not finished has no result."""
        for process in list((self._pool._processes or {}).values()):
            process.terminate()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._pool.shutdown(wait=wait, cancel_futures=cancel_futures)


@contextmanager
def _no_interrupt_inherited() -> Iterator[None]:
    """Start processes that do not hear Ctrl-C, which reaches every process of a terminal: this one ends the others."""
    if os.name != "posix":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    """Make a process a worker of one thread. Libraries that are imported later count their threads from the start."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in _THREAD_COUNTS:
        os.environ[name] = "1"
    threadpool_limits(1, user_api="blas")  # of a BLAS that the program's own module has imported
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A worker that waits for its next task would not notice that there is nobody left to send one."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
