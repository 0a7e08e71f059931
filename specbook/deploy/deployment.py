"""What an engine's module is given, and what it gives back."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from specbook.checks import BadInput
from specbook.deploy.rates import AcceptanceRates
from specbook.deploy.schedule import BatchRange

FileFormat = Literal["json", "yaml", "shell"]

# Methods of acceptance files that name one and the same thing for an engine.
_SAME_METHOD = {"eagle2": "eagle", "prompt_lookup": "ngram", "lookup": "ngram"}
# What every rehearsal must say, and what those that force a mean must say too.
REHEARSAL = "rehearsal: drafts are accepted by chance, so the text is not the model's; never serve it"
FORCED_MEAN = "rounds accept almost the same number each, so bursts vary less than they will"
# Methods whose drafter is a file of its own.
_OWN_WEIGHTS = ("draft_model", "eagle", "eagle3", "medusa")


@dataclass(frozen=True, kw_only=True)
class ContextSchedule:
    """A schedule for all contexts from ``first_context`` on, up to the next one."""

    first_context: int
    ranges: tuple[BatchRange, ...]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is to be deployed, in no engine's words.

    Attributes
    ----------
    target : str
        Name or path, as the engine will be given it.
    drafter : str or None
        The same; None where nobody named it.
    method : str
        As the acceptance evidence names it.
    schedules : tuple of ContextSchedule
        One, or one for each context.
    rates : AcceptanceRates or None
        At the largest draft length; None where nothing is drafted.
    batch : int or None
        Where one length for one batch was asked for: that batch.
    """

    target: str
    drafter: str | None
    method: str
    schedules: tuple[ContextSchedule, ...]
    rates: AcceptanceRates | None
    batch: int | None = None

    @property
    def ranges(self) -> tuple[BatchRange, ...]:
        """The ranges of the only schedule, or of the first context's."""
        return self.schedules[0].ranges

    @property
    def draft_lengths(self) -> tuple[int, ...]:
        """All lengths in use, rising."""
        return tuple(sorted({each.draft_length for place in self.schedules for each in place.ranges}))

    @property
    def longest(self) -> int:
        """The largest draft length; 0 if speculation is not worth it anywhere."""
        return self.draft_lengths[-1]

    @property
    def engine_method(self) -> str:
        """The method under its most usual name: ``eagle2`` is served as ``eagle``, a look-up as ``ngram``."""
        return _SAME_METHOD.get(self.method, self.method)


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """One engine's configuration.

    Attributes
    ----------
    engine : str
    command : str
        One line to copy.
    payload : mapping of str to object or None
        The configuration as data; None where the command line says it all.
    file_text : str
        What a file for the engine holds: nothing that its parser would not take.
    file_format : "json", "yaml" or "shell"
        ``yaml`` and ``shell`` take comments.
    schema_sources : tuple of str
        Where the names of fields and flags were looked up: repository, file, commit.
    notes : tuple of str
        What the engine does with it that the projection does not know.
    config_file : str or None
        The file that the command line names, which must hold ``file_text``; None if it names none.
    """

    engine: str
    command: str
    payload: Mapping[str, Any] | None
    file_text: str
    file_format: FileFormat
    schema_sources: tuple[str, ...]
    notes: tuple[str, ...] = ()
    config_file: str | None = None

    @property
    def is_rehearsal(self) -> bool:
        """Whether drafts are accepted by chance."""
        return REHEARSAL in self.notes


def command_line(words: Sequence[object]) -> str:
    """Words as one line that a POSIX shell takes apart again.

    Examples
    --------
    >>> print(command_line(["vllm", "serve", "my model"]))
    vllm serve 'my model'
    """
    return shlex.join([str(word) for word in words])


def shell_deployment(
    engine: str, words: Sequence[object], schema_sources: tuple[str, ...], notes: tuple[str, ...] = ()
) -> Deployment:
    """A configuration of which the command line says everything.

    Examples
    --------
    >>> print(shell_deployment("e", ["serve", "my model"], ()).command)
    serve 'my model'
    """
    command = command_line(words)
    return Deployment(
        engine=engine,
        command=command,
        payload=None,
        file_text=f"{command}\n",
        file_format="shell",
        schema_sources=schema_sources,
        notes=notes,
    )


def compact_json(payload: Mapping[str, Any]) -> str:
    """JSON on one line."""
    return json.dumps(payload, allow_nan=False)


def engine_word(engine: str, plan: Plan, words: Mapping[str, str]) -> str:
    """The engine's name of the plan's method.

    Raises
    ------
    BadInput
        If the engine has none, or it was not verified.

    Examples
    --------
    >>> plan = Plan(target="t", drafter="d", method="eagle2", schedules=(), rates=None)
    >>> engine_word("vllm", plan, {"eagle": "eagle"})
    'eagle'
    """
    if plan.engine_method not in words:
        remedy = f"it serves {', '.join(sorted(words))}; choose another --engine or --method"
        raise BadInput(f"{engine} cannot be told this method", field="method", value=plan.method, remedy=remedy)
    return words[plan.engine_method]


def drafter_weights(plan: Plan) -> str | None:
    """The drafter, if its weights are a file of their own.

    Raises
    ------
    BadInput
        If they are, and nobody named it.

    Examples
    --------
    >>> plan = Plan(target="t", drafter="d", method="eagle2", schedules=(), rates=None)
    >>> drafter_weights(plan)
    'd'
    """
    if plan.engine_method not in _OWN_WEIGHTS:
        return None
    if plan.drafter is None:
        remedy = "give its path or hub name with --draft"
        raise BadInput(f"the evidence does not name the drafter, and {plan.method} has one", remedy=remedy)
    return plan.drafter


def with_environment(made: Deployment, variables: Mapping[str, object], notes: Sequence[str]) -> Deployment:
    """The same command line under environment variables, with notes before its own.

    Examples
    --------
    >>> made = Deployment(engine="e", command="serve t", payload=None, file_text="serve t", file_format="shell",
    ...     schema_sources=())
    >>> print(with_environment(made, {"LENGTH": 2.2}, ()).file_text)
    env LENGTH=2.2 serve t
    """
    command = f"env {command_line([f'{name}={value}' for name, value in variables.items()])} {made.command}"
    text = made.file_text.replace(made.command, command)
    return replace(made, command=command, file_text=text, notes=(*notes, *made.notes))


def only_length(engine: str, plan: Plan) -> int:
    """The draft length of a plan for an engine that takes one.

    Raises
    ------
    BadInput
        If the schedule has several lengths, so that somebody must say for which batch.
    """
    if len(plan.draft_lengths) > 1:
        lengths = ", ".join(f"{each.draft_length} from batch {each.first_batch}" for each in plan.ranges)
        remedy = "say for how many requests at once with --batch"
        raise BadInput(f"{engine} takes one draft length, and the best are {lengths}", remedy=remedy)
    return plan.longest


def known_rates(plan: Plan) -> AcceptanceRates:
    """The acceptance of a plan that drafts."""
    if plan.rates is None:
        raise ValueError("rates must be known where something is drafted")
    return plan.rates
