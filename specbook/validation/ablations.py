"""What each term of the model is worth: errors on published series left out, with the term and fitted without it.

Without a term everything else is fitted anew, so that the others take over what they can. What is left is what only
the term explains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from specbook.checks import Floats
from specbook.roofline.pass_cost import ProductCost, expert_coverage
from specbook.validation.baseline_use import own_baseline, scaled_passes
from specbook.validation.constants import EVERY_CONSTANT
from specbook.validation.passes import Passes, passes_of
from specbook.validation.published_errors import KNOWN, Comparable, LeftOut, comparable
from specbook.validation.refitted import left_out_speedups
from specbook.validation.scores import CHOICE, GATE, best_draft_lengths
from specbook.validation.settings import Setting
from specbook.validation.step_times import StepTimes

_ENGINE = "sglang"


@dataclass(frozen=True, kw_only=True)
class Ablation:
    """A model without one term.

    Attributes
    ----------
    term : str
        What is missing, in a few words.
    passes : callable
        From the comparable rows to their passes without the term.
    known : mapping of str to float
        Constants that are not fitted, beside those of the engine.
    told : (4,) tuple of bool or None
        Constants that rows can tell without the term; what the passes say if None.
    concerns : callable
        Whether the term is in a row at all; None if it is in all.
    """

    term: str
    passes: Callable[[Comparable], Passes] = lambda rows: rows.passes
    known: Mapping[str, float] = field(default_factory=dict)
    told: tuple[bool, ...] | None = None
    concerns: Callable[[Setting], bool] | None = None


def ablations() -> tuple[Ablation, ...]:
    """The terms that can be left out, one at a time.

    Examples
    --------
    >>> [each.term for each in ablations()][:2]
    ["engine's share of a draft pass", "engine's share of a round"]
    """
    return (
        Ablation(term="engine's share of a draft pass", known={"draft_pass_s": 0.0}),
        Ablation(term="engine's share of a round", known={"round_s": 0.0}),
        Ablation(term="other workloads' time outside decoding", passes=own_baseline, told=EVERY_CONSTANT),
        Ablation(term="residual of a step, added not scaled", passes=scaled_passes),
        Ablation(term="EAGLE-3's smaller head", passes=_full_head, concerns=lambda each: each.method == "eagle3"),
        Ablation(
            term="experts that further positions wake",
            passes=lambda rows: _growing(rows, _no_further_experts),
            concerns=lambda each: each.target.is_mixture,
        ),
        Ablation(
            term="states of recurrent layers, each position",
            passes=lambda rows: _growing(rows, _one_state),
            concerns=lambda each: each.target.n_linear_layers > 0,
        ),
    )


def _full_head(rows: Comparable) -> Passes:
    """A head with an output row for every token of the target."""
    found = [replace(each, method="eagle") if each.method == "eagle3" else each for each in rows.found]
    return replace(rows.passes, draft_s=passes_of(found).draft_s)


# A product, the positions of a step, and how independently tokens choose → the product without a term.
_Change = Callable[[ProductCost, float, float], ProductCost]


def _no_further_experts(product: ProductCost, n_rows: float, routing_exponent: float) -> ProductCost:
    """Any number of positions reads the experts of a step."""
    share = expert_coverage(n_rows, product.n_experts, product.n_experts_per_token, routing_exponent)
    return replace(product, weight_bytes=product.weight_bytes * float(share), n_experts=1.0, n_experts_per_token=1.0)


def _one_state(product: ProductCost, _n_rows: float, _routing_exponent: float) -> ProductCost:
    """The state of a recurrent layer, the one product without weights, is moved once a pass."""
    return product if product.weight_bytes else replace(product, activation_bytes_per_row=0.0)


def _growing(rows: Comparable, change: _Change) -> Passes:
    """Verify passes that are longer than a step by what the changed products grow."""
    times = StepTimes()
    growth_s = [_growth_s(setting, times, change) for setting in rows.found]
    return replace(rows.passes, verify_s=rows.passes.step_s + np.array(growth_s, dtype=np.float64))


def _growth_s(setting: Setting, times: StepTimes, change: _Change) -> float:
    whole = times.target(setting.device, setting.target, setting.precision, setting.n_devices or 1)
    exponent = float(whole.rates.routing_exponent)
    products = tuple(change(each, float(setting.batch), exponent) for each in whole.cost.products)
    step = replace(whole, cost=replace(whole.cost, products=products))
    width = float(times.drafter(setting).verify_width(setting.n_nodes))
    narrow_s, wide_s = np.asarray(step(np.array([1.0, width]), setting.batch, setting.context_tokens)).tolist()
    return float(wide_s - narrow_s)


@cache
def ablated(left_out: LeftOut = "series") -> pl.DataFrame:
    """Errors with and without each term, over the rows of SGLang that it concerns.

    Parameters
    ----------
    left_out : str
        ``series`` or ``target``: what the constants for a row never saw.

    Returns
    -------
    polars.DataFrame
        ``term, n_rows``; then, each ``_with`` and ``_without``: ``median`` absolute error, ``bias``, ``within_8``, and
        ``regret``, the mean share of speed that the chosen draft length loses.

    References
    ----------
    specbundle, finn2026

    Examples
    --------
    >>> first = ablated().row(0, named=True)
    >>> first["regret_without"] > first["regret_with"]
    True
    """
    rows = comparable(_ENGINE)
    whole = _speedups(rows, Ablation(term="none"), left_out)
    table = [{"term": each.term, **_effect(rows, whole, _speedups(rows, each, left_out), each)} for each in ablations()]
    return pl.DataFrame(table)


def _speedups(rows: Comparable, ablation: Ablation, left_out: LeftOut) -> Floats:
    passes, known = ablation.passes(rows), {**KNOWN[_ENGINE], **ablation.known}
    return left_out_speedups(passes, rows.speedups, rows.groups(left_out), known, told=ablation.told)


def _effect(rows: Comparable, whole: Floats, without: Floats, ablation: Ablation) -> dict[str, Any]:
    concerned = np.array([ablation.concerns is None or ablation.concerns(each) for each in rows.found])
    both = {"with": _scores(rows, whole, concerned), "without": _scores(rows, without, concerned)}
    names = both["with"].keys()
    return {"n_rows": int(concerned.sum())} | {f"{name}_{how}": both[how][name] for name in names for how in both}


def _scores(rows: Comparable, speedups: Floats, concerned: NDArray[np.bool_]) -> dict[str, float]:
    error = (speedups / rows.speedups - 1.0)[concerned]
    frame = pl.DataFrame(list(_choices(rows, speedups))).filter(pl.Series(concerned))
    return {
        "median": float(np.median(np.abs(error))),
        "bias": float(error.mean()),
        "within_8": float((np.abs(error) <= GATE).mean()),
        "regret": float(best_draft_lengths(frame)["regret"].to_numpy().mean()),
    }


def _choices(rows: Comparable, speedups: Floats) -> Iterator[dict[str, Any]]:
    for setting, measured, predicted in zip(rows.found, rows.speedups.tolist(), speedups.tolist(), strict=True):
        yield {
            **{name: getattr(setting.row, name) for name in CHOICE}, "draft_length": setting.depth,
            "measured_speedup": measured, "predicted_speedup": predicted, "error": predicted / measured - 1.0,
        }  # fmt: skip
