"""What a sample is a time of: a product, an attention layer, a pass, each with everything that its time depends on."""

from __future__ import annotations

from dataclasses import dataclass

from specbook.hardware.probe.models import Heads, Weights


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class ProductCase:
    """``rows`` vectors with weights of (n_out, n_in)."""

    arithmetic: str
    weights: Weights
    rows: int


@dataclass(frozen=True, kw_only=True, slots=True)
class AttentionCase:
    """One layer: ``rows`` new positions in each of ``batch`` sequences over ``context`` tokens."""

    arithmetic: str
    batch: int
    context: int
    rows: int

    def kv_values(self, heads: Heads, room_tokens: int) -> int:
        """Keys that it needs; as many values."""
        return self.batch * heads.kv_values_per_token * (self.context + room_tokens)


@dataclass(frozen=True, kw_only=True, slots=True)
class PassCase:
    """One pass of a scratch model over ``width`` positions in each of ``batch`` sequences."""

    model: str
    arithmetic: str
    batch: int
    context: int
    width: int


@dataclass(frozen=True, slots=True)
class StreamCase:
    """A kernel of STREAM over the large arrays."""

    kernel: str


@dataclass(frozen=True, slots=True)
class RateCase:
    """The large product (``matmul``) or the call of no size (``call``)."""

    what: str


Case = ProductCase | AttentionCase | PassCase | StreamCase | RateCase

MATMUL, CALL = RateCase("matmul"), RateCase("call")
