"""What the measured run without speculation is worth: other uses of it, and none, each with constants fitted anew.

The shipped model takes two things from that run: the time that a step takes beyond the modelled one, which a verify
pass has as well, and, from other workloads of the same server, how much of a token's time is no decoding at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import polars as pl

from specbook.checks import Floats
from specbook.validation.constants import EVERY_CONSTANT
from specbook.validation.device_counts import possible_counts
from specbook.validation.passes import Passes, passes_of
from specbook.validation.published_errors import KNOWN, LEFT_OUT, Comparable, LeftOut, comparable
from specbook.validation.refitted import left_out_speedups
from specbook.validation.rounds import Model, modelled_speedups
from specbook.validation.scores import GATE

_ENGINE = "sglang"
# Nobody can tell what is outside decoding from speedups alone.
_NOTHING_OUTSIDE: Mapping[str, float] = {"outside_share": 0.0}


@dataclass(frozen=True, kw_only=True)
class BaselineUse:
    """One way to use the run without speculation.

    Attributes
    ----------
    use : str
    measured : str
        What has to be measured for it.
    passes : callable
        From the comparable rows to passes and baselines as this use has them.
    model : callable
        From these and constants to speedups.
    known : mapping of str to float
        Constants that are not fitted, beside those of the engine.
    told : (4,) tuple of bool or None
        As of :func:`~specbook.validation.constants.fit_constants`.
    """

    use: str
    measured: str
    passes: Callable[[Comparable], Passes] = lambda rows: rows.passes
    model: Model = modelled_speedups
    known: Mapping[str, float] = field(default_factory=dict)
    told: tuple[bool, ...] | None = None

    def speedups(self, rows: Comparable, left_out: LeftOut) -> Floats:
        """Of each row, by constants that never saw its series, or its target, (n,)."""
        known = {**KNOWN[_ENGINE], **self.known}
        groups = rows.groups(left_out)
        return left_out_speedups(self.passes(rows), rows.speedups, groups, known, model=self.model, told=self.told)


def baseline_uses() -> tuple[BaselineUse, ...]:
    """Ways to use the run without speculation, the shipped one first and that which needs no run last.

    Examples
    --------
    >>> baseline_uses()[0].use, baseline_uses()[-1].measured
    ('as shipped', 'nothing')
    """
    server, own, count = "the server, several workloads", "the same workload", "the number of devices"
    return (
        BaselineUse(use="as shipped", measured=server),
        BaselineUse(use="of the same workload alone", measured=own, passes=own_baseline, told=EVERY_CONSTANT),
        BaselineUse(use="for the step, not for the verify pass", measured=server, model=unscaled_speedups),
        BaselineUse(use="as a factor of the verify pass", measured=server, passes=scaled_passes),
        BaselineUse(use="for the number of devices alone", measured=count, passes=no_baseline, known=_NOTHING_OUTSIDE),
        BaselineUse(
            use="none, fewest devices that hold it", measured="nothing", passes=_nothing_known, known=_NOTHING_OUTSIDE
        ),
    )


def own_baseline(rows: Comparable) -> Passes:
    """Passes for which no other workload of the server was measured."""
    return replace(rows.passes, fastest_tpot_s=rows.passes.baseline_tpot_s)


def scaled_passes(rows: Comparable) -> Passes:
    """Verify passes longer by the factor by which the measured step is longer than the modelled one."""
    longer = np.maximum(rows.passes.fastest_tpot_s / rows.passes.step_s, 1.0)
    return replace(rows.passes, step_s=rows.passes.step_s * longer, verify_s=rows.passes.verify_s * longer)


def no_baseline(rows: Comparable) -> Passes:
    """Passes of rows that were never measured without speculation; the number of devices stays."""
    return _unmeasured(rows.passes)


def _nothing_known(rows: Comparable) -> Passes:
    """As before a device is rented: the fewest that hold the weights."""
    found = [
        replace(each, n_devices=possible_counts(each)[0]) if each.devices_from == "inferred" else each
        for each in rows.found
    ]
    return _unmeasured(passes_of(found))


def _unmeasured(passes: Passes) -> Passes:
    nothing = np.full(passes.step_s.size, np.nan)
    return replace(passes, baseline_tpot_s=nothing, fastest_tpot_s=nothing)


def unscaled_speedups(passes: Passes, constants: Floats) -> Floats:
    r"""The measured step in the numerator, the verify pass as modelled.

    Parameters
    ----------
    passes : Passes
        Of n settings, each with a measured baseline.
    constants : (4,) ndarray of float64, or (n, 4)

    Returns
    -------
    (n,) ndarray of float64

    Notes
    -----
    .. math:: S = \frac{T_b}{\frac{1}{E}\left(T_v + T_d + d\,\delta + h\right) + x}

    with the time x outside decoding of :mod:`specbook.validation.rounds`.

    Examples
    --------
    >>> from specbook.validation.settings import example_setting
    >>> print(unscaled_speedups(passes_of([example_setting()]), np.zeros(4)).round(2))
    [2.79]
    """
    draft_pass_s, round_s, _, outside_share = np.moveaxis(constants, -1, 0)
    outside_s = passes.baseline_tpot_s - passes.fastest_tpot_s + outside_share * passes.fastest_tpot_s
    total_s = passes.verify_s + passes.draft_s + passes.n_draft_passes * draft_pass_s + round_s
    return np.asarray(passes.baseline_tpot_s / (total_s / passes.tokens_per_round + outside_s), dtype=np.float64)


@cache
def compared_uses() -> pl.DataFrame:
    """Errors over the rows of SGLang by what the run without speculation was used for.

    Returns
    -------
    polars.DataFrame
        ``use, measured``; then ``series`` and ``target``, the median absolute error with each of them left out of the
        fit, and ``within_8``, the share of rows within 8 % with the target left out.

    References
    ----------
    specbundle

    Examples
    --------
    >>> table = compared_uses()
    >>> table["series"].arg_min(), table["target"].arg_max()
    (0, 5)
    """
    rows = comparable(_ENGINE)
    return pl.DataFrame([_errors(each, rows) for each in baseline_uses()])


def _errors(each: BaselineUse, rows: Comparable) -> dict[str, str | float]:
    sizes = {left_out: np.abs(each.speedups(rows, left_out) / rows.speedups - 1.0) for left_out in LEFT_OUT}
    medians: dict[str, str | float] = {left_out: float(np.median(size)) for left_out, size in sizes.items()}
    within = float((sizes["target"] <= GATE).mean())
    return {"use": each.use, "measured": each.measured, **medians, "within_8": within}
