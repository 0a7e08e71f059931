"""Settings of published speed figures, and what the calibrated model says of each: nothing is fitted to the figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import brentq

from specbook.acceptance.yields import expected_tokens_per_round
from specbook.checks import check_positive
from specbook.hardware.profile import catalogue_device
from specbook.roofline.calibrated import CalibratedRoofline, product_seconds
from specbook.roofline.calibrations import calibrated_rates
from specbook.roofline.drafting import MethodName, drafter_cost, drafter_of
from specbook.roofline.engine_overheads import EngineOverheads
from specbook.roofline.hosted import engine_drafter, engine_step
from specbook.roofline.model_spec import ModelSpec, model
from specbook.roofline.pass_cost import ProductCost, StepCost, expert_coverage, step_cost
from specbook.roofline.speedup import DraftingPair, RoundTimes, round_seconds, round_times, speedup
from specbook.roofline.step_time import StepTime


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedFigure:
    """One published figure with everything that is known, or assumed, of its setting.

    Attributes
    ----------
    group, key, setting, quantity, assumption, kind : str
        Which figures belong together; the bibliography's key; where it was measured, and what; what was assumed to
        compute it; how it is computed, a key of :data:`MODELS`.
    claim : str
        ``absolute``, ``shape``, ``order of magnitude``; ``anchor`` for a figure that sets an unknown of its group; or
        ``tokens needed`` where tokens per round are unknown.
    published : float or None
        None where the source gives a direction alone.
    hardware, target, draft, drafter, method, draft_length, n_nodes, batch, context, tensor_parallel, precision
        As in a grid; ``drafter`` is a label. A chain has no ``n_nodes``.
    draft_window : int or None
        Tokens of context that the drafter keeps.
    tokens_per_round, acceptance : float or None
        One of them, if either is known.
    rows_per_kv_pass : float or None
        Instead of the calibration's.
    n_tokens : int
        Rows of products that are computed alone.
    experts : (n_experts, n_experts_per_token, hidden_size, ffn_size) sequence of int, or None
        Instead of the target's.
    target_s, draft_s, verify_s : float or None
        The source's own times, where it models with those.
    """

    group: str
    key: str
    setting: str
    quantity: str
    assumption: str
    kind: str
    claim: str
    published: float | None
    hardware: str | None = None
    target: str | None = None
    draft: str | None = None
    drafter: str | None = None
    method: MethodName | None = None
    draft_length: int = 0
    n_nodes: int | None = None
    batch: int = 1
    context: int = 512
    tensor_parallel: int = 1
    precision: str = "bf16"
    draft_window: int | None = None
    tokens_per_round: float | None = None
    acceptance: float | None = None
    rows_per_kv_pass: float | None = None
    n_tokens: int = 1
    experts: tuple[int, int, int, int] | None = None
    target_s: float | None = None
    draft_s: float | None = None
    verify_s: float | None = None

    @property
    def tokens(self) -> float | None:
        """Tokens per round, from the acceptance of each position if that is what is known."""
        if self.tokens_per_round is not None or self.acceptance is None:
            return self.tokens_per_round
        return float(expected_tokens_per_round(np.full(self.draft_length, self.acceptance)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Windowed:
    """The step time of a model that keeps a window of its cache; a :class:`~specbook.roofline.step_time.StepTime`.

    Attributes
    ----------
    step : StepTime
    window : int
        Tokens of context that it keeps, at least 1.

    Raises
    ------
    ValueError
        If the window is not positive.

    References
    ----------
    magicdec2024

    Examples
    --------
    >>> from specbook.roofline.calibrated import example_rates
    >>> step = CalibratedRoofline(cost=step_cost(model("Llama-3.1-8B"), "bf16"), rates=example_rates())
    >>> bool(Windowed(step=step, window=512)(1, 8, 32768) == step(1, 8, 512))
    True
    """

    step: StepTime
    window: int
    kind: str = "calibrated"

    def __post_init__(self) -> None:
        check_positive("window", self.window)

    @property
    def overhead_s(self) -> Any:
        """What a pass costs once, whatever it computes."""
        return self.step.overhead_s

    def __call__(self, tokens: Any, batch: Any, context: Any, xp: Any = np) -> Any:
        """Seconds of one forward pass over what the window holds."""
        return self.step(tokens, batch, xp.minimum(context, self.window), xp)


def _spec(figure: PublishedFigure) -> ModelSpec:
    spec = model(figure.target or "")
    if figure.experts is None:
        return spec
    n_experts, used, hidden_size, ffn_size = figure.experts
    return replace(spec, n_experts=n_experts, n_experts_per_token=used, hidden_size=hidden_size, ffn_size=ffn_size)


def _roofline(figure: PublishedFigure, cost: StepCost) -> CalibratedRoofline:
    rates = calibrated_rates(catalogue_device(figure.hardware or ""), figure.precision)
    if figure.rows_per_kv_pass is not None:
        rates = replace(rates, rows_per_kv_pass=figure.rows_per_kv_pass)
    return CalibratedRoofline(cost=cost, rates=rates)


def target_step(figure: PublishedFigure) -> CalibratedRoofline:
    """The target's step time in the setting of a figure.

    Examples
    --------
    >>> from specbook.roofline.published import published_figures
    >>> figure = next(each for each in published_figures() if each.group == "eagle3-h100")
    >>> print(f"{1e3 * target_step(figure)(1, 1, 512):.1f} ms")
    6.1 ms
    """
    return _roofline(figure, step_cost(_spec(figure), figure.precision, tensor_parallel=figure.tensor_parallel))


def _drafter_step(figure: PublishedFigure, method: MethodName) -> StepTime | None:
    draft = None if figure.draft is None else model(figure.draft)
    cost = drafter_cost(method, _spec(figure), draft, figure.precision, figure.tensor_parallel)
    if cost is None:
        return None
    step = _roofline(figure, cost)
    return step if figure.draft_window is None else Windowed(step=step, window=figure.draft_window)


def round_of(figure: PublishedFigure, overheads: EngineOverheads | None = None) -> RoundTimes | None:
    """Times of one round by the calibrated model, at one token a round where the tokens are not known.

    Parameters
    ----------
    figure : PublishedFigure
    overheads : EngineOverheads, optional
        Of an engine; without them, passes alone.

    Returns
    -------
    RoundTimes or None
        None where nothing is drafted, or the figure is no speed of a round.

    Examples
    --------
    >>> from specbook.roofline.published import published_figures
    >>> figure = next(each for each in published_figures() if each.group == "eagle3-h100")
    >>> print(f"{1e3 * round_of(figure).round_s:.1f} ms")
    7.9 ms
    """
    if figure.method is None or figure.kind not in ("speedup", "tpot_ms", "tokens_per_s"):
        return None
    pair = DraftingPair(
        target=engine_step(overheads, target_step(figure)),
        drafter=engine_drafter(overheads, drafter_of(figure.method, _drafter_step(figure, figure.method))),
        target_weight_bytes=0.0,
        draft_weight_bytes=0.0,
        target_kv_bytes_per_token=0.0,
        draft_kv_bytes_per_token=0.0,
    )
    nodes = figure.draft_length if figure.n_nodes is None else figure.n_nodes
    depth = float(figure.draft_length)
    return round_times(depth, float(nodes), float(figure.batch), float(figure.context), figure.tokens or 1.0, pair)


def token_rate(figure: PublishedFigure, overheads: EngineOverheads | None = None) -> float:
    """Tokens per second of all sequences, with an engine's overheads or without.

    Examples
    --------
    >>> from specbook.roofline.published import published_figures
    >>> figure = next(each for each in published_figures() if each.group == "eagle3-batch1")
    >>> print(f"{token_rate(figure):.0f} tokens/s")
    163 tokens/s
    """
    return figure.batch / _decode_s(figure, overheads)


def _decode_s(figure: PublishedFigure, overheads: EngineOverheads | None = None) -> float:
    times = round_of(figure, overheads)
    return float(target_step(figure)(1, figure.batch, figure.context) if times is None else times.tpot_s)


def _round_gain(figure: PublishedFigure) -> float:
    times = round_of(figure)
    return float("nan") if times is None else float(times.speedup)


def _chain_speedup(figure: PublishedFigure) -> float:
    return _speedup_at(figure, figure.acceptance or 0.0)


def _speedup_at(figure: PublishedFigure, acceptance: float) -> float:
    target_s, draft_s = figure.target_s or 0.0, figure.draft_s or 0.0
    tokens = expected_tokens_per_round(np.full(figure.draft_length, acceptance))
    return float(speedup(tokens, target_s, round_seconds(figure.draft_length, draft_s, target_s)))


def _break_even_acceptance(figure: PublishedFigure) -> float:
    return float(brentq(lambda acceptance: _speedup_at(figure, acceptance) - 1.0, 0.0, 1.0))


def _round_rate(figure: PublishedFigure) -> float:
    seconds = round_seconds(1, figure.draft_s or 0.0, figure.verify_s or 0.0)
    return float((figure.tokens or 0.0) / seconds)


def _verify_ratio(figure: PublishedFigure) -> float:
    step = target_step(figure)
    width = figure.draft_length + 1
    return float(step(width, figure.batch, figure.context) / step(1, figure.batch, figure.context))


def _expert_ratio(figure: PublishedFigure) -> float:
    cost, rates = target_step(figure).cost, target_step(figure).rates
    touched = [
        expert_coverage(n_tokens * figure.batch, cost.n_experts, cost.n_experts_per_token, rates.routing_exponent)
        for n_tokens in (figure.draft_length + 1, 1)
    ]
    return float(touched[0] / touched[1])


def _time_ratio(figure: PublishedFigure, products: list[ProductCost]) -> float:
    rates = target_step(figure).rates
    seconds = [sum(product_seconds(float(rows), each, rates) for each in products) for rows in (figure.n_tokens, 1)]
    return float(seconds[0] / seconds[1])


def _layer_ratio(figure: PublishedFigure) -> float:
    return _time_ratio(figure, list(target_step(figure).cost.products[:-1]))


def _expert_time_ratio(figure: PublishedFigure) -> float:
    return _time_ratio(figure, expert_products(figure))


def expert_products(figure: PublishedFigure) -> list[ProductCost]:
    """The products of a target that its tokens choose among; none for a dense one.

    Examples
    --------
    >>> from specbook.roofline.published import published_figures
    >>> figure = next(each for each in published_figures() if each.group == "expert-products")
    >>> len(expert_products(figure))
    2
    """
    return [each for each in target_step(figure).cost.products if each.n_experts != 1.0]


MODELS: dict[str, Callable[[PublishedFigure], float]] = {
    "break_even_acceptance": _break_even_acceptance,
    "chain_speedup": _chain_speedup,
    "decode_ms": lambda figure: 1e3 * _decode_s(figure),
    "expert_ratio": _expert_ratio,
    "expert_ratio_of_time": _expert_time_ratio,
    "layer_ratio": _layer_ratio,
    "round_rate": _round_rate,
    "speedup": _round_gain,
    "tokens_per_s": token_rate,
    "tpot_ms": lambda figure: 1e3 * _decode_s(figure),
    "verify_ratio": _verify_ratio,
}
