"""Weight formats: bytes per weight in the layers and in the output head, and the arithmetic that they run in."""

from __future__ import annotations

from dataclasses import dataclass

from specbook.checks import BadInput


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


_GGUF = (
    "ggml-org/ggml block layouts: bytes per block of 32 (Q4_0: 18, Q8_0: 34) or 256 weights (Q4_K: 144, Q5_K: 176, "
    "Q6_K: 210)"
)
_MIXTURE = (
    "mean of the layers, worked out of the bits per weight of Llama-3.1-8B's whole file in ggml-org/llama.cpp "
    "tools/quantize/README.md (commit 311c2c9f); output head in Q6_K. Other shapes mix their tensors a bit differently"
)
# Llama-3.1-8B, whose files that table measures: all weights, and those of its embedding, which are those of its head.
_FILE_WEIGHTS, _EMBEDDING_WEIGHTS = 8_030_261_248, 525_336_576
_Q6_K_BITS = 8 * 210 / 256


def _mixed(file_bits: float, embedding_bits: float) -> Precision:
    """A mixture of block layouts; ``embedding_bits`` are those of the layout that gives the mixture its name."""
    layers = _FILE_WEIGHTS - 2 * _EMBEDDING_WEIGHTS
    layer_bits = (_FILE_WEIGHTS * file_bits - _EMBEDDING_WEIGHTS * (_Q6_K_BITS + embedding_bits)) / layers
    return Precision(layer_bytes=layer_bits / 8, head_bytes=_Q6_K_BITS / 8, arithmetic="fp16", source=_MIXTURE)


def _blocks(block_bytes: int, weights: int, head_bytes: float, source: str = _GGUF) -> Precision:
    return Precision(layer_bytes=block_bytes / weights, head_bytes=head_bytes, arithmetic="fp16", source=source)


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
    "q4_k": _blocks(144, 256, 210 / 256, f"{_GGUF}; head in Q6_K"),
    "q8_0": _blocks(34, 32, 34 / 32),
    "fp32": Precision(
        layer_bytes=4.0, head_bytes=4.0, arithmetic="fp32", source="IEEE 754: 32 bits", activation_bytes=4.0
    ),
    "nvfp4": Precision(
        layer_bytes=9 / 16,
        head_bytes=2.0,
        arithmetic="fp8",
        source="4 bits and an 8-bit scale for every 16 weights, as ai-dynamo/aiconfigurator counts it (9/16 byte); "
        "output head in 16 bits. Arithmetic as for fp8, which devices with 4-bit units exceed",
    ),
    "mxfp4": _blocks(
        17,
        32,
        2.0,
        "ggml-org/ggml block layout: 17 bytes for 32 weights, one exponent and 4 bits each; head in 16",
    ),
    "q4_k_s": _mixed(4.6672, 8 * 144 / 256),
    "q4_k_m": _mixed(4.8944, 8 * 144 / 256),
    "q5_k_s": _mixed(5.5704, 8 * 176 / 256),
    "q5_k_m": _mixed(5.7036, 8 * 176 / 256),
    "q6_k": _blocks(210, 256, 210 / 256),
    "iq4_xs": _mixed(4.4597, 8 * 136 / 256),
    "q4_0": _blocks(18, 32, 210 / 256, f"{_GGUF}; head in Q6_K"),
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
    >>> round(8 * precision("q4_k_m").layer_bytes, 2)
    4.8
    """
    if name.casefold() not in PRECISIONS:
        remedy = f"one of {', '.join(PRECISIONS)}"
        raise BadInput("no such weight format", field="precision", value=name, remedy=remedy)
    return PRECISIONS[name.casefold()]
