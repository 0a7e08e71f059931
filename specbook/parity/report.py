"""What a gate found: counts of what was compared, figures, and the first failure in full."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

GateName = Literal["greedy", "distribution", "rollback", "tree-mask"]
GATE_NAMES: tuple[GateName, ...] = ("greedy", "distribution", "rollback", "tree-mask")

Facts = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class GateResult:
    """The outcome of one gate in one arithmetic.

    Attributes
    ----------
    gate : str
        ``greedy``, ``distribution``, ``rollback`` or ``tree-mask``.
    arithmetic : str
    passed : bool
    counts : mapping of str to int
        How much was compared, and how much of it was unequal.
    findings : mapping of str to JSON values
        Figures: largest differences, p-values, divergences.
    first_failure : mapping of str to JSON values, or None
        ``what`` in words, then where: drafter, prompt, position, tokens, logits.
    seconds : float
    """

    gate: GateName
    arithmetic: str
    passed: bool
    counts: Mapping[str, int]
    findings: Facts = field(default_factory=dict)
    first_failure: Facts | None = None
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if self.passed != (self.first_failure is None):
            raise ValueError(f"first_failure must be given if and only if a gate failed; got {self.first_failure}")

    def to_json(self) -> dict[str, Any]:
        """Only what JSON knows.

        Examples
        --------
        >>> result = GateResult(gate="greedy", arithmetic="exact", passed=True, counts={"tokens": 64})
        >>> result.to_json()["counts"]
        {'tokens': 64}
        """
        return {name: _plain(value) for name, value in asdict(self).items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class ParityReport:
    """All gates that ran, and on what.

    Attributes
    ----------
    results : tuple of GateResult
    drafters : tuple of str
    n_tokens, seed : int
        As asked for.
    blas : mapping of str to str or int
        Library, version, kernel family and threads: bits of float32 logits depend on them.
    weights : mapping of str to str
        SHA-256 of each file.
    """

    results: tuple[GateResult, ...]
    drafters: tuple[str, ...]
    n_tokens: int
    seed: int
    blas: Mapping[str, str | int]
    weights: Mapping[str, str]

    @property
    def passed(self) -> bool:
        """Whether every gate passed."""
        return all(result.passed for result in self.results)

    def to_json(self) -> dict[str, Any]:
        """Only what JSON knows."""
        return {
            "passed": self.passed,
            "tokens": self.n_tokens,
            "seed": self.seed,
            "drafters": list(self.drafters),
            "blas": dict(self.blas),
            "weights": dict(self.weights),
            "gates": [result.to_json() for result in self.results],
        }


def _plain(value: Any) -> Any:
    """The same with null for what JSON has no number for."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def failure(what: str, **where: Any) -> dict[str, Any]:
    """A failure in words, and where it was seen."""
    return {"what": what, **where}
