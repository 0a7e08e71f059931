"""The weight format in a model's name: a suffix such as ``-FP8``, ``-AWQ`` or ``-Q4_K_M``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from specbook.names.text import loosened
from specbook.roofline.model_spec import PRECISIONS

# In a loosened name; what stands for a key of PRECISIONS under another name comes after the mark.
_WORDS = (
    (r"i?q\d k(?: (?:xs|xl|[sml]))?", ""), (r"iq\d (?:xxs|xs|nl|[smk])", ""), (r"q\d [01]", ""), (r"q\d", ""),
    (r"nvfp4", ""), (r"mxfp4", ""), (r"fp4", ""), (r"fp8(?: (?:dynamic|block|e4m3))?", "fp8"), (r"awq", "int4"),
    (r"gptq", "int4"), (r"w4a16", "int4"), (r"int4", ""), (r"int8", ""), (r"w8a8", ""), (r"bf16|bfloat16", "bf16"),
    (r"f16|fp16|float16", "fp16"), (r"f32|fp32|float32", "fp32"), (r"[2-8] ?bit", ""),
)  # fmt: skip
_FORMATS = [(re.compile(rf"(?<!\w)(?<!\d\.)(?:{word})(?!\w)(?!\.\d)"), meant) for word, meant in _WORDS]


@dataclass(frozen=True, kw_only=True, slots=True)
class StatedFormat:
    """What a name says about its weights.

    Attributes
    ----------
    precision : str or None
        A key of :data:`~specbook.roofline.model_spec.PRECISIONS`; None if none is stated, or none that is modelled.
    stated : tuple of str
        The formats as written, loosened.
    rest : str
        The loosened name without them.
    """

    precision: str | None
    stated: tuple[str, ...]
    rest: str

    @property
    def is_contradictory(self) -> bool:
        """Whether two formats are stated."""
        return len({_key(each) or each for each in self.stated}) > 1

    @property
    def unmodelled(self) -> str | None:
        """The format that is stated and not modelled; None if there is none such."""
        return self.stated[0] if self.stated and self.precision is None else None

    @property
    def remark(self) -> str:
        """What to add to what was understood; empty if no format is stated."""
        if not self.stated:
            return ""
        if self.unmodelled is not None:
            return f", weights in {self.unmodelled}, which is not modelled: state --precision"
        return f", weights in {self.precision}"


def stated_format(text: str) -> StatedFormat:
    """The weight format that a name states, and the name without it.

    Examples
    --------
    >>> stated_format("Meta-Llama-3.1-8B-Instruct-Q4_K_M").precision
    'q4_k_m'
    >>> stated_format("Qwen3.6-35B-A3B-AWQ").precision, stated_format("Qwen3-8B").precision
    ('int4', None)
    """
    rest, stated = loosened(re.sub(r"\.gguf$", "", text.strip(), flags=re.IGNORECASE)), []
    for pattern, _ in _FORMATS:
        stated += pattern.findall(rest)
        rest = " ".join(pattern.sub(" ", rest).split())
    known = {_key(each) for each in stated} - {None}
    return StatedFormat(precision=known.pop() if len(known) == 1 else None, stated=tuple(stated), rest=rest)


def _key(stated: str) -> str | None:
    """The key of a stated format; None if it is not modelled."""
    meant = next((meant for pattern, meant in _FORMATS if pattern.fullmatch(stated)), "")
    key = meant or stated.replace(" ", "_")
    return key if key in PRECISIONS else None
