r"""The time of a round, term by term, and the speedup that follows.

.. math::

    S = \frac{T_b}{\frac{1}{E}\left(s\,T(1 + n) + m\,\omega\,T_1 + r + T_d + d\,\delta + h\right) + x}

with the measured time of a token without speculation :math:`T_b`, tokens per round E, the modelled verify pass and
drafting, the measured step :math:`T_1`, m rows that kernels for few rows take beyond a step's, and the engine's
:math:`\omega, \delta, h`. The time x of a token that is outside decoding (prompts, requests that come and go) is there
with and without speculation: how much longer a token takes than in the fastest workload of the same server, and a share
of that. What is left of the measured time is the step. Where it is longer than the modelled step, the difference r is
time beside the products, which a verify pass has as well; where it is shorter, the model is scaled down by s.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np

from specbook.checks import Floats
from specbook.roofline.engine_overheads import CONSTANTS, EngineOverheads
from specbook.validation.passes import Passes


@dataclass(frozen=True, kw_only=True, slots=True)
class Rounds:
    """Predicted rounds of n settings; each (n,) of float64, in seconds but for the speedup.

    Attributes
    ----------
    baseline_s : ndarray
        A token of one stream without speculation: measured, or modelled where no speeds were published.
    outside_s : ndarray
        Of each token, with and without speculation.
    draft_s, draft_floor_s, verify_s, verify_rows_s, step_residual_s, round_overhead_s : ndarray
        Terms of one round: products of the drafter, the engine's share of its passes, the target's pass, what kernels
        for few rows add to it, what a step takes beyond the model, the engine's share of the round.
    round_s : ndarray
        Their sum.
    speedup : ndarray
    """

    baseline_s: Floats
    outside_s: Floats
    draft_s: Floats
    draft_floor_s: Floats
    verify_s: Floats
    verify_rows_s: Floats
    step_residual_s: Floats
    round_overhead_s: Floats
    round_s: Floats
    speedup: Floats


TERMS = ("draft_s", "draft_floor_s", "verify_s", "verify_rows_s", "step_residual_s", "round_overhead_s")


def constants_of(overheads: EngineOverheads) -> Floats:
    """The constants of an engine as a vector, in the order of ``CONSTANTS``.

    Examples
    --------
    >>> from specbook.roofline.engine_overheads import engine_overheads
    >>> constants_of(engine_overheads("sglang")).shape
    (4,)
    """
    return np.array([getattr(overheads, name) for name in CONSTANTS], dtype=np.float64)


def predict_rounds(passes: Passes, constants: Floats) -> Rounds:
    """Predict each setting's round from its passes and an engine's constants.

    Parameters
    ----------
    passes : Passes
    constants : (4,) ndarray of float64, or (n, 4)
        In the order of ``CONSTANTS``; one engine for all, or one a setting.

    Returns
    -------
    Rounds

    References
    ----------
    leviathan2023, theorem 3.8; specbundle

    Examples
    --------
    >>> from specbook.validation.passes import passes_of
    >>> from specbook.validation.settings import example_setting
    >>> rounds = predict_rounds(passes_of([example_setting()]), np.zeros(4))
    >>> bool(1.0 < rounds.speedup[0] < example_setting().tokens_per_round)
    True
    """
    draft_pass_s, round_s, row_share, outside_share = np.moveaxis(constants, -1, 0)
    is_known = np.isfinite(passes.baseline_tpot_s)
    fastest_s = np.where(is_known, passes.fastest_tpot_s, passes.step_s)
    baseline_s = np.where(is_known, passes.baseline_tpot_s, passes.step_s)
    outside_s = np.where(is_known, baseline_s - fastest_s + outside_share * fastest_s, 0.0)
    step_s = baseline_s - outside_s
    terms = {
        "draft_s": passes.draft_s,
        "draft_floor_s": passes.n_draft_passes * draft_pass_s,
        "verify_s": passes.verify_s * np.minimum(step_s / passes.step_s, 1.0),
        "verify_rows_s": row_share * passes.n_small_rows * step_s,
        "step_residual_s": np.maximum(step_s - passes.step_s, 0.0),
        "round_overhead_s": np.where(passes.n_further_rows > 0.0, round_s, 0.0),
    }
    total_s = np.sum(list(terms.values()), axis=0)
    tpot_s = total_s / passes.tokens_per_round + outside_s
    return Rounds(baseline_s=baseline_s, outside_s=outside_s, round_s=total_s, speedup=baseline_s / tpot_s, **terms)


# Passes and constants → speedups.
Model = Callable[[Passes, Floats], Floats]


def modelled_speedups(passes: Passes, constants: Floats) -> Floats:
    """The speedups of :func:`predict_rounds`, as a :data:`Model`.

    Examples
    --------
    >>> from specbook.validation.passes import passes_of
    >>> from specbook.validation.settings import example_setting
    >>> modelled_speedups(passes_of([example_setting()]), np.zeros(4)).shape
    (1,)
    """
    return predict_rounds(passes, constants).speedup


def part_of(rounds: Rounds, index: int) -> dict[str, float]:
    """Everything of one setting, by name."""
    return {item.name: float(getattr(rounds, item.name)[index]) for item in fields(rounds)}
