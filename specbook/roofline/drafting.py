"""What a round's drafting costs, by method; each is evaluated by the same step times as the target.

Every method is a cost paid once a round and a cost paid once a draft pass. A chain of K tokens takes K passes; a tree
takes as many as it is deep, each over the nodes of its level. Running what the last round accepted through the drafter
is carried along by its first pass. What an engine spends beside the passes, such as sampling, is
:class:`HostedDrafter`'s, and left out where no engine is named.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, get_args

import numpy as np

from specbook.checks import BadInput, check_counts, check_non_negative
from specbook.roofline.model_spec import ModelSpec, precision
from specbook.roofline.pass_cost import ProductCost, StepCost, product_cost, step_cost
from specbook.roofline.step_time import StepTime

MethodName = Literal["draft_model", "eagle", "eagle3", "mtp", "medusa", "ngram", "lookahead"]
METHODS: tuple[MethodName, ...] = get_args(MethodName)

# Output rows of an EAGLE-3 head: it drafts from the commonest tokens alone, and most published heads from so many.
EAGLE3_VOCAB_SIZE = 32000
# Layers of the target whose hidden vectors it mixes.
_EAGLE3_TAPS = 3

# What acceptance files call a method → what its drafting costs like.
_COSTS_LIKE: dict[str, MethodName] = {
    "draft_model": "draft_model", "eagle": "eagle", "eagle2": "eagle", "eagle3": "eagle3", "mtp": "mtp",
    "medusa": "medusa", "ngram": "ngram", "prompt_lookup": "ngram", "lookup": "ngram", "lookahead": "lookahead",
}  # fmt: skip


def costs_like(method: str | None) -> MethodName:
    """The method whose drafting costs what a method of an acceptance file does.

    Raises
    ------
    BadInput
        If nobody modelled it.

    Examples
    --------
    >>> costs_like("eagle2"), costs_like("prompt_lookup")
    ('eagle', 'ngram')
    """
    if method not in _COSTS_LIKE:
        raise BadInput(
            "the cost of this method is not modelled",
            field="method",
            value=method,
            remedy=f"one of {', '.join(METHODS)}, stated with --method",
        )
    return _COSTS_LIKE[method]


class Drafter(Protocol):
    """Seconds of drafting in a round, and the width of the verify pass."""

    def seconds(self, depth: Any, n_nodes: Any, batch: Any, context: Any, xp: Any = np) -> Any:
        """Seconds of drafting ``n_nodes`` tokens, ``depth`` deep, in each of ``batch`` sequences; 0 for depth 0."""

    def verify_width(self, n_nodes: Any) -> Any:
        """Positions of each sequence in the verify pass."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SequentialDrafter:
    """One pass after the other: a small model, an EAGLE head, a layer that predicts further tokens.

    Attributes
    ----------
    step : StepTime
        One pass of it, output head included.

    Examples
    --------
    >>> from specbook.roofline.calibrated import CalibratedRoofline, example_rates
    >>> from specbook.roofline.model_spec import model
    >>> step = CalibratedRoofline(cost=step_cost(model("Llama-3.2-1B"), "bf16"), rates=example_rates())
    >>> drafter = SequentialDrafter(step=step)
    >>> print(f"{1e3 * drafter.seconds(4, 4, 1, 512):.2f} ms", drafter.verify_width(4))
    5.48 ms 5.0
    """

    step: StepTime

    def seconds(self, depth: Any, n_nodes: Any, batch: Any, context: Any, xp: Any = np) -> Any:
        """Seconds of ``depth`` passes over a level of the tree each; a chain has one node a level."""
        width = xp.maximum(n_nodes / xp.maximum(depth, 1.0), 1.0)
        if isinstance(width, np.ndarray) and np.all(width == 1.0):
            width = 1.0  # chains share one pass, whatever their length: evaluated once
        return depth * self.step(width, batch, context, xp)

    def verify_width(self, n_nodes: Any) -> Any:
        """One position for each node and one for the bonus token."""
        return n_nodes + 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class ParallelHeads:
    """Medusa's heads: all at once from one hidden vector, so that a head costs its products and no pass of its own.

    Attributes
    ----------
    step : StepTime
        The products of one head.

    Examples
    --------
    >>> from specbook.roofline.calibrated import CalibratedRoofline, example_rates
    >>> from specbook.roofline.model_spec import model
    >>> head = drafter_cost("medusa", model("Vicuna-7B-v1.3"), None, "bf16")
    >>> heads = ParallelHeads(step=CalibratedRoofline(cost=head, rates=example_rates()))
    >>> print(f"{1e3 * heads.seconds(4, 64, 1, 512):.2f} ms")
    0.43 ms
    """

    step: StepTime

    def seconds(self, depth: Any, n_nodes: Any, batch: Any, context: Any, xp: Any = np) -> Any:
        """Seconds of ``depth`` heads, whatever tree their candidates form; the overhead of a pass counts once."""
        del n_nodes, context
        each = self.step(1.0, batch, 0.0, xp) - self.step.overhead_s
        return depth * each + xp.where(depth > 0.0, self.step.overhead_s, 0.0)

    def verify_width(self, n_nodes: Any) -> Any:
        """One position for each node and one for the bonus token."""
        return n_nodes + 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class HostLookup:
    """Prompt look-up or n-grams on the host processor, which the device waits for.

    Attributes
    ----------
    seconds_per_round : float
        Whatever is drafted: the call, and copying tokens to and from the device.
    seconds_per_context_token : float
        Searching one token of one sequence.

    Raises
    ------
    ValueError
        If a time is negative.

    Examples
    --------
    >>> print(f"{1e6 * HostLookup().seconds(8, 8, 4, 4096):.0f} µs")
    266 µs
    """

    seconds_per_round: float = 2e-4
    seconds_per_context_token: float = 4e-9

    def __post_init__(self) -> None:
        check_non_negative("seconds_per_round", self.seconds_per_round)
        check_non_negative("seconds_per_context_token", self.seconds_per_context_token)

    def seconds(self, depth: Any, n_nodes: Any, batch: Any, context: Any, xp: Any = np) -> Any:
        """Seconds of one search in each sequence, whatever is found."""
        del n_nodes
        searched = self.seconds_per_round + self.seconds_per_context_token * batch * context
        return xp.where(depth > 0.0, searched, 0.0)

    def verify_width(self, n_nodes: Any) -> Any:
        """One position for each node and one for the bonus token."""
        return n_nodes + 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Lookahead:
    """No drafter: guesses are refined in the target's own pass, which is wider for it.

    Attributes
    ----------
    window : int
        Columns of guesses.
    n_candidates : int
        Runs that a pass verifies.

    Raises
    ------
    ValueError
        If either is not a whole number of at least 1.

    Examples
    --------
    >>> Lookahead().verify_width(4), Lookahead().verify_width(0)
    (121.0, 1.0)
    """

    window: int = 15
    n_candidates: int = 15

    def __post_init__(self) -> None:
        check_counts("window", self.window, minimum=1)
        check_counts("n_candidates", self.n_candidates, minimum=1)

    def seconds(self, depth: Any, n_nodes: Any, batch: Any, context: Any, xp: Any = np) -> Any:
        """Nothing beside the verify pass."""
        del n_nodes, batch, context, xp
        return 0.0 * depth

    def verify_width(self, n_nodes: Any) -> Any:
        """The last token, a window of guesses and the runs to verify, each ``n_nodes`` long."""
        return n_nodes * (self.window + self.n_candidates) + 1.0


def drafter_cost(
    method: MethodName, target: ModelSpec, draft: ModelSpec | None, precision_name: str, tensor_parallel: int = 1
) -> StepCost | None:
    """What one pass of a drafter reads and computes; None for those that have no weights.

    An EAGLE head is a projection of two hidden vectors, one layer of the target's shape and the output head. A layer
    for further tokens (MTP) is the same, with the experts that the target's layers have. A head of EAGLE-3 has no such
    projection in its passes: its attention takes two vectors side by side, and its output head knows
    :data:`EAGLE3_VOCAB_SIZE` tokens. It mixes hidden vectors of the target once a round, which is left out. A Medusa
    head is a square product and an output head.

    Parameters
    ----------
    method : str
    target, draft : ModelSpec
        The draft model is needed by ``draft_model`` alone.
    precision_name : str
        Weight format of the drafter.
    tensor_parallel : int
        As for the target.

    Raises
    ------
    BadInput
        If a draft model is missing.

    References
    ----------
    eagle2024, eagle2025, specforge, cai2024, deepseekthree2024

    Examples
    --------
    >>> from specbook.roofline.model_spec import model
    >>> for method in ("eagle", "eagle3"):
    ...     cost = drafter_cost(method, model("Llama-3.1-8B"), None, "bf16")
    ...     print(f"{cost.dense_weight_bytes / 1e9:.2f} GB, head {cost.products[-1].weight_bytes / 1e9:.2f} GB")
    1.55 GB, head 1.05 GB
    0.75 GB, head 0.26 GB
    """
    if method == "draft_model":
        if draft is None:
            raise BadInput("no draft model is named", field="draft", value=None, remedy="name one with --draft")
        return step_cost(draft, precision_name, tensor_parallel=tensor_parallel)
    if method in ("ngram", "lookahead"):
        return None
    if method == "medusa":
        return _medusa_head(target, precision_name, tensor_parallel)
    if method == "eagle3":
        return _eagle3_head(target, precision_name, tensor_parallel)
    layer = _layer(target) if method == "mtp" else _dense_layer(target)
    cost = step_cost(layer, precision_name, tensor_parallel=tensor_parallel)
    projection = _shared_product(target.hidden_size, 2 * target.hidden_size, precision_name, tensor_parallel)
    return replace(cost, products=(projection, *cost.products))


def _layer(target: ModelSpec) -> ModelSpec:
    """One layer of a target, with full attention where some have a recurrent state."""
    return replace(target, n_layers=1, n_linear_layers=0, n_dense_layers=0, dense_ffn_size=0)


def _dense_layer(target: ModelSpec) -> ModelSpec:
    layer = _layer(target)
    if not target.is_mixture:
        return layer
    return replace(layer, n_experts=1, n_experts_per_token=1, n_shared_experts=0, ffn_size=_dense_width(target))


def _eagle3_head(target: ModelSpec, precision_name: str, tensor_parallel: int) -> StepCost:
    """A Llama-like layer whatever the target's attention; the first of its products reads two vectors."""
    layer = replace(
        _dense_layer(target),
        kv_lora_rank=0,
        q_lora_rank=0,
        rope_head_dim=0,
        v_head_dim=0,
        vocab_size=min(EAGLE3_VOCAB_SIZE, target.vocab_size),
    )
    cost = step_cost(layer, precision_name, tensor_parallel=tensor_parallel)
    queries, *others = cost.products
    width = precision(precision_name)
    n_out = (layer.n_heads + 2 * layer.n_kv_heads) * layer.head_dim / tensor_parallel
    wide = product_cost(n_out, 2 * target.hidden_size, width.layer_bytes, queries.count, width.activation_bytes)
    return replace(cost, products=(wide, *others))


def _dense_width(target: ModelSpec) -> int:
    """Width of the dense feed-forward in a head for a mixture: as much as a token of the target uses."""
    return target.dense_ffn_size or target.ffn_size * (target.n_experts_per_token + target.n_shared_experts)


def _medusa_head(target: ModelSpec, precision_name: str, tensor_parallel: int) -> StepCost:
    cost = step_cost(target, precision_name, tensor_parallel=tensor_parallel)
    residual = _shared_product(target.hidden_size, target.hidden_size, precision_name, tensor_parallel)
    return replace(
        cost,
        products=(residual, cost.products[-1]),
        n_layers=0.0,
        n_mixture_layers=0.0,
        kv_bytes_per_token=0.0,
        attention_flops_per_token_and_context=0.0,
    )


def _shared_product(n_out: int, n_in: int, precision_name: str, tensor_parallel: int) -> ProductCost:
    width = precision(precision_name)
    return product_cost(n_out / tensor_parallel, n_in, width.layer_bytes, 1.0, width.activation_bytes)


def drafter_weight_bytes(
    method: MethodName, target: ModelSpec, draft: ModelSpec | None, precision_name: str, n_heads: int = 1
) -> float:
    """Bytes that a drafter's own weights occupy; embedding and output head of the target are shared where they can be.

    Heads of EAGLE-3 and Medusa have output heads of their own.

    Parameters
    ----------
    method : str
    target, draft : ModelSpec
    precision_name : str
    n_heads : int
        Of Medusa, each with an output head of its own.

    Examples
    --------
    >>> from specbook.roofline.model_spec import model
    >>> for method in ("eagle", "eagle3"):
    ...     print(f"{drafter_weight_bytes(method, model('Llama-3.1-8B'), None, 'bf16') / 1e9:.2f} GB")
    0.50 GB
    0.85 GB
    """
    if method == "draft_model" and draft is not None:
        return draft.weight_bytes(precision_name)
    cost = drafter_cost(method, target, draft, precision_name)
    if cost is None:
        return 0.0
    if method == "eagle3":
        mixing = _shared_product(target.hidden_size, _EAGLE3_TAPS * target.hidden_size, precision_name, 1)
        return _weight_bytes((mixing, *cost.products))
    if method == "medusa":
        return n_heads * _weight_bytes(cost.products)
    return _weight_bytes(cost.products[:-1])


def _weight_bytes(products: tuple[ProductCost, ...]) -> float:
    return sum(each.count * each.weight_bytes for each in products)


@dataclass(frozen=True, kw_only=True, slots=True)
class HostedDrafter:
    """A drafter inside an engine, whose host prepares every pass and closes every round.

    Attributes
    ----------
    drafter : Drafter
    pass_s : float
        Of each draft pass beyond its products; a drafter whose passes are not sequential has one, and a look-up none.
    round_s : float
        Of each round: scheduling, preparing the verify pass, comparing, and taking back what was rejected.

    Raises
    ------
    ValueError
        If a time is negative.

    References
    ----------
    specbundle

    Examples
    --------
    >>> print(f"{1e6 * HostedDrafter(drafter=HostLookup(), pass_s=1e-4, round_s=5e-4).seconds(8, 8, 1, 0):.0f} µs")
    700 µs
    """

    drafter: Drafter
    pass_s: float
    round_s: float

    def __post_init__(self) -> None:
        check_non_negative("pass_s", self.pass_s)
        check_non_negative("round_s", self.round_s)

    def seconds(self, depth: Any, n_nodes: Any, batch: Any, context: Any, xp: Any = np) -> Any:
        """Seconds of drafting, and of what the engine does beside it."""
        drafting_s = self.drafter.seconds(depth, n_nodes, batch, context, xp)
        return drafting_s + depth * self._depth_s() + xp.where(depth > 0.0, self._once_s(), 0.0)

    def _depth_s(self) -> float:
        return self.pass_s if isinstance(self.drafter, SequentialDrafter) else 0.0

    def _once_s(self) -> float:
        return self.round_s + (self.pass_s if isinstance(self.drafter, ParallelHeads) else 0.0)

    def verify_width(self, n_nodes: Any) -> Any:
        """As without an engine."""
        return self.drafter.verify_width(n_nodes)


def sequential_part(drafter: Drafter) -> SequentialDrafter | None:
    """The drafter whose passes follow one another, inside an engine or not; None for one that drafts otherwise.

    Examples
    --------
    >>> sequential_part(HostedDrafter(drafter=HostLookup(), pass_s=1e-4, round_s=5e-4)) is None
    True
    """
    bare = drafter.drafter if isinstance(drafter, HostedDrafter) else drafter
    return bare if isinstance(bare, SequentialDrafter) else None


def drafter_of(method: MethodName, step: StepTime | None, pass_s: float = 0.0, round_s: float = 0.0) -> Drafter:
    """The drafter of a method, from the step time of its cost, inside an engine if times of one are given.

    Raises
    ------
    ValueError
        If the method has weights and no step time is given.

    Examples
    --------
    >>> drafter_of("lookahead", None)
    Lookahead(window=15, n_candidates=15)
    """
    drafter = _bare_drafter(method, step)
    return HostedDrafter(drafter=drafter, pass_s=pass_s, round_s=round_s) if pass_s or round_s else drafter


def _bare_drafter(method: MethodName, step: StepTime | None) -> Drafter:
    if method == "ngram":
        return HostLookup()
    if method == "lookahead":
        return Lookahead()
    if step is None:
        raise ValueError(f"a drafter by {method} needs a step time")
    return ParallelHeads(step=step) if method == "medusa" else SequentialDrafter(step=step)
