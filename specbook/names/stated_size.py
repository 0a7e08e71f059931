"""A model that is known by its size alone: a plain shape that reads and computes what a model of that size does."""

from __future__ import annotations

import math
import re
from dataclasses import replace

from specbook.checks import BadInput
from specbook.roofline.model_spec import ModelSpec

_SIZE = re.compile(r"(\d+(?:\.\d+)?)b(?:[ _-]?a(\d+(?:\.\d+)?)b)?", re.IGNORECASE)
# Of Llama 3, as are the feed-forward of 3.5 times the width and eight heads of keys and values of 128.
_VOCAB_SIZE = 128256
_HEAD_DIM, _KV_HEADS = 128, 8
_FFN_RATIO = 3.5
# Width over depth: 128 in Llama 2 and 3 up to 13 billion parameters.
_WIDTH_PER_LAYER = 128
_N_EXPERTS_PER_TOKEN = 8
# Dense models of fewer parameters share embedding and output head, larger ones do not.
_TIED_BELOW_B = 5.0
_SMALLEST_B, _LARGEST_B = 0.3, 3000.0


def spec_of_size(text: str) -> ModelSpec:
    """A dense or mixture model of a plain Llama-like shape, scaled to a stated size.

    An assumption that the reader states, never one that a name is resolved to. The width h is that at which h / 128
    layers with heads of 128, eight of them for keys and values, and a feed-forward of 3.5 h have so many parameters, a
    vocabulary of Llama 3 included, shared by embedding and output head below 5 billion; the feed-forward is then set to
    meet the size. A mixture has the layers of a dense
    model of what a token uses, eight experts of it for each token, and as many experts as the size needs.

    The library's dense models from 1.5 billion parameters are 0.65 to 1.1 times as wide as this rule has them and 0.9
    to 1.6 times as deep, and a pass reads as many weights to within 6 %. Keys and values of those with grouped queries
    are 0.38 to 1.5 times the rule's; Llama 2 and Vicuna up to 33 billion have four to eight times as many. So passes
    that weights decide are met, and long contexts are not.

    Parameters
    ----------
    text : str
        ``13B``, or ``30B-A3B`` for a mixture: billions of parameters, and those that a token uses.

    Returns
    -------
    ModelSpec

    Raises
    ------
    BadInput
        If it is no size, or none between 0.3 and 3000 billion.

    Examples
    --------
    >>> spec = spec_of_size("13B")
    >>> spec.name, round(spec.n_parameters / 1e9, 2), spec.n_layers, spec.hidden_size
    ('13B (stated size)', 13.0, 38, 4864)
    >>> spec_of_size("30B-A3B").n_experts
    128
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise BadInput(
            "is no size of a model", field="target", value=text, remedy="a number and B, such as 13B or 30B-A3B"
        )
    total, active = float(found.group(1)), None if found.group(2) is None else float(found.group(2))
    used = total if active is None else active
    if not _SMALLEST_B <= used <= total <= _LARGEST_B:
        remedy = f"between {_SMALLEST_B:g}B and {_LARGEST_B:g}B, and a mixture uses less than it has"
        raise BadInput("is no size that a plain shape has", field="target", value=text, remedy=remedy)
    name = f"{text.strip().upper()} (stated size)"
    dense = _dense(name, 1e9 * used, is_tied=used == total and total < _TIED_BELOW_B)
    return dense if used == total else _mixture(dense, 1e9 * total)


def _dense(name: str, parameters: float, *, is_tied: bool) -> ModelSpec:
    hidden = max(2, round(_hidden_size(parameters, is_tied) / _HEAD_DIM)) * _HEAD_DIM
    spec = ModelSpec(
        name=name,
        n_layers=max(1, round(hidden / _WIDTH_PER_LAYER)),
        hidden_size=hidden,
        n_heads=hidden // _HEAD_DIM,
        n_kv_heads=min(_KV_HEADS, hidden // _HEAD_DIM),
        head_dim=_HEAD_DIM,
        ffn_size=1,
        vocab_size=_VOCAB_SIZE,
        tied_embeddings=is_tied,
    )
    missing = (parameters - spec.n_parameters) / (3 * hidden * spec.n_layers)
    return replace(spec, ffn_size=max(1, 1 + round(missing)))


def _hidden_size(parameters: float, is_tied: bool) -> float:
    """The width at which the rule has so many parameters, by bisection."""
    low, high = 1.0, 1e6
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if _rule(middle, is_tied) > parameters else (middle, high)
    return low


def _rule(hidden: float, is_tied: bool) -> float:
    """Parameters of a dense model of a width."""
    kv_size = _KV_HEADS * _HEAD_DIM
    layer = 2 * hidden * hidden + 2 * hidden * kv_size + 3 * _FFN_RATIO * hidden * hidden
    return hidden / _WIDTH_PER_LAYER * layer + (1 if is_tied else 2) * _VOCAB_SIZE * hidden


def _mixture(dense: ModelSpec, parameters: float) -> ModelSpec:
    """As many experts as the size needs, of which a token uses eight that together are the dense feed-forward."""
    expert_size = max(1, round(dense.ffn_size / _N_EXPERTS_PER_TOKEN))
    each = dense.n_layers * dense.hidden_size * (3 * expert_size + 1)
    others = dense.n_parameters - dense.ffn_parameters
    n_experts = max(_N_EXPERTS_PER_TOKEN, round((parameters - others) / each))
    return replace(dense, ffn_size=expert_size, n_experts=n_experts, n_experts_per_token=_N_EXPERTS_PER_TOKEN)
