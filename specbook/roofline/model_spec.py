"""What a forward pass reads and computes: architecture figures, weight formats, and the library of models."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from specbook.checks import BadInput, check_counts

_LIBRARY = Path(__file__).parent / "model_library.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Precision:
    """A weight format.

    Attributes
    ----------
    layer_bytes, head_bytes : float
        Bytes per weight in the layers and in the output head; common checkpoints keep the head wider.
    arithmetic : str
        The rate that the matrix units run at: ``fp16``, or ``fp8`` where the device has it.
    source : str
        Where the widths come from.
    activation_bytes : float
        Bytes per number between products and in the cache.
    """

    layer_bytes: float
    head_bytes: float
    arithmetic: str
    source: str
    activation_bytes: float = 2.0


_GGUF = "ggml-org/ggml block layouts: bytes per block of 32 (Q8_0: 34) or 256 weights (Q4_K: 144, Q6_K: 210)"
PRECISIONS = {
    "bf16": Precision(layer_bytes=2.0, head_bytes=2.0, arithmetic="fp16", source="IEEE 754 / bfloat16: 16 bits"),
    "fp16": Precision(layer_bytes=2.0, head_bytes=2.0, arithmetic="fp16", source="IEEE 754: 16 bits"),
    "fp8": Precision(
        layer_bytes=1.0, head_bytes=2.0, arithmetic="fp8", source="8 bits; checkpoints keep the output head in 16"
    ),
    "int4": Precision(
        layer_bytes=(128 * 4 + 16 + 4) / 8 / 128,
        head_bytes=2.0,
        arithmetic="fp16",
        source="AWQ or GPTQ in groups of 128: 4 bits, a 16-bit scale and a 4-bit zero; output head in 16 bits",
    ),
    "q4_k": Precision(layer_bytes=144 / 256, head_bytes=210 / 256, arithmetic="fp16", source=f"{_GGUF}; head in Q6_K"),
    "q8_0": Precision(layer_bytes=34 / 32, head_bytes=34 / 32, arithmetic="fp16", source=_GGUF),
    "fp32": Precision(
        layer_bytes=4.0, head_bytes=4.0, arithmetic="fp32", source="IEEE 754: 32 bits", activation_bytes=4.0
    ),
}


def precision(name: str) -> Precision:
    """A weight format by name, upper or lower case.

    Raises
    ------
    BadInput
        If there is none of that name.

    Examples
    --------
    >>> precision("Q8_0").layer_bytes
    1.0625
    """
    if name.casefold() not in PRECISIONS:
        remedy = f"one of {', '.join(PRECISIONS)}"
        raise BadInput("no such weight format", field="precision", value=name, remedy=remedy)
    return PRECISIONS[name.casefold()]


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelSpec:
    """Architecture of a decoder with gated feed-forward layers, and grouped-query or multi-head latent attention.

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
    tied_embeddings : bool
        The output head shares the input embedding.
    attention_bias, qk_norm : bool
        Biases on queries, keys and values; norms on queries and keys.

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
    tied_embeddings: bool = False
    attention_bias: bool = False
    qk_norm: bool = False

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
    def attention_parameters(self) -> int:
        """Attention weights of all layers."""
        if self.has_latent_attention:
            return self.n_layers * self._latent_attention_parameters()
        q_size, kv_size = self.n_heads * self.head_dim, self.n_kv_heads * self.head_dim
        return self.n_layers * self.hidden_size * (2 * q_size + 2 * kv_size)

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
        norms = self.hidden_size * (2 * self.n_layers + 1) + self.n_layers * 2 * self.head_dim * self.qk_norm
        norms += self.n_layers * (self.kv_lora_rank + self.q_lora_rank)
        biases = self.n_layers * (self.n_heads + 2 * self.n_kv_heads) * self.head_dim * self.attention_bias
        embedding = self.head_parameters * (1 if self.tied_embeddings else 2)
        return embedding + self.attention_parameters + self.ffn_parameters + self.router_parameters + norms + biases

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
        """Bytes of keys and values that one token of context occupies, in all layers.

        Examples
        --------
        >>> model("Llama-3.1-8B").kv_bytes_per_token()
        131072.0
        """
        if self.has_latent_attention:
            return self.n_layers * (self.kv_lora_rank + self.rope_head_dim) * kv_bytes_per_element
        return 2.0 * self.n_layers * self.n_kv_heads * self.head_dim * kv_bytes_per_element


@cache
def _library() -> dict[str, dict[str, Any]]:
    entries: dict[str, dict[str, Any]] = json.loads(_LIBRARY.read_text(encoding="utf-8"))
    return entries


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
