"""The gate of the serving stage: what a configuration has to keep under load, and why one is dropped."""

from __future__ import annotations

from dataclasses import dataclass

from specbook.serving.percentiles import LatencySummary
from specbook.serving.slo import Slo
from specbook.serving.summary import ServingSummary

# A tail that is longer than without speculation by less than this does not count as worse.
_NOTICEABLE = 0.02
# Latencies that reach this are said in seconds.
_LONG_S = 10.0
_TEXTS = {"ttft_s": "TTFT", "tpot_s": "TPOT", "e2e_s": "time of a request", "wait_s": "waiting"}


@dataclass(frozen=True, kw_only=True)
class GateVerdict:
    """Whether a configuration stays, and what speaks against it.

    Attributes
    ----------
    reasons : tuple of str
        Empty if it stays.
    """

    reasons: tuple[str, ...]

    @property
    def stays(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.reasons


def judge(candidate: ServingSummary, baseline: ServingSummary | None, slo: Slo) -> GateVerdict:
    """Drop what is unstable, misses an objective, or has a longer tail than no speculation under the same load.

    Waiting is part of the time to the first token and of the whole request: where one of the two has an objective, that
    decides; otherwise a longer tail of waiting counts.

    Parameters
    ----------
    candidate : ServingSummary
    baseline : ServingSummary or None
        The same engine and load without speculation; None for the baseline itself.
    slo : Slo
        Its percentile is the tail that is compared, of TPOT and of waiting.

    Examples
    --------
    >>> from specbook.serving.compare import example_summaries
    >>> plain, drafting = example_summaries()
    >>> judge(drafting, plain, Slo(tpot_s=0.5)).stays
    True
    >>> judge(plain, None, Slo(tpot_s=0.005)).reasons
    ('p90 TPOT 10.0 ms > 5 ms',)
    """
    reasons = _instability(candidate) + _missed(candidate, slo)
    if baseline is not None and baseline.stable:
        reasons += _worse(candidate, baseline, slo)
    return GateVerdict(reasons=tuple(reasons))


def _instability(candidate: ServingSummary) -> list[str]:
    if candidate.stable:
        return []
    waiting = f", {candidate.n_unfinished:,} requests unfinished" if candidate.n_unfinished else ""
    return [f"unstable: the load is above what it can serve{waiting}"]


def _missed(candidate: ServingSummary, slo: Slo) -> list[str]:
    found = []
    for name, limit in slo.limits.items():
        reached = tail(getattr(candidate, name), slo.percentile)
        if reached is not None and reached > limit:
            found.append(f"p{slo.percentile} {_TEXTS[name]} {_text(reached)} > {_limit_text(limit)}")
    return found


def _worse(candidate: ServingSummary, baseline: ServingSummary, slo: Slo) -> list[str]:
    """Longer tails than without speculation: of TPOT by a share, of waiting by a share of the whole request's time."""
    found, percentile = [], slo.percentile
    waiting_is_covered = slo.ttft_s is not None or slo.e2e_s is not None
    for name in ("tpot_s",) if waiting_is_covered else ("tpot_s", "wait_s"):
        mine, other = tail(getattr(candidate, name), percentile), tail(getattr(baseline, name), percentile)
        if mine is None or other is None:
            continue
        whole = other if name == "tpot_s" else max(other, tail(baseline.e2e_s, percentile) or 0.0)
        if mine - other > _NOTICEABLE * whole:
            found.append(f"p{percentile} {_TEXTS[name]} {_text(mine)}, without speculation {_text(other)}")
    return found


def _text(seconds: float) -> str:
    return f"{seconds:,.1f} s" if seconds >= _LONG_S else f"{1e3 * seconds:.1f} ms"


def _limit_text(seconds: float) -> str:
    return f"{seconds:g} s" if seconds >= _LONG_S else f"{1e3 * seconds:g} ms"


def tail(latency: LatencySummary, percentile: int) -> float | None:
    """One of the percentiles that are reported, in seconds."""
    return {50: latency.p50, 90: latency.p90, 99: latency.p99}[percentile]
