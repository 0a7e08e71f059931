"""The verdict on a configuration, from the error of the replay, the machine and the tokens."""

from __future__ import annotations

from typing import Protocol

from specbook.witness.result import GATE, Control, Parity, Verdict


class Judged(Protocol):
    """A prediction beside the clock: a :class:`~specbook.witness.replay.Replay`, or what a receipt keeps of one."""

    @property
    def error(self) -> float:
        """Predicted ÷ measured − 1 of the P90 TPOT."""

    @property
    def error_low(self) -> float:
        """Lower end of its 95 % interval."""

    @property
    def error_high(self) -> float:
        """Upper end of it."""


def judge_replay(replay: Judged, control: Control, parity: Parity) -> tuple[Verdict, tuple[str, ...]]:
    """Pass, fail, or say that nobody can tell; and why.

    Parameters
    ----------
    replay : Judged
    control : Control
    parity : Parity

    Returns
    -------
    verdict : str
    reasons : tuple of str
        At least one.

    Notes
    -----
    The first of these that applies:

    1. ``fail`` if a greedy token differs: no noise does that.
    2. ``inconclusive`` if the machine was not quiet.
    3. ``pass`` if the error of the P90 TPOT lies within the gate of 8 %.
    4. ``fail`` if the whole 95 % interval of the error lies outside the gate.
    5. ``inconclusive`` otherwise: the error is outside, and more requests could show it inside.

    An error inside the gate passes with an interval that reaches beyond it. The interval is that of few requests, and
    wide for them; it says how much more could be learnt, which is no reason to refuse what agrees.
    """
    if not parity.is_equal:
        return "fail", (f"greedy tokens differ: {parity.first_difference}",)
    if not control.is_quiet:
        return "inconclusive", control.reasons
    told = f"replayed P90 TPOT is off by {error_text(replay.error, replay.error_low, replay.error_high)}"
    if abs(replay.error) <= GATE:
        return "pass", (f"{told}, within {GATE:.0%}",)
    if replay.error_low > GATE or replay.error_high < -GATE:
        return "fail", (f"{told}, all of it beyond {GATE:.0%}",)
    return "inconclusive", (f"{told}, which is beyond {GATE:.0%} and may be within: run more prompts",)


def error_text(error: float, low: float, high: float) -> str:
    """An error and its interval in percent.

    Examples
    --------
    >>> error_text(0.0123, -0.004, 0.031)
    '+1.2 % [-0.4, +3.1]'
    """
    return f"{1e2 * error:+.1f} % [{1e2 * low:+.1f}, {1e2 * high:+.1f}]"
