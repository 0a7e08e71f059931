"""What a forward pass reads and computes: architecture figures and the library of models, beside the weight formats."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from specbook.checks import BadInput, check_counts
from specbook.roofline.weight_formats import PRECISIONS, Precision, precision

__all__ = [
    "PRECISIONS", "ModelSpec", "Precision", "model", "model_entry", "model_names", "precision", "same_model"
]  # fmt: skip

_LIBRARY = Path(__file__).parent / "model_library.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelSpec:
    """Architecture of a decoder with gated feed-forward layers, and grouped-query or multi-head latent attention.

    In a hybrid, most layers have linear attention instead: a gated delta rule, whose state does not grow with the
    context.

    Attributes
    ----------
    n_layers, hidden_size, n_heads, n_kv_heads, head_dim, vocab_size : int
        As in the model's configuration; with latent attention, ``head_dim`` is the part without a rotation.
    ffn_size : int
        Width of the feed-forward layer, or of one expert.
    max_context : int or None
        Tokens that the model was made for; None if unknown.
    n_experts, n_experts_per_token : int
        1 and 1 for a dense model.
    n_shared_experts : int
        Experts that every token uses, beside those it is routed to.
    n_dense_layers, dense_ffn_size : int
        First layers of a mixture that have one feed-forward network instead, and its width.
    kv_lora_rank, q_lora_rank, rope_head_dim, v_head_dim : int
        Latent attention: width of the cached latent, of the queries' latent (0: none), of the rotated part of a head,
        and of a head's values. 0 for grouped-query attention.
    n_linear_layers : int
        Layers that have linear attention instead of the one above.
    linear_key_heads, linear_value_heads, linear_key_dim, linear_value_dim, linear_conv_width : int
        Linear attention: heads, sizes of a head, and inputs of the convolution before it. 0 without a hybrid.
    tied_embeddings : bool
        The output head shares the input embedding.
    attention_bias, qk_norm : bool
        Biases on queries, keys and values; norms on queries and keys.
    attention_gate, shared_expert_gate : bool
        The queries' projection yields an output gate as well; shared experts are weighed by a gate.

    Raises
    ------
    ValueError
        If a size is not a whole positive number or the experts do not fit.

    Examples
    --------
    >>> model("Llama-3.1-8B").n_parameters
    8030261248
    """

    name: str
    n_layers: int
    hidden_size: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    ffn_size: int
    vocab_size: int
    max_context: int | None = None
    n_experts: int = 1
    n_experts_per_token: int = 1
    n_shared_experts: int = 0
    n_dense_layers: int = 0
    dense_ffn_size: int = 0
    kv_lora_rank: int = 0
    q_lora_rank: int = 0
    rope_head_dim: int = 0
    v_head_dim: int = 0
    n_linear_layers: int = 0
    linear_key_heads: int = 0
    linear_value_heads: int = 0
    linear_key_dim: int = 0
    linear_value_dim: int = 0
    linear_conv_width: int = 0
    tied_embeddings: bool = False
    attention_bias: bool = False
    qk_norm: bool = False
    attention_gate: bool = False
    shared_expert_gate: bool = False

    def __post_init__(self) -> None:
        for item in fields(self):
            if item.type == "int":
                check_counts(item.name, getattr(self, item.name), minimum=0 if item.default == 0 else 1)
        if self.n_experts_per_token > self.n_experts:
            raise ValueError(f"n_experts_per_token must not exceed n_experts; got {self.n_experts_per_token}")
        if self.n_dense_layers > self.n_layers or bool(self.n_dense_layers) != bool(self.dense_ffn_size):
            raise ValueError(f"n_dense_layers needs a width and at most n_layers; got {self.n_dense_layers}")
        if len({bool(size) for size in (self.kv_lora_rank, self.rope_head_dim, self.v_head_dim)}) > 1:
            raise ValueError(f"latent attention needs kv_lora_rank, rope_head_dim and v_head_dim; got {self}")
        self._check_linear_attention()

    def _check_linear_attention(self) -> None:
        sizes = [getattr(self, item.name) for item in fields(self) if item.name.startswith("linear_")]
        if self.n_linear_layers > self.n_layers or (self.n_linear_layers and not all(sizes)):
            raise ValueError(f"linear attention needs all of its sizes and at most n_layers; got {self}")

    @property
    def has_latent_attention(self) -> bool:
        """Whether the cache holds one latent vector for all heads."""
        return self.kv_lora_rank > 0

    @property
    def is_mixture(self) -> bool:
        """Whether tokens choose among experts."""
        return self.n_experts > 1

    @property
    def n_mixture_layers(self) -> int:
        """Layers whose tokens choose among experts."""
        return self.n_layers - self.n_dense_layers if self.is_mixture else 0

    @property
    def n_attention_layers(self) -> int:
        """Layers whose attention has a cache that grows with the context."""
        return self.n_layers - self.n_linear_layers

    @property
    def attention_parameters(self) -> int:
        """Attention weights of all layers, those of linear attention included."""
        if self.has_latent_attention:
            return self.n_layers * self._latent_attention_parameters()
        q_size, kv_size = self.n_heads * self.head_dim, self.n_kv_heads * self.head_dim
        each = self.hidden_size * ((2 + self.attention_gate) * q_size + 2 * kv_size)
        return self.n_attention_layers * each + self.n_linear_layers * self._linear_attention_parameters()

    @property
    def linear_key_size(self) -> int:
        """Width of the keys, and of the queries, of linear attention over all heads; 0 without a hybrid."""
        return self.linear_key_heads * self.linear_key_dim

    @property
    def linear_value_size(self) -> int:
        """Width of the values of linear attention over all heads; 0 without a hybrid."""
        return self.linear_value_heads * self.linear_value_dim

    @property
    def linear_state_size(self) -> int:
        """Numbers in the recurrent state of one sequence and layer: a matrix of keys by values for every head."""
        return self.linear_value_heads * self.linear_key_dim * self.linear_value_dim

    @property
    def linear_conv_channels(self) -> int:
        """Queries, keys and values, which a short convolution runs over; 0 without a hybrid."""
        return 2 * self.linear_key_size + self.linear_value_size

    def _linear_attention_parameters(self) -> int:
        """Projections to queries, keys, values and output gate, two gates a head, and back."""
        inputs = 2 * self.linear_key_size + 2 * self.linear_value_size + 2 * self.linear_value_heads
        return self.hidden_size * (inputs + self.linear_value_size)

    def _latent_attention_parameters(self) -> int:
        queries = self.n_heads * (self.head_dim + self.rope_head_dim)
        query = self.q_lora_rank * (self.hidden_size + queries) if self.q_lora_rank else self.hidden_size * queries
        down = self.hidden_size * (self.kv_lora_rank + self.rope_head_dim)
        up = self.kv_lora_rank * self.n_heads * (self.head_dim + self.v_head_dim)
        return query + down + up + self.n_heads * self.v_head_dim * self.hidden_size

    @property
    def expert_parameters(self) -> int:
        """Weights of all experts that tokens choose among, in all layers; 0 for a dense model."""
        return self.n_mixture_layers * self.n_experts * 3 * self.hidden_size * self.ffn_size

    @property
    def ffn_parameters(self) -> int:
        """Feed-forward weights of all layers and all experts: gate, up and down."""
        widths = (
            self.n_dense_layers * self.dense_ffn_size + self.n_mixture_layers * self.n_shared_experts * self.ffn_size
        )
        if not self.is_mixture:
            widths += (self.n_layers - self.n_dense_layers) * self.ffn_size
        return self.expert_parameters + 3 * self.hidden_size * widths

    @property
    def router_parameters(self) -> int:
        """Expert router weights; 0 for a dense model."""
        return self.n_mixture_layers * self.hidden_size * self.n_experts

    @property
    def head_parameters(self) -> int:
        """Weights of the output head, read in every step whether tied or not."""
        return self.vocab_size * self.hidden_size

    @property
    def n_parameters(self) -> int:
        """All parameters, as a checkpoint counts them."""
        norms = self.hidden_size * (2 * self.n_layers + 1) + self.n_attention_layers * 2 * self.head_dim * self.qk_norm
        norms += self.n_layers * (self.kv_lora_rank + self.q_lora_rank)
        norms += self.n_linear_layers * self._linear_attention_rest()
        norms += self.n_mixture_layers * self.hidden_size * self.shared_expert_gate
        biases = self.n_layers * (self.n_heads + 2 * self.n_kv_heads) * self.head_dim * self.attention_bias
        embedding = self.head_parameters * (1 if self.tied_embeddings else 2)
        return embedding + self.attention_parameters + self.ffn_parameters + self.router_parameters + norms + biases

    def _linear_attention_rest(self) -> int:
        """Convolution, decay and its bias of every head, and the norm of a head's output."""
        conv = self.linear_conv_channels * self.linear_conv_width
        return conv + 2 * self.linear_value_heads + self.linear_value_dim

    def weight_bytes(self, precision_name: str) -> float:
        """Bytes that all weights occupy in memory, the input embedding included.

        Examples
        --------
        >>> round(model("Llama-3.1-70B").weight_bytes("bf16") / 1e9, 1)
        141.1
        """
        width = precision(precision_name)
        heads = self.head_parameters * (1 if self.tied_embeddings else 2)
        return (self.n_parameters - heads) * width.layer_bytes + heads * width.head_bytes

    def kv_bytes_per_token(self, kv_bytes_per_element: float = 2.0) -> float:
        """Bytes of keys and values that one token of context occupies, in all layers that keep them.

        Examples
        --------
        >>> model("Llama-3.1-8B").kv_bytes_per_token()
        131072.0
        """
        if self.has_latent_attention:
            return self.n_layers * (self.kv_lora_rank + self.rope_head_dim) * kv_bytes_per_element
        return 2.0 * self.n_attention_layers * self.n_kv_heads * self.head_dim * kv_bytes_per_element


@cache
def _library() -> dict[str, dict[str, Any]]:
    """Entries by name; one that has the shape of another holds that one's figures and its own sources."""
    entries: dict[str, dict[str, Any]] = json.loads(_LIBRARY.read_text(encoding="utf-8"))
    return {name: entries.get(entry.get("same_shape_as", ""), {}) | entry for name, entry in entries.items()}


def model_names() -> list[str]:
    """Names in the model library.

    Examples
    --------
    >>> "Mixtral-8x7B" in model_names()
    True
    """
    return list(_library())


def model_entry(name: str) -> dict[str, Any]:
    """The library's raw entry: figures, published parameter count and sources.

    Raises
    ------
    BadInput
        If the model is not in the library.

    Examples
    --------
    >>> model_entry("qwen3-0.6b")["published_is_exact"]
    True
    """
    return _library()[_canonical(name)]


def _short(name: str) -> str:
    return name.rsplit("/", 1)[-1].casefold().removesuffix("-instruct")


def same_model(name: str, spec: ModelSpec) -> bool:
    """Whether a name out of a file means ``spec``: case, an owner and a final ``-Instruct`` apart.

    The shipped target is one model at every cost dial, which changes no output, and its drafter goes by the name of its
    kind as well.

    Examples
    --------
    >>> same_model("meta-llama/llama-3.1-8b-instruct", model("Llama-3.1-8B"))
    True
    >>> same_model("specbook-target", model("specbook-target-r8"))
    True
    """
    return _meant(name) == _meant(spec.name)


_ALSO_CALLED = {"specbook-target-r8": "specbook-target", "specbook-small": "specbook-draft"}


def _meant(name: str) -> str:
    short = _short(name)
    return _ALSO_CALLED.get(short, short)


def _canonical(name: str) -> str:
    known = {_short(entry): entry for entry in _library()}
    if _short(name) not in known:
        remedy = f"one of {', '.join(_library())}"
        raise BadInput("no such model in the library", field="model", value=name, remedy=remedy)
    return known[_short(name)]


@cache
def model(name: str) -> ModelSpec:
    """A model of the library by name; an owner before a slash and a final ``-Instruct`` are ignored.

    Raises
    ------
    BadInput
        If the model is not in the library.

    Examples
    --------
    >>> model("meta-llama/Llama-3.1-8B-Instruct").n_layers
    32
    """
    entry = model_entry(name)
    sizes = {item.name: entry[item.name] for item in fields(ModelSpec) if item.name in entry}
    return ModelSpec(name=_canonical(name), **sizes)
