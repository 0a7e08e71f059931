"""A scheduler and its workers as processes of this machine, for as long as a test needs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_START_S = 60.0
_SETTINGS = {
    "OPENBLAS_NUM_THREADS": "1",
    "POLARS_MAX_THREADS": "1",
    # Results that died with their worker are asked for until this time is over.
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "1s",
}


@dataclass
class DaskCluster:
    """Processes that ran ``dask scheduler`` and ``dask worker``; workers die for good, since no nanny watches them."""

    folder: Path
    stack: ExitStack
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start_scheduler(self, **environment: str) -> None:
        self.scheduler = self._start("scheduler", ("--port", "0"), environment)
        self.address = self._address()

    def start_worker(self, **environment: str) -> subprocess.Popen[bytes]:
        arguments = ("--nthreads", "1", "--no-nanny", "--local-directory", str(self.folder))
        worker = self._start("worker", arguments, environment)
        self.workers.append(worker)
        return worker

    def end_worker(self, worker: subprocess.Popen[bytes]) -> None:
        _end(worker)
        self.workers.remove(worker)

    def _start(
        self, command: str, arguments: tuple[str, ...], environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        common = ("--scheduler-file", str(self._file), "--host", "127.0.0.1", "--no-dashboard")
        whole = [sys.executable, "-m", "dask", command, *common, *arguments]
        with (self.folder / f"{command}.log").open("ab") as log:
            process = subprocess.Popen(
                whole, cwd=ROOT, env={**os.environ, **_SETTINGS, **environment}, stdout=log, stderr=log
            )
        self.stack.callback(_end, process)
        return process

    @property
    def _file(self) -> Path:
        return self.folder / "scheduler.json"

    def _address(self) -> str:
        end = time.monotonic() + _START_S
        while time.monotonic() < end:
            try:
                return str(json.loads(self._file.read_text(encoding="utf-8"))["address"])
            except (OSError, json.JSONDecodeError):
                time.sleep(0.02)
        raise TimeoutError("the scheduler did not start")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


@contextmanager
def dask_cluster(folder: Path, n_workers: int, **environment: str) -> Iterator[DaskCluster]:
    """A scheduler with workers of one thread each, which all end with the block.

    Parameters
    ----------
    folder : Path
        For logs and the scheduler's file.
    n_workers : int
    environment : str
        Variables for the scheduler, such as its settings.
    """
    with ExitStack() as stack:
        cluster = DaskCluster(folder=folder, stack=stack)
        cluster.start_scheduler(**environment)
        for _ in range(n_workers):
            cluster.start_worker()
        yield cluster
