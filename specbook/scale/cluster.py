"""Workers of a dask.distributed cluster. Nothing else here knows dask: what it gives is an executor like any other."""

from __future__ import annotations

import asyncio
import logging
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import contextmanager, suppress
from threading import Thread
from typing import Any, ParamSpec, TypeVar

from specbook.checks import BadInput
from specbook.scale.workers import InThisProcess, Note, Workers, no_note

P = ParamSpec("P")
T = TypeVar("T")

# A scheduler that does not answer in this time is not there.
CONNECT_S = 6.0
# Workers may come and go: so often are they counted.
_RECOUNT_S = 2.0
_FIELD = "cluster"
# Tasks are classes of specbook; what they compute with may differ, in the last digits of a result.
_MUST_AGREE, _SHOULD_AGREE = ("python", "specbook"), ("numpy", "polars", "scipy")


@contextmanager
def cluster_workers(address: str, note: Note = no_note, connect_s: float | None = None) -> Iterator[Workers]:
    """The workers of a scheduler that runs somewhere, until the end of the block.

    Parameters
    ----------
    address : str
        Of the scheduler, such as ``tcp://10.0.0.5:8786``.
    note : callable
        Is told in a sentence what a person should know.
    connect_s : float or None
        How long to wait for the scheduler, and then for a first worker, seconds; None is ``CONNECT_S``.

    Yields
    ------
    Workers

    Raises
    ------
    BadInput
        If dask.distributed is not installed, the scheduler does not answer or has no workers, it or a worker has
        another version of Python or specbook, or a task killed worker after worker.

    Notes
    -----
    dask runs a task again whose worker died, and gives up after four workers. If the scheduler itself is lost, and does
    not come back in ``connect_s``, what is missing runs in this process.
    """
    distributed = _distributed()
    with _quiet(), _client(distributed, address, CONNECT_S if connect_s is None else connect_s) as client:
        workers = _Cluster(client, address, note)
        try:
            yield workers
        except distributed.KilledWorker as error:
            count = error.allowed_failures + 1
            problem = f"a task killed as many workers as the scheduler gives it ({count}), for want of memory as a rule"
            raise BadInput(problem, field=_FIELD, value=address, remedy="give each of them more memory") from None
        finally:
            workers.shutdown(wait=False)


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        remedy = 'install the extra: pip install "specbook[cluster]"'
        raise BadInput("needs dask.distributed, which is not installed", field=_FIELD, remedy=remedy) from None
    return distributed


@contextmanager
def _quiet() -> Iterator[None]:
    """Without dask's own log, which tells of lost connections in tracebacks; what matters is noted in a sentence."""
    named = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] in ("distributed", "tornado")]
    before = {name: logging.getLogger(name).disabled for name in named}
    for name in before:
        logging.getLogger(name).disabled = True
    try:
        yield
    finally:
        for name, was_disabled in before.items():
            logging.getLogger(name).disabled = was_disabled


@contextmanager
def _client(distributed: Any, address: str, connect_s: float) -> Iterator[Any]:
    """A client with at least one worker behind it."""
    import dask

    # Tasks carry what they need, a workload of some megabytes at most: dask warns of that from 10 MB on.
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GiB"}):
        client = _connected(distributed, address, connect_s)
        try:
            _wait_for_a_worker(client, address, connect_s)
            yield client
        finally:
            client.close()


def _connected(distributed: Any, address: str, connect_s: float) -> Any:
    _check_greeting(distributed, address, connect_s)
    try:
        with warnings.catch_warnings():
            # Of versions, which are compared with more care below.
            warnings.filterwarnings("ignore", message="Mismatched versions found")
            return distributed.Client(address, timeout=connect_s, set_as_default=False, name="specbook")
    except (OSError, TimeoutError):
        raise _no_scheduler(address) from None


def _check_greeting(distributed: Any, address: str, longest_s: float) -> None:
    """Refuse an address where nobody greets as a scheduler does. A client would wait for ever for one who is silent."""
    try:
        _within(longest_s, lambda: asyncio.run(_greet(distributed, address, longest_s)))
    except Exception as error:  # what somebody else says in the place of a greeting may raise anything
        if isinstance(error, TypeError) and address.startswith("tls"):
            remedy = "name them in dask's configuration, distributed.comm.tls"
            raise BadInput("needs certificates", field=_FIELD, value=address, remedy=remedy) from None
        raise _no_scheduler(address) from None


def _no_scheduler(address: str) -> BadInput:
    remedy = "start one with dask scheduler, and give the address that it prints, such as tcp://10.0.0.5:8786"
    return BadInput("no scheduler answers there", field=_FIELD, value=address, remedy=remedy)


async def _greet(distributed: Any, address: str, longest_s: float) -> None:
    how = distributed.Security().get_connection_args("client")
    comm = await asyncio.wait_for(distributed.comm.connect(address, timeout=longest_s, **how), longest_s)
    await comm.close()


def _within(longest_s: float, make: Callable[[], T]) -> T:
    """What a call gives, or TimeoutError after so long. It has a thread of its own, since this one may have a loop."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(make())
        except BaseException as error:
            future.set_exception(error)

    Thread(target=run, daemon=True).start()
    return future.result(longest_s)


def _wait_for_a_worker(client: Any, address: str, connect_s: float) -> None:
    try:
        client.wait_for_workers(1, timeout=connect_s)
    except TimeoutError:
        remedy = f"start some, as many as you like, with dask worker {address}"
        raise BadInput("the scheduler has no workers", field=_FIELD, value=address, remedy=remedy) from None


def _check_versions(found: Mapping[str, Any], address: str) -> list[str]:
    """Refuse what could not read our tasks; what may compute otherwise, as text."""
    ours = found["client"]["packages"]
    places = {"the scheduler": found["scheduler"], **found["workers"]}
    differing: dict[str, str] = {}
    for place, state in places.items():
        theirs = state["packages"]
        for name in _MUST_AGREE:
            if _release(name, theirs.get(name)) != _release(name, ours[name]):
                problem = f"{place} has {name} {theirs.get(name) or 'not installed'}, and this machine {ours[name]}"
                raise BadInput(problem, field=_FIELD, value=address, remedy="install the same there as here")
        for name in _SHOULD_AGREE:
            if theirs.get(name) != ours[name]:
                differing[name] = f"{name} {theirs.get(name)} there, {ours[name]} here"
    return list(differing.values())


def _release(name: str, version: str | None) -> str | None:
    """What has to agree: of Python the first two numbers."""
    return version if version is None or name != "python" else ".".join(version.split(".")[:2])


class _Cluster(Workers):
    """dask's executor, with the number of its workers."""

    def __init__(self, client: Any, address: str, note: Note) -> None:
        self._client, self._address, self._note = client, address, note
        self._executor: Executor = client.get_executor(pure=False)
        self._told: set[str] = set()
        self._known: set[str] = set()
        self._n_threads, self._counted_s = 0, 0.0
        self._count()

    @property
    def n_workers(self) -> int:
        """Threads of all workers, as they were counted lately; one where there are none, to wait for."""
        if time.monotonic() - self._counted_s > _RECOUNT_S:
            with suppress(OSError):  # of a scheduler that is gone, which whoever waits for results will find out
                self._count()
        return max(1, self._n_threads)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        if not self._is_connected:
            raise BrokenExecutor("the scheduler is gone")
        return self._executor.submit(fn, *args, **kwargs)

    def mended(self) -> Workers:
        while self._client.status == "connecting":  # ends after the time that it takes to be sure
            time.sleep(0.1)
        if self._is_connected:
            self._tell(f"the scheduler at {self._address} was away; what it had begun is done again")
            return self
        self._tell(f"the scheduler at {self._address} is gone; what is missing is done in this process")
        return InThisProcess()

    def look(self) -> None:
        with suppress(OSError):
            self._count()
        if self._is_connected and not self._n_threads:
            self._tell(f"no worker is left at {self._address}; waiting for one, Ctrl-C ends")

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        del cancel_futures  # dask cancels what is not waited for
        if self._is_connected:
            self._executor.shutdown(wait=wait)

    @property
    def _is_connected(self) -> bool:
        return bool(self._client.status == "running")

    def _count(self) -> None:
        """Count the workers; new ones must be like this machine."""
        self._counted_s = time.monotonic()
        if not self._is_connected:
            return
        threads = self._client.nthreads()
        if set(threads) - self._known:
            packages = ["specbook", *_SHOULD_AGREE]
            differing = _check_versions(self._client.get_versions(packages=packages), self._address)
            if differing:
                self._tell(f"the cluster's results may differ in the last digits: {'; '.join(differing)}")
        self._known |= set(threads)
        self._n_threads = sum(threads.values())

    def _tell(self, text: str) -> None:
        """Each thing once."""
        if text not in self._told:
            self._told.add(text)
            self._note(text)
