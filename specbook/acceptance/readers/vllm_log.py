"""The "SpecDecoding metrics" lines that a vLLM server logs every few seconds, each about one window of time.

A window holds tokens, a mean length and shares of rounds that accepted positions 1, …, i, but no rounds. Where every
round drafts as many tokens as there are positions, rounds are drafted tokens ÷ positions and the printed lengths
agree; where they do not, the windows are weighted by accepted tokens ÷ (length − 1). Three generations of the line
are read; the second left the bonus token out at first (vllm17908), and only the shares tell.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np

from specbook.acceptance.readers import vllm_counters
from specbook.acceptance.readers.observation import INFERRED, Observation
from specbook.acceptance.readers.values import LONGEST_DRAFT
from specbook.checks import BadInput, Floats

NAME = "vllm-log"
WARNINGS = vllm_counters.WARNINGS
CUMULATIVE = False

_MARK = "SpecDecoding metrics: "
_CLOCK = re.compile(r"\d\d:\d\d:\d\d")
_MOST_LINES = 1_000_000
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_NUMBER = r"(?:\d{1,15}(?:\.\d{1,6})?|nan|inf)"
_FIELD = re.compile(
    rf"(?P<name>Mean acceptance length|Accepted|Drafted|Per-position acceptance rate|(?:Avg )?Draft acceptance rate): "
    rf"(?P<value>{_NUMBER}(?:, {_NUMBER})*)(?P<unit> tokens|%)?"
)
_UNITS = {"Accepted": " tokens", "Drafted": " tokens", "Draft acceptance rate": "%"}
_LENGTH, _SHARES, _PERCENT = "Mean acceptance length", "Per-position acceptance rate", "Draft acceptance rate"

# Half a unit of the last digit printed, and a little for the float.
_LENGTH_STEP, _SHARE_STEP, _PERCENT_STEP = 0.00501, 0.000501, 0.0501

_ROUNDED = "the log prints shares with three digits: positions are good to about 0.0005"
_FEW_SHORTER = f"{INFERRED}: a few drafts were shorter, and rounds follow from printed lengths to within one percent"
_VARIED = "drafts varied in length: windows are weighted by accepted tokens / (printed length − 1), without positions"
_NO_BONUS = "printed lengths leave out the bonus token, as vLLM did until May 2025; it is added"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Window:
    """One line; ``length`` counts the bonus token and is None where the line has none."""

    accepted: int
    drafted: int
    percent: float
    length: float | None
    shares: tuple[float, ...]
    bonus_added: bool = False


def recognises_line(line: str) -> bool:
    """Whether the line is a complete window."""
    return _MARK in line and _parsed(line) is not None


def read_lines(lines: Iterable[str], where: str) -> Iterator[Observation]:
    """Yield the windows pooled, apart for each number of positions."""
    tallies: dict[int, _Tally] = {}
    known: set[bytes] = set()
    n_unread = n_twice = 0
    for number, line in enumerate(lines, start=1):
        if _MARK not in line:
            continue
        if _stands_twice(line, known):
            n_twice += 1
            continue
        window = _parsed(line)
        if window is None:
            n_unread += 1
            continue
        _check(window, f"{where} line {number}")
        tallies.setdefault(len(window.shares), _Tally(len(window.shares))).add(window)
    notes: tuple[str, ...] = (
        (f"lines of metrics that break off or are garbled were left out: {n_unread}",) if n_unread else ()
    )
    notes += (f"lines of metrics that stand twice were counted once: {n_twice}",) if n_twice else ()
    for seen in [tally.observation() for tally in tallies.values() if tally.drafted] or [Observation(by_accepted=[])]:
        yield replace(seen, is_request=False, notes=(*seen.notes, *notes))


def _stands_twice(line: str, known: set[bytes]) -> bool:
    """Whether a line with a clock time was there before, as when a log was joined to itself; kept up to a bound."""
    if _CLOCK.search(line) is None:
        return False
    digest = blake2b(line.strip().encode(errors="replace"), digest_size=8).digest()
    if digest in known:
        return True
    if len(known) < _MOST_LINES:
        known.add(digest)
    return False


def _parsed(line: str) -> _Window | None:
    """The window, or None if the line breaks off."""
    line = _COLOUR.sub("", line)
    if line.count(_MARK) != 1:  # two processes wrote over each other
        return None
    found: dict[str, str] = {}
    for match in _FIELD.finditer(line, line.find(_MARK)):
        name = match["name"].removeprefix("Avg ")
        if match["unit"] == _UNITS.get(name):
            found.setdefault(name, match["value"])
    if not {"Accepted", "Drafted", _PERCENT} <= found.keys() or (_LENGTH in found) != (_SHARES in found):
        return None
    try:
        window = _Window(
            accepted=int(found["Accepted"]),
            drafted=int(found["Drafted"]),
            percent=float(found[_PERCENT]),
            length=float(found[_LENGTH]) if _LENGTH in found else None,
            shares=tuple(float(share) for share in found.get(_SHARES, "").split(", ") if share),
        )
    except ValueError:
        return None
    return _with_bonus(window, shares_last=list(found)[-1] == _SHARES)


def _with_bonus(window: _Window, *, shares_last: bool) -> _Window | None:
    """The window with the bonus token in its length; None if the shares stand last in the line and are cut."""
    if window.length is None or not window.drafted:
        return window
    tolerance = _LENGTH_STEP + _SHARE_STEP * len(window.shares)
    if shares_last and abs(window.length - sum(window.shares)) <= tolerance:
        return replace(window, length=window.length + 1.0, bonus_added=True)
    agrees = abs(window.length - 1.0 - sum(window.shares)) <= tolerance
    return window if agrees or not shares_last else None


def _check(window: _Window, where: str) -> None:
    """Raise if the figures of a line contradict each other."""

    def impossible(problem: str, name: str, value: Any) -> BadInput:
        return BadInput(problem, file=where, field=name, value=value, remedy="take the line from the log as it was")

    accepted, drafted, shares = window.accepted, window.drafted, window.shares
    if accepted > drafted:
        raise impossible(f"more tokens accepted than the {drafted} drafted", "Accepted", accepted)
    if len(shares) > LONGEST_DRAFT:
        raise impossible(f"more than {LONGEST_DRAFT} positions", _SHARES, len(shares))
    if not drafted:
        return
    if not abs(window.percent - 100.0 * accepted / drafted) <= _PERCENT_STEP:
        raise impossible(
            f"is not accepted / drafted = {100.0 * accepted / drafted:.1f} percent", _PERCENT, window.percent
        )
    if window.length is None:
        return
    if not math.isfinite(window.length) or not all(share <= 1.0 for share in shares):
        raise impossible("must be fractions of the rounds", _SHARES, list(shares))
    if any(after > before + 2 * _SHARE_STEP for before, after in pairwise(shares)):
        raise impossible("rises, where each is the share of rounds that accepted all up to it", _SHARES, list(shares))
    if abs(window.length - 1.0 - sum(shares)) > _LENGTH_STEP + _SHARE_STEP * len(shares):
        raise impossible(f"is not 1 + the sum of the shares = {1.0 + sum(shares):.2f}", _LENGTH, window.length)
    if 1.0 + accepted * len(shares) / drafted < window.length - _LENGTH_STEP:
        raise impossible(f"rounds of at most {len(shares)} tokens cannot draft that many", "Drafted", drafted)


@dataclass
class _Tally:
    """Sums over the windows of one number of positions; rounds as if each had drafted them all."""

    n_positions: int
    drafted: int = 0
    accepted: int = 0
    is_whole: bool = True
    bonus_added: bool = False
    accepted_if_alike: float = 0.0
    weight: float = 0.0
    tokens: float = 0.0
    by_position: Floats = field(default_factory=lambda: np.zeros(0))

    def add(self, window: _Window) -> None:
        self.drafted += window.drafted
        self.accepted += window.accepted
        if window.length is None or not window.drafted:
            return
        rounds = window.drafted / self.n_positions
        more = window.length - 1.0
        self.is_whole &= window.drafted % self.n_positions == 0
        self.bonus_added |= window.bonus_added
        self.accepted_if_alike += rounds * more
        self.by_position = np.asarray(window.shares) * rounds + (self.by_position if self.by_position.size else 0.0)
        weight = max(rounds, window.accepted / more if more > _LENGTH_STEP else 0.0)
        self.weight += weight
        self.tokens += weight * window.length

    def observation(self) -> Observation:
        """All windows together: with rounds and positions if drafts were alike, else with a length."""
        totals = Observation(n_drafted_tokens=self.drafted, n_accepted_tokens=self.accepted)
        if not self.n_positions:
            return totals
        notes = (_NO_BONUS,) if self.bonus_added else ()
        if not self._is_alike():
            length = self.tokens / self.weight
            return replace(totals, mean_acceptance_length=length, weight=self.weight, notes=(*notes, _VARIED))
        return replace(
            totals,
            labels={"draft_length": self.n_positions},
            n_rounds=-(-self.drafted // self.n_positions),
            accepted_by_position=self.by_position.tolist(),
            notes=(*notes, _ROUNDED, *(() if self.is_whole else (_FEW_SHORTER,))),
        )

    def _is_alike(self) -> bool:
        """Whether printed lengths agree with rounds that all drafted every position, to their rounding."""
        rounds = self.drafted / self.n_positions
        return 0 < self.accepted <= self.accepted_if_alike + _LENGTH_STEP * rounds
