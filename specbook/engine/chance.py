"""Every random decision of decoding goes through one small interface, so that it can be drawn, or enumerated.

Decoding makes two kinds of decision: it draws a token from a distribution, and it accepts with a probability. With
:class:`Dice` they fall by a generator. With :func:`outcomes` every course that they can take is run, with its
probability: the exact law of whatever the code does, not of what it was meant to do.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Outcome = TypeVar("Outcome", bound=Hashable)


class Chance(Protocol):
    """Decides."""

    def draw(self, probabilities: NDArray[np.float64]) -> int:
        """An index of a distribution, (n,); never one of probability 0."""

    def accepts(self, probability: float) -> bool:
        """Whether something of this probability happens."""


@dataclass(frozen=True, slots=True)
class Dice:
    """Decides by a random generator.

    Examples
    --------
    >>> Dice(np.random.default_rng(0)).draw(np.array([0.0, 1.0]))
    1
    """

    rng: np.random.Generator

    def draw(self, probabilities: NDArray[np.float64]) -> int:
        """Invert the distribution function."""
        cumulative = np.cumsum(probabilities)
        index = int(np.searchsorted(cumulative, self.rng.random() * cumulative[-1], side="right"))
        return min(index, int(np.flatnonzero(probabilities)[-1]))

    def accepts(self, probability: float) -> bool:
        """Compare with a uniform number in [0, 1)."""
        return bool(self.rng.random() < probability)


@dataclass(slots=True)
class _Script:
    """Follows a list of choices, then takes the first possible one, and remembers where others were possible."""

    choices: list[int]
    probability: float = 1.0
    alternatives: list[list[int]] = field(default_factory=list)

    def _decide(self, probabilities: NDArray[np.float64]) -> int:
        possible = [int(index) for index in np.flatnonzero(probabilities)]
        depth = len(self.alternatives)
        if depth == len(self.choices):
            self.choices.append(possible[0])
        self.alternatives.append(possible)
        self.probability *= float(probabilities[self.choices[depth]])
        return self.choices[depth]

    def draw(self, probabilities: NDArray[np.float64]) -> int:
        return self._decide(probabilities)

    def accepts(self, probability: float) -> bool:
        return self._decide(np.array([1.0 - probability, probability])) == 1

    def following(self) -> list[int] | None:
        """The next course in order: change the last decision that has a further choice; None after the last course."""
        for depth in range(len(self.alternatives) - 1, -1, -1):
            later = [choice for choice in self.alternatives[depth] if choice > self.choices[depth]]
            if later:
                return [*self.choices[:depth], later[0]]
        return None


def outcomes(run: Callable[[Chance], Outcome]) -> dict[Outcome, float]:
    """The exact law of what ``run`` returns, from running every course of its decisions.

    Parameters
    ----------
    run : callable
        Takes a :class:`Chance`, decides by nothing else, and returns something hashable.

    Returns
    -------
    dict
        Outcome → probability; they sum to 1 up to rounding.

    Examples
    --------
    >>> outcomes(lambda chance: chance.accepts(0.25) and chance.accepts(0.5))
    {False: 0.875, True: 0.125}
    """
    law: dict[Any, float] = {}
    choices: list[int] | None = []
    while choices is not None:
        script = _Script(choices)
        outcome = run(script)
        law[outcome] = law.get(outcome, 0.0) + script.probability
        choices = script.following()
    return law
