"""What shares the work: an executor that knows how many tasks it runs at once, and what to do when a worker dies."""

from __future__ import annotations

import os
import warnings
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
Note = Callable[[str], None]


def no_note(_: str) -> None:
    """Tell nobody."""


class Workers(Executor):
    """An executor of :mod:`concurrent.futures` that knows its size and can be mended."""

    @property
    @abstractmethod
    def n_workers(self) -> int:
        """Tasks that run at once."""

    @abstractmethod
    def mended(self) -> Workers:
        """What goes on after work was lost. Futures of before that have no result by now will have none."""

    def look(self) -> None:
        """Say so if there is a reason why nothing has come for a while."""


class InThisProcess(Workers):
    """Runs each task at once where it is submitted.

    Examples
    --------
    >>> InThisProcess().submit(max, 2, 3).result()
    3
    """

    @property
    def n_workers(self) -> int:
        """One."""
        return 1

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run it; an interrupt is raised here, an exception by the future."""
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future

    def mended(self) -> Workers:
        """The same."""
        return self


def worker_count(executor: Executor) -> int:
    """Tasks that run at once; of an executor that does not say, as many as there are processors here.

    Examples
    --------
    >>> worker_count(InThisProcess())
    1
    """
    return executor.n_workers if isinstance(executor, Workers) else os.cpu_count() or 1


def mended(executor: Executor) -> Workers:
    """What goes on in the place of an executor that lost work.

    Warns
    -----
    RuntimeWarning
        If the executor is not one of ours, so that nobody knows how to mend it: what is missing runs in this process.
    """
    if isinstance(executor, Workers):
        return executor.mended()
    text = f"{type(executor).__name__} lost its workers; what is missing runs in this process"
    warnings.warn(text, RuntimeWarning, stacklevel=2)
    return InThisProcess()


def look(executor: Any) -> None:
    """Let workers of ours say why nothing comes."""
    if isinstance(executor, Workers):
        executor.look()
