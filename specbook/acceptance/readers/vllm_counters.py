"""vLLM's four counters of speculation, however a file prints them: their checks, and the observation they make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from specbook.acceptance.readers.observation import Observation
from specbook.acceptance.readers.values import expect_close
from specbook.checks import BadInput

WARNINGS = (
    "vLLM may count accepted tokens behind an end-of-sequence token: the last round of an answer may read too long",
    "vLLM counts only rounds that drafted: where a drafter often finds nothing, steps are more than these rounds",
)

_VARIED = (
    "drafts varied in length, or a grammar struck tokens out, and shares are of all rounds: late positions are lower "
    "bounds"
)
# A scrape while the server counts may catch one counter a step before another.
_TORN = 0.001


@dataclass(frozen=True, kw_only=True, slots=True)
class Counters:
    """Totals of a run, and under which names they stand in the file; what is not there is None or empty.

    Attributes
    ----------
    n_rounds, n_drafted, n_accepted : int or None
        Rounds that drafted, tokens drafted, draft tokens accepted.
    by_position : sequence of float
        Rounds that accepted draft positions 1, …, i, for every position that the server may draft.
    names : sequence of str
        Names of the four in the file, for errors.
    where : str
        The file.
    """

    n_rounds: int | None
    n_drafted: int | None
    n_accepted: int | None
    by_position: Sequence[float]
    names: Sequence[str]
    where: str

    def observation(self, labels: dict[str, Any]) -> Observation:
        """The run as an observation, after all checks."""
        self._check_totals()
        self._check_positions()
        room = len(self.by_position) * (self.n_rounds or 0)
        varied = bool(room) and self.n_drafted is not None and self.n_drafted < room
        return Observation(
            is_request=False,
            labels=labels | ({"draft_length": len(self.by_position)} if room and self.n_drafted == room else {}),
            accepted_by_position=list(self.by_position) if room else None,
            n_rounds=self.n_rounds,
            n_drafted_tokens=self.n_drafted,
            n_accepted_tokens=self._accepted(),
            notes=(_VARIED,) if varied else (),
        )

    def _accepted(self) -> int | None:
        """Accepted tokens; those of all positions together, where the file has no total."""
        if self.n_accepted is None and self.by_position:
            return round(sum(self.by_position))
        return self.n_accepted

    def _check_totals(self) -> None:
        rounds, drafted, accepted = self.n_rounds, self.n_drafted, self.n_accepted
        if drafted is not None and accepted is not None and accepted > drafted:
            raise self._impossible(f"more tokens accepted than the {drafted} drafted", 2, accepted)
        if rounds == 0 and (drafted or accepted):
            raise self._impossible("tokens without a round", 0, rounds)
        room = len(self.by_position) * (rounds or 0)
        if room and drafted is not None and drafted > room:
            problem = f"{rounds} rounds of at most {len(self.by_position)} tokens cannot draft that many"
            raise self._impossible(problem, 1, drafted)

    def _check_positions(self) -> None:
        rounds, by_position = self.n_rounds, self.by_position
        if rounds is not None and by_position and by_position[0] > rounds:
            raise self._impossible(f"more than the {rounds} rounds", 3, by_position[0])
        for position, (before, after) in enumerate(pairwise(by_position), start=2):
            if after > before * (1.0 + 1e-9):
                problem = f"rises at position {position}, where it counts rounds that accepted all positions up to it"
                raise self._impossible(problem, 3, list(by_position))
        if by_position and self.n_accepted is not None:
            tolerance = _TORN if all(float(count).is_integer() for count in by_position) else 0.01
            sum_of = "the sum over positions"
            expect_close(self.n_accepted, sum(by_position), self.where, self.names[2], sum_of, tolerance=tolerance)

    def _impossible(self, problem: str, index: int, value: Any) -> BadInput:
        remedy = "export the file again, while the server is idle"
        return BadInput(problem, file=self.where, field=self.names[index], value=value, remedy=remedy)
