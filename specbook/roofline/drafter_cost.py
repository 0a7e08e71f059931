"""What a pass of a drafter reads and computes, and what its weights occupy, by method."""

from __future__ import annotations

from dataclasses import replace

from specbook.checks import BadInput
from specbook.roofline.draft_methods import MethodName
from specbook.roofline.model_spec import ModelSpec, precision
from specbook.roofline.pass_cost import ProductCost, StepCost, product_cost, step_cost

# Output rows of an EAGLE-3 head: it drafts from the commonest tokens alone, and most published heads from so many.
EAGLE3_VOCAB_SIZE = 32000
# Layers of the target whose hidden vectors it mixes.
_EAGLE3_TAPS = 3


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
