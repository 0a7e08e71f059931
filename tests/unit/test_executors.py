"""Tasks on executors: order, bounded memory, workers that die, processes that end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import pytest

from specbook.checks import BadInput
from specbook.scale.in_order import IN_FLIGHT_PER_WORKER, MOST_LOSSES, in_order
from specbook.scale.processes import process_workers
from specbook.scale.workers import InThisProcess, Workers
from tests.scale_tasks import (
    kill_worker,
    refuse,
    runs_of,
    small_sweep,
    square,
    square_once_dead,
    sweep_files,
    threads,
    times_begun,
)

ROOT = Path(__file__).resolve().parents[2]
EVIDENCE = ("--acceptance", "spec-bench-sps-vicuna-7b-math", "--target", "Vicuna-7B-v1.3", "--draft", "Llama-68M")
SMALL = ("--context", "512,2048", "--assume", "truncation")
DRAWN = ("--rate", 20, "--requests", 40, "--output-tokens", "geometric:20", "--kv-blocks", 200)
DRAFTED = ("--conditional-acceptance", 0.8, "--draft-length", 3)


@pytest.fixture(scope="module")
def two() -> Iterator[Workers]:
    with process_workers(2) as workers:
        yield workers


class Held(Workers):
    """Answers nothing until it is told to; what dies has no answer ever."""

    def __init__(self, n_workers: int = 2) -> None:
        self.calls: list[tuple[Future[Any], Callable[[], Any]]] = []
        self._n_workers, self.n_mended = n_workers, 0

    @property
    def n_workers(self) -> int:
        return self._n_workers

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.calls.append((future, lambda: fn(*args, **kwargs)))
        return future

    def answer(self, *numbers: int) -> None:
        for number in numbers:
            future, call = self.calls[number]
            future.set_result(call())

    def die(self, *numbers: int) -> None:
        for number in numbers:
            self.calls[number][0].set_exception(BrokenExecutor("gone"))

    def mended(self) -> Workers:
        self.n_mended += 1
        return self


class Stranger(Executor):
    """Somebody's executor, which breaks at the second task."""

    def __init__(self) -> None:
        self.n_tasks = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.n_tasks += 1
        if self.n_tasks > 1:
            raise BrokenExecutor("gone")
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def test_results_come_in_the_order_of_tasks_on_every_executor(two: Workers):
    numbers, expected = range(40), [number**2 for number in range(40)]
    with ThreadPoolExecutor(3) as threads_of_here:
        for executor in (None, threads_of_here, InThisProcess(), two):
            assert list(in_order(square, numbers, executor)) == expected


def test_results_that_come_in_another_order_wait_for_their_turn():
    held = Held()
    results = in_order(square, range(4), held)
    held.answer(3, 1, 2, 0)
    assert list(results) == [0, 1, 4, 9]


def test_tasks_are_taken_a_few_at_a_time_for_each_worker():
    held, taken = Held(n_workers=2), []

    def tasks() -> Iterator[int]:
        for number in range(1000):
            taken.append(number)
            yield number

    results = in_order(square, tasks(), held)
    room = 2 * IN_FLIGHT_PER_WORKER
    assert len(taken) == len(held.calls) == room
    for number in range(100):
        held.answer(number)
        assert next(results) == number**2
        assert len(taken) == number + 1 + room


def test_without_an_executor_a_task_is_taken_when_its_result_is_asked_for():
    taken: list[int] = []
    results = in_order(square, (taken.append(number) or number for number in range(9)))
    assert (next(results), taken) == (0, [0])


def test_results_that_nobody_wants_any_more_are_cancelled():
    held = Held()
    results = in_order(square, range(4), held)
    held.answer(0)
    next(results)
    results.close()
    assert all(future.cancelled() for future, _ in held.calls[1:])


def test_what_a_task_refuses_is_refused_at_its_turn_in_the_same_words(two: Workers):
    errors = []
    for executor in (None, two):
        results = in_order(refuse, range(4), executor)
        assert [next(results), next(results)] == [0, 1]
        with pytest.raises(BadInput) as refused:
            next(results)
        errors.append((str(refused.value), refused.value.field, refused.value.remedy))
    assert errors[0] == errors[1] == ("number = 2: is two; take another", "number", "take another")


def test_workers_use_one_thread_each(two: Workers):
    assert list(in_order(threads, range(2), two)) == [(1, 1)] * 2


def test_what_was_lost_is_sent_again_and_nothing_else():
    held = Held(n_workers=1)
    results = in_order(square, range(4), held)
    held.answer(1)
    held.die(0, 2)
    held.calls[3][0].cancel()
    held.calls[3][0].set_running_or_notify_cancel()
    waiting = iter(lambda: next(results), None)
    sent = len(held.calls)
    answered = _while_answering(held, sent, lambda: next(waiting))
    assert (answered, held.n_mended, len(held.calls)) == (0, 1, sent + 3)
    assert [next(results) for _ in range(3)] == [1, 4, 9]


def _while_answering(held: Held, first: int, ask: Callable[[], Any]) -> Any:
    """Ask, and answer whatever is sent from the moment that it is sent."""
    submit = held.submit

    def submit_and_answer(*arguments: Any, **named: Any) -> Future[Any]:
        future = submit(*arguments, **named)
        held.answer(len(held.calls) - 1)
        return future

    assert len(held.calls) == first
    held.submit = submit_and_answer  # type: ignore[method-assign]
    return ask()


def test_executor_of_others_that_breaks_is_replaced_by_this_process():
    with pytest.warns(RuntimeWarning, match="Stranger lost its workers"):
        assert list(in_order(square, range(9), Stranger())) == [number**2 for number in range(9)]


def test_worker_that_is_killed_loses_nothing_and_counts_nothing_twice(tmp_path: Path):
    notes: list[str] = []
    with process_workers(2, notes.append) as workers:
        tasks = ((tmp_path, number) for number in range(20))
        assert list(in_order(square_once_dead, tasks, workers)) == [number**2 for number in range(20)]
    assert notes == ["a worker process died; what it had begun is done again"]
    begun = times_begun(tmp_path)
    assert sorted(begun) == list(range(20))
    assert begun[5] == 2


def test_task_that_always_kills_its_worker_is_given_up_in_one_line():
    notes: list[str] = []
    with process_workers(1, notes.append) as workers:
        results = in_order(kill_worker, range(3), workers)
        with pytest.raises(BadInput, match=f"died {MOST_LOSSES + 1} times") as refused:
            list(results)
    assert len(notes) == MOST_LOSSES + 1
    assert "\n" not in str(refused.value)


def test_processes_end_at_once_where_the_block_raises():
    before = set(active_children())
    with pytest.raises(KeyboardInterrupt), process_workers(1) as workers:  # noqa: PT012
        workers.submit(time.sleep, 600)
        assert set(active_children()) - before
        raise KeyboardInterrupt
    assert not set(active_children()) - before


@pytest.mark.parametrize("n_workers", [0, 1.5])
def test_number_of_processes_that_is_none_is_refused(n_workers: float):
    with pytest.raises(ValueError, match="n_workers must be whole"), process_workers(n_workers):  # type: ignore[arg-type]
        pass


def test_sweep_has_slices_to_share():
    counts: list[int] = []
    sweep_files_of = small_sweep()
    assert len(sweep_files_of.contests()) == 2
    from specbook.roofline.sweep import sweep

    sweep(sweep_files_of, counts.append)
    assert len(counts) > 10


def test_sweep_writes_the_same_bytes_with_threads_and_with_processes(tmp_path: Path, two: Workers):
    here = sweep_files(tmp_path / "here", None)
    assert sweep_files(tmp_path / "two", two) == here
    with ThreadPoolExecutor(2) as threads_of_here:
        assert sweep_files(tmp_path / "threads", threads_of_here) == here


def test_simulations_come_to_the_same_rows_on_every_executor(two: Workers):
    here = runs_of(None)
    assert here.height == 6
    with ThreadPoolExecutor(2) as threads_of_here:
        for executor in (threads_of_here, InThisProcess(), two):
            assert runs_of(executor).equals(here)


def test_sweep_writes_the_same_bytes_when_a_worker_is_killed_amid_it(tmp_path: Path):
    notes: list[str] = []
    before = set(active_children())
    counts: list[int] = []

    def kill_one(count: int) -> None:
        counts.append(count)
        if len(counts) == 3:
            victim = next(iter(set(active_children()) - before))
            victim.kill()
            victim.join()

    with process_workers(2, notes.append) as workers:
        written = sweep_files(tmp_path / "two", workers, kill_one)
    assert written == sweep_files(tmp_path / "here", None)
    assert sum(counts) == small_sweep().n_configurations
    assert len(notes) == 1


def test_sweep_command_shares_its_work_and_writes_the_same(cli, tmp_path: Path):
    for name, arguments in (("here", ()), ("two", ("--jobs", 2))):
        devices = ("--hardware", "h100-sxm5", "--hardware", "l4")
        outcome = cli("sweep", *EVIDENCE, *SMALL, *devices, "--out", tmp_path / name, *arguments)
        assert outcome.code == 0, outcome.err
    for path in (tmp_path / "here").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name


def test_simulate_command_runs_both_engines_side_by_side_and_writes_the_same(cli, save, tmp_path: Path):
    times = save("S.json", {"kind": "constant", "ms": 10})
    for name, arguments in (("here", ()), ("two", ("--jobs", 2))):
        load = ("--step-time", times, *DRAWN, *DRAFTED, "--compare", "--out", tmp_path / name)
        outcome = cli("simulate", *load, *arguments)
        assert outcome.code == 0, outcome.err
    assert json.loads((tmp_path / "two" / "summary.json").read_text())["comparison"]["viable"]
    for path in (tmp_path / "here").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("--jobs", 2), ("--jobs = 2", "add --compare")),
        (("--cluster", "tcp://127.0.0.1:1"), ("--cluster = 'tcp://127.0.0.1:1'", "add --compare")),
        (("--jobs", 2, "--compare", "--stream"), ("--jobs = 2", "streamed")),
        (("--jobs", 2, "--compare", "--cluster", "tcp://127.0.0.1:1"), ("--jobs = 2", "beside --cluster")),
        (("--jobs", 0), ("--jobs",)),
    ],
)
def test_simulate_command_refuses_to_share_what_cannot_be(cli, save, tmp_path: Path, arguments, parts):
    times = save("S.json", {"kind": "constant", "ms": 10})
    outcome = cli("simulate", "--step-time", times, *DRAWN, *DRAFTED, "--out", tmp_path / "s", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert len(outcome.err.splitlines()) == 1
    assert all(part in outcome.err for part in parts)
    assert not (tmp_path / "s").exists()


LONG = ("--batch", ",".join(map(str, range(1, 1025))), "--context", ",".join(map(str, range(100, 1100))))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_workers_end_with_the_command_and_leave_no_file(tmp_path: Path, sent: int, code: int):
    command = [sys.executable, "-c", "from specbook.cli import main; main()", "sweep", *EVIDENCE, *LONG]
    arguments = ["--assume", "truncation", "--jobs", "2", "--out", str(tmp_path / "s")]
    with subprocess.Popen([*command, *arguments], cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        workers = _until(lambda: _workers_of(process.pid), 2)
        os.kill(process.pid, sent)
        _, error = process.communicate(timeout=60)
    assert process.returncode == code
    # Python's own tracker of semaphores outlives a process that is killed, and may say that it cleaned up behind it.
    assert error == "" or (sent == signal.SIGKILL and "resource_tracker: There appear to be" in error)
    _until(lambda: [pid for pid in workers if not _is_running(pid)], 2)
    assert not (tmp_path / "s").exists()


def _until(found: Callable[[], list[int]], count: int, longest_s: float = 60.0) -> list[int]:
    end = time.monotonic() + longest_s
    while time.monotonic() < end:
        if len(numbers := found()) == count:
            return numbers
        time.sleep(0.02)
    raise AssertionError(f"waited in vain for {count}, last had {found()}")


def _workers_of(parent: int) -> list[int]:
    children = Path(f"/proc/{parent}/task/{parent}/children")
    numbers = [int(text) for text in children.read_text().split()] if children.exists() else []
    return [pid for pid in numbers if b"spawn_main" in _command(pid)]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _is_running(pid: int) -> bool:
    return b"spawn_main" in _command(pid)
