"""A real dask scheduler with worker processes: the same bytes, dead workers, and what cannot be used."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from specbook import __version__
from specbook.checks import BadInput
from specbook.scale import cluster as cluster_module
from specbook.scale import in_order as in_order_module
from specbook.scale.cluster import cluster_workers
from specbook.scale.in_order import in_order
from specbook.scale.workers import Workers
from tests.dask_cluster import ROOT, DaskCluster, dask_cluster
from tests.scale_tasks import (
    kill_worker,
    refuse,
    runs_of,
    small_sweep,
    square,
    square_once_dead,
    sweep_files,
    times_begun,
)

SWEEP = (
    *("sweep", "--acceptance", "spec-bench-sps-vicuna-7b-math", "--target", "Vicuna-7B-v1.3", "--draft", "Llama-68M"),
    *("--context", "512,2048", "--assume", "truncation", "--hardware", "h100-sxm5", "--hardware", "l4"),
)
LONG = ("--batch", ",".join(map(str, range(1, 1025))), "--context", ",".join(map(str, range(100, 1100))))
SIMULATE = (
    *("simulate", "--rate", 20, "--requests", 30, "--output-tokens", "geometric:20", "--kv-blocks", 200),
    *("--conditional-acceptance", 0.8, "--draft-length", "0,2", "--seed", "0,1"),
)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    with dask_cluster(tmp_path_factory.mktemp("dask"), 2) as processes:
        with cluster_workers(processes.address, connect_s=60.0) as workers:
            _until(lambda: workers.n_workers == 2)
        yield processes


def _until(holds: Callable[[], bool], longest_s: float = 60.0) -> None:
    end = time.monotonic() + longest_s
    while not holds():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def _same_files(one: Path, other: Path) -> None:
    names = sorted(path.name for path in one.iterdir())
    assert names == sorted(path.name for path in other.iterdir())
    for name in names:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


def test_sweep_and_simulations_come_to_the_same_bytes_on_two_workers(two: DaskCluster, tmp_path: Path):
    notes: list[str] = []
    with cluster_workers(two.address, notes.append) as workers:
        assert workers.n_workers == 2
        assert sweep_files(tmp_path / "two", workers) == sweep_files(tmp_path / "here", None)
        assert runs_of(workers).equals(runs_of(None))
    assert notes == []


def test_both_workers_work(two: DaskCluster):
    with cluster_workers(two.address) as workers:
        pids = set(in_order(_pid, range(40), workers))
    assert pids == {worker.pid for worker in two.workers}


def _pid(_: int) -> int:
    time.sleep(0.01)
    return os.getpid()


def test_what_a_task_refuses_is_refused_here_in_the_same_words(two: DaskCluster):
    with cluster_workers(two.address) as workers:
        results = in_order(refuse, range(4), workers)
        assert [next(results), next(results)] == [0, 1]
        with pytest.raises(BadInput, match="number = 2: is two; take another") as refused:
            next(results)
    assert (refused.value.field, refused.value.value) == ("number", 2)


@pytest.mark.parametrize("arguments", [SWEEP, SIMULATE], ids=["sweep", "simulate"])
def test_commands_share_their_work_and_write_the_same(cli, save, tmp_path: Path, two: DaskCluster, arguments):
    times = ("--step-time", save("S.json", {"kind": "constant", "ms": 10})) if arguments is SIMULATE else ()
    shown = []
    for name, more in (("here", ()), ("two", ("--cluster", two.address))):
        outcome = cli(*arguments, *times, "--out", tmp_path / name, "--json", *more)
        assert (outcome.code, outcome.err) == (0, "")
        shown.append(outcome.out.replace(str(tmp_path / name), "OUT"))
    assert shown[0] == shown[1]
    _same_files(tmp_path / "here", tmp_path / "two")


def test_an_interrupt_ends_the_command_and_leaves_the_cluster_to_others(two: DaskCluster, tmp_path: Path):
    command = [sys.executable, "-c", "from specbook.cli import main; main()", *SWEEP, *LONG]
    arguments = ["--cluster", two.address, "--out", str(tmp_path / "s")]
    with subprocess.Popen([*command, *arguments], cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        with cluster_workers(two.address) as workers:
            _until(lambda: _n_clients_with_work(workers) > 0)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (130, "")
    assert not (tmp_path / "s").exists()
    with cluster_workers(two.address) as workers:
        assert list(in_order(square, range(5), workers)) == [0, 1, 4, 9, 16]
        _until(lambda: _n_clients_with_work(workers) == 0)


def _n_clients_with_work(workers: Workers) -> int:
    """Of others than us, whose tasks the scheduler knows."""
    submitted = workers._client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))  # type: ignore[attr-defined]
    return int(submitted)


def test_log_of_dask_is_silent_inside_and_as_before_outside(two: DaskCluster):
    names = ("distributed", "distributed.client", "tornado.application")
    assert not any(logging.getLogger(name).disabled for name in names)
    with cluster_workers(two.address):
        assert all(logging.getLogger(name).disabled for name in names)
    assert not any(logging.getLogger(name).disabled for name in names)


def test_a_worker_of_another_version_is_refused_at_the_start_and_when_it_joins(two: DaskCluster, tmp_path: Path):
    packages = tmp_path / "specbook-9.9.dist-info"
    packages.mkdir()
    (packages / "METADATA").write_text("Metadata-Version: 2.1\nName: specbook\nVersion: 9.9\n")
    refused = rf"has specbook 9\.9, and this machine {__version__}; install the same there as here"
    with cluster_workers(two.address) as workers:
        other = two.start_worker(PYTHONPATH=str(tmp_path))
        with pytest.raises(BadInput, match=refused):
            _until(lambda: workers.n_workers == 3)
        with pytest.raises(BadInput, match=refused), cluster_workers(two.address):
            pass
        two.end_worker(other)
        _until(lambda: workers.n_workers == 2)


def test_workers_that_are_killed_lose_nothing_and_count_nothing_twice(monkeypatch, tmp_path: Path):
    monkeypatch.setattr(in_order_module, "_LOOK_S", 0.2)
    notes: list[str] = []
    counts: list[int] = []
    with dask_cluster(tmp_path, 0) as processes:

        def help_out(text: str) -> None:
            notes.append(text)
            processes.start_worker()

        nobody = pytest.raises(
            BadInput, match=r"has no workers; start some, as many as you like, with dask worker tcp:"
        )
        with nobody, cluster_workers(processes.address, connect_s=0.5):
            pass
        two = [processes.start_worker(), processes.start_worker()]
        with cluster_workers(processes.address, help_out, connect_s=60.0) as workers:
            _until(lambda: workers.n_workers == 2)
            # One dies by its task, which the other does again,
            tasks = ((tmp_path, number) for number in range(20))
            assert list(in_order(square_once_dead, tasks, workers)) == [number**2 for number in range(20)]
            begun = times_begun(tmp_path)
            assert sorted(begun) == list(range(20))
            assert begun[5] == 2
            (left,) = (worker for worker in two if worker.poll() is None)

            # and the other by somebody's hand amid a sweep, which goes on when a third one comes.
            def kill_the_other(count: int) -> None:
                counts.append(count)
                if len(counts) == 3:
                    left.kill()

            written = sweep_files(tmp_path / "two", workers, kill_the_other)
    assert [worker.wait() for worker in two] == [-signal.SIGKILL] * 2
    assert notes == [f"no worker is left at {processes.address}; waiting for one, Ctrl-C ends"]
    assert written == sweep_files(tmp_path / "here", None)
    assert sum(counts) == small_sweep().n_configurations


def test_a_cluster_that_falls_apart_ends_in_one_line_or_leaves_the_rest_to_this_process(tmp_path: Path):
    notes: list[str] = []
    counts: list[int] = []
    settings = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"}
    with dask_cluster(tmp_path, 2, **settings) as processes:
        # A task that kills whoever takes it is given up,
        with pytest.raises(
            BadInput, match=r"cluster = 'tcp://.*': a task killed as many workers as .* \(1\)"
        ) as refused:
            _kill_one(processes.address)
        assert "\n" not in str(refused.value)

        # and without the scheduler this process does what the other worker has not done.
        def kill_scheduler(count: int) -> None:
            counts.append(count)
            if len(counts) == 3:
                processes.scheduler.kill()

        with cluster_workers(processes.address, notes.append, connect_s=0.5) as workers:
            written = sweep_files(tmp_path / "two", workers, kill_scheduler)
    assert notes == [f"the scheduler at {processes.address} is gone; what is missing is done in this process"]
    assert written == sweep_files(tmp_path / "here", None)
    assert sum(counts) == small_sweep().n_configurations


def _kill_one(address: str) -> None:
    with cluster_workers(address, connect_s=60.0) as workers:
        _until(lambda: workers.n_workers == 2)
        list(in_order(kill_worker, range(9), workers))


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "", "nonsense://a:1", "127.0.0.1:nine"])
def test_scheduler_that_does_not_answer_is_one_line(cli, monkeypatch, tmp_path: Path, address: str):
    monkeypatch.setattr(cluster_module, "CONNECT_S", 0.5)
    outcome = cli(*SWEEP, "--cluster", address, "--out", tmp_path / "s")
    assert (outcome.code, outcome.out) == (2, "")
    assert len(outcome.err.splitlines()) == 1
    assert f"cluster = '{address}': no scheduler answers there; start one with dask scheduler" in outcome.err
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0" * 64])
def test_somebody_else_who_listens_there_is_no_scheduler(said: bytes):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        threading.Thread(target=_say, args=(server, said), daemon=True).start()
        with pytest.raises(BadInput, match="no scheduler answers there"), cluster_workers(address, connect_s=0.5):
            pass


def _say(server: socket.socket, said: bytes) -> None:
    connection, _ = server.accept()
    with connection:
        connection.sendall(said)
        time.sleep(1.0)


def test_scheduler_that_wants_certificates_is_told_apart():
    with pytest.raises(BadInput, match="needs certificates; name them"), cluster_workers("tls://127.0.0.1:1"):
        pass


def test_nothing_is_left_running_after_a_refusal():
    before = set(threading.enumerate())
    with pytest.raises(BadInput), cluster_workers("tcp://127.0.0.1:1", connect_s=0.2):
        pass
    left = {thread.name for thread in set(threading.enumerate()) - before if not thread.daemon}
    assert left == set()


def test_machine_without_dask_is_told_the_extra(cli, monkeypatch, tmp_path: Path):
    monkeypatch.setitem(sys.modules, "distributed", None)
    outcome = cli(*SWEEP, "--cluster", "tcp://127.0.0.1:1", "--out", tmp_path / "s")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.endswith('not installed; install the extra: pip install "specbook[cluster]"\n')
