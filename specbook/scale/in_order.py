"""Tasks on any executor, and their results in the order of the tasks.

A task is a pure function of one picklable argument. So it does not matter where it runs, nor whether it is run again
after its worker died; what is made of the results is the same in every byte, whoever computed them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, wait
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeVar, cast

from specbook.checks import BadInput
from specbook.scale.workers import look, mended, worker_count

Task = TypeVar("Task")
Result = TypeVar("Result")

# Tasks that are sent before the first of them is back, for each worker: it must not wait for its next one.
IN_FLIGHT_PER_WORKER = 4
# A task whose worker died more often than this is what kills them. dask's own rule is the same.
MOST_LOSSES = 3
# After so long without a result the workers are looked at.
_LOOK_S = 5.0


def in_order(
    function: Callable[[Task], Result], tasks: Iterable[Task], executor: Executor | None = None
) -> Iterator[Result]:
    """Run a function on many tasks; yield the results in the order of the tasks, each once.

    Parameters
    ----------
    function : callable
        Pure, and of the top level of a module, so that another process can find it.
    tasks : iterable
        Picklable; taken as they are needed.
    executor : concurrent.futures.Executor or None
        None runs each task here when its result is asked for. With an executor the first tasks are sent at once.

    Returns
    -------
    iterator
        Results. At most ``IN_FLIGHT_PER_WORKER`` tasks for each worker are sent or waiting to be yielded, so that
        memory does not grow with their number.

    Raises
    ------
    BadInput
        What a task refuses, when its turn comes; or a task that killed its worker four times.

    Notes
    -----
    Work that is lost with a worker is done again: by the cluster itself, by new
    processes in the place of a broken pool, or in this process for an executor that nobody can mend.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> with ThreadPoolExecutor(2) as executor:
    ...     list(in_order(abs, [-3, 2, -1], executor))
    [3, 2, 1]
    """
    if executor is None:
        return map(function, tasks)
    window = _Window(function, iter(tasks), executor)
    window.fill()
    return window.results()


@dataclass(frozen=True, kw_only=True)
class _Answer(Generic[Result]):
    """What a task came to. Bad input is carried as its parts, since an exception of keywords cannot be pickled."""

    result: Result | None = None
    refusal: dict[str, Any] | None = None

    def taken(self) -> Result:
        if self.refusal is not None:
            raise BadInput(**self.refusal)
        return cast("Result", self.result)


def _answer(function: Callable[[Task], Result], task: Task) -> _Answer[Result]:
    try:
        return _Answer(result=function(task))
    except BadInput as error:
        names = ("problem", "remedy", "file", "field", "value")
        return _Answer(refusal={name: getattr(error, name) for name in names})


@dataclass(kw_only=True)
class _Sent(Generic[Task, Result]):
    """A task on its way; the one future that it has at a time is what counts."""

    task: Task
    future: Future[_Answer[Result]]
    n_losses: int = 0

    @property
    def is_answered(self) -> bool:
        if not self.future.done() or self.future.cancelled():
            return False
        return not isinstance(self.future.exception(), BrokenExecutor)


class _Window(Generic[Task, Result]):
    """The tasks that are sent and not yet yielded, first one first."""

    def __init__(self, function: Callable[[Task], Result], tasks: Iterator[Task], executor: Executor) -> None:
        self._function, self._tasks, self._executor = function, tasks, executor
        self._sent: deque[_Sent[Task, Result]] = deque()

    def fill(self) -> None:
        room = IN_FLIGHT_PER_WORKER * worker_count(self._executor)
        for task in islice(self._tasks, max(0, room - len(self._sent))):
            self._sent.append(_Sent(task=task, future=self._submit(task)))

    def results(self) -> Iterator[Result]:
        try:
            while self._sent:
                answer = self._first()
                self.fill()  # before the result is used, so that no worker waits for that
                yield answer.taken()
        finally:
            for sent in self._sent:
                sent.future.cancel()

    def _submit(self, task: Task) -> Future[_Answer[Result]]:
        try:
            return self._executor.submit(_answer, self._function, task)
        except BrokenExecutor:
            self._send_again()
            return self._executor.submit(_answer, self._function, task)

    def _first(self) -> _Answer[Result]:
        first = self._sent[0]
        while True:
            if not wait([first.future], timeout=_LOOK_S).done:
                look(self._executor)
            elif first.is_answered:
                self._sent.popleft()
                return first.future.result()
            else:
                self._send_again()

    def _send_again(self) -> None:
        """Mend the executor, and give it what has no answer."""
        self._executor = mended(self._executor)
        for sent in self._sent:
            if not sent.is_answered:
                sent.n_losses += 1
                _check_losses(sent.n_losses)
                sent.future = self._submit(sent.task)


def _check_losses(n_losses: int) -> None:
    if n_losses > MOST_LOSSES:
        problem = f"a task's worker died {n_losses} times, for want of memory as a rule"
        raise BadInput(problem, field="workers", remedy="take fewer of them, or give them more memory")
