"""What a witness is asked to run: at most three configurations, and how much of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from specbook.acceptance.profile import AcceptanceProfile
from specbook.checks import BadInput, check_count
from specbook.engine.arithmetic import ARITHMETICS
from specbook.engine.draft import TreeShape
from specbook.engine.drafters.choice import NoCut, read_cut
from specbook.engine.library.drafters import draft_shape, drafter_name
from specbook.engine.sampling import SamplingConfig
from specbook.measuring.prompts import domains

MOST_CONFIGURATIONS = 3
_MOST_NEW_TOKENS = 512


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """One way to speculate, and the prompts to try it on.

    Attributes
    ----------
    name : str
        How results call it; not blank, and no other configuration's of the run.
    drafter : str
        A name or alias of :mod:`specbook.engine.library.drafters`.
    draft_length : int or None
        K of a chain, at least 1, or the depth of the tree of the drafter ``tree``. No speculation is not a
        configuration: every run decodes without it for comparison.
    parents : tuple of int or None
        A tree instead, as :class:`~specbook.engine.draft.TreeShape` takes it.
    cut : str
        Where a chain ends for lack of confidence, as :func:`~specbook.engine.drafters.choice.read_cut` takes it.
    domains : tuple of str
        Whose prompts are taken in turn, of :func:`~specbook.measuring.prompts.domains`.
    temperature : float
    acceptance : AcceptanceProfile or None
        For the forecast; None has acceptance measured beforehand, on prompts that are not in the run.

    Raises
    ------
    BadInput
        If a name is unknown or missing, both or neither of a draft length and a tree are given, or a number is out of
        range.

    Examples
    --------
    >>> Configuration(name="four", drafter="small", draft_length=4).shape.n_nodes
    4
    >>> Configuration(name="none", drafter="small", draft_length=0)
    Traceback (most recent call last):
        ...
    specbook.checks.BadInput: draft_length = 0: must be whole and at least 1; the run decodes without drafts anyway
    """

    name: str
    drafter: str
    draft_length: int | None = None
    parents: tuple[int, ...] | None = None
    cut: str = "none"
    domains: tuple[str, ...] = ("code",)
    temperature: float = 0.0
    acceptance: AcceptanceProfile | None = None

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise BadInput("is blank", field="name", value=self.name, remedy="name the configuration")
        _check_domains(self.domains)
        _checked("drafter", lambda: drafter_name(self.drafter))
        _checked("temperature", lambda: self.sampling)
        _checked("cut", lambda: read_cut(self.cut))
        self._check_drafts()

    def _check_drafts(self) -> None:
        if (self.draft_length is None) == (self.parents is None):
            problem = "neither a draft length nor a tree" if self.parents is None else "a draft length beside a tree"
            raise BadInput(problem, field="draft_length", value=self.draft_length, remedy="give one of the two")
        if self.parents is None:
            remedy = "the run decodes without drafts anyway"
            object.__setattr__(self, "draft_length", _count("draft_length", self.draft_length, remedy))
        elif not self.parents:
            raise BadInput("drafts nothing", field="parents", value=[], remedy="give at least one node")
        _checked("parents", lambda: self.shape)
        if self.is_cut and not self.shape.is_chain:
            raise BadInput("is for chains", field="cut", value=self.cut, remedy="leave it out, or draft a chain")

    @property
    def shape(self) -> TreeShape:
        """What a round may draft."""
        if self.parents is not None:
            return TreeShape(parents=self.parents)
        return draft_shape(self.drafter, self.draft_length or 0)

    @property
    def sampling(self) -> SamplingConfig:
        """How tokens are drawn."""
        return SamplingConfig(temperature=self.temperature)

    @property
    def is_cut(self) -> bool:
        """Whether rounds may draft less for lack of confidence."""
        return not isinstance(read_cut(self.cut), NoCut)


@dataclass(frozen=True, kw_only=True)
class WitnessConfig:
    """A run of a witness.

    Attributes
    ----------
    configurations : tuple of Configuration
        One to three.
    arithmetic : str
        Of the engine: ``fast`` or another of :data:`~specbook.engine.arithmetic.ARITHMETICS`.
    replication : int
        The cost dial R: how often the target's feed-forward weights are repeated. It makes a step read and compute
        more, and the model no larger in what it knows.
    new_tokens : int
        Of each request, all of which are this long: a token that would end a text does not, as in most benchmarks of
        serving engines. More than any round gives, so that rounds remain after the first.
    n_prompts : int
        Requests of a configuration, at least 2; as many probes on other prompts, where there are so many.
    seed : int
        Decides which prompts are taken, the order of the jobs, what is drawn, and all resampling.

    Raises
    ------
    BadInput
        If there are none or too many configurations, two of one name, or a number is out of range.

    Examples
    --------
    >>> four = Configuration(name="four", drafter="small", draft_length=4)
    >>> WitnessConfig(configurations=(four,)).n_prompts
    12
    """

    configurations: tuple[Configuration, ...]
    arithmetic: str = "fast"
    replication: int = 8
    new_tokens: int = 64
    n_prompts: int = 12
    seed: int = 0

    def __post_init__(self) -> None:
        _check_configurations(self.configurations)
        if self.arithmetic not in ARITHMETICS:
            remedy = f"one of {', '.join(ARITHMETICS)}"
            raise BadInput("no such arithmetic", field="arithmetic", value=self.arithmetic, remedy=remedy)
        remedy = "R = 1 is the model as it is"
        object.__setattr__(self, "replication", _count("replication", self.replication, remedy))
        object.__setattr__(self, "n_prompts", _count("n_prompts", self.n_prompts, "a P90 needs several", minimum=2))
        object.__setattr__(self, "seed", _count("seed", self.seed, "any whole number will do", minimum=0))
        self._check_new_tokens()

    def _check_new_tokens(self) -> None:
        deepest = max(each.shape.depth for each in self.configurations)
        remedy = f"more than the {deepest + 1} of one round, so that rounds follow the first"
        tokens = _count("new_tokens", self.new_tokens, remedy, minimum=deepest + 2)
        if tokens > _MOST_NEW_TOKENS:
            remedy = f"at most {_MOST_NEW_TOKENS}; more prompts say more"
            raise BadInput("are more than a witness decodes", field="new_tokens", value=tokens, remedy=remedy)
        object.__setattr__(self, "new_tokens", tokens)


def _checked(field: str, check: Callable[[], object]) -> None:
    """Run a check of the engine, and say in which field it failed."""
    try:
        check()
    except ValueError as error:
        raise BadInput(str(error), field=field, remedy="correct the configuration") from None


def _count(field: str, value: Any, remedy: str, minimum: int = 1) -> int:
    try:
        return check_count(field, value, minimum=minimum)
    except (ValueError, TypeError):
        problem = f"must be whole and at least {minimum}"
        raise BadInput(problem, field=field, value=value, remedy=remedy) from None


def _check_domains(names: tuple[str, ...]) -> None:
    if not names or len(set(names)) != len(names):
        raise BadInput("must name each domain once", field="domains", value=list(names), remedy="name at least one")
    for name in names:
        if name not in domains():
            raise BadInput("no such domain", field="domains", value=name, remedy=f"some of {', '.join(domains())}")


def _check_configurations(configurations: tuple[Configuration, ...]) -> None:
    n, names = len(configurations), [each.name for each in configurations]
    if not 1 <= n <= MOST_CONFIGURATIONS:
        remedy = "run the most promising ones; the stages before choose them"
        raise BadInput(f"must be one to {MOST_CONFIGURATIONS}", field="configurations", value=n, remedy=remedy)
    if len(set(names)) != n:
        raise BadInput("two of one name", field="configurations", value=names, remedy="give each its own")
