"""The words of a model's name: its family and version in order, and its sizes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from specbook.names.text import loosened
from specbook.roofline.model_spec import model_names

_SIZE = re.compile(r"a?\d+(?:p\d+)?[bm]|\d+x\d+(?:p\d+)?b")
# Words that change neither the shape of a model nor which one is meant.
_FILLERS = {
    "instruct", "chat", "hf", "it", "meta", "gguf", "ud", "model", "small", "dense", "the", "a", "parameters", "params",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ModelWords:
    """Words of a name without their separators.

    Attributes
    ----------
    words : tuple of str
        Family, version and variant, in order.
    sizes : tuple of str
        Sizes such as ``70b``, ``a3b`` or ``8x7b``, sorted; the point of a decimal is a ``p``.
    """

    words: tuple[str, ...]
    sizes: tuple[str, ...]

    @property
    def totals(self) -> tuple[str, ...]:
        """Sizes of whole models, those of what a token uses left out."""
        return tuple(size for size in self.sizes if not size.startswith("a"))


def model_words(text: str) -> ModelWords:
    """The words of a name; an owner before a slash, case and separators do not matter.

    Examples
    --------
    >>> model_words("meta-llama/Llama-3.1-8B-Instruct")
    ModelWords(words=('llama', '3', '1'), sizes=('8b',))
    >>> model_words("qwen2.5 coder 0.5 B") == model_words("Qwen2_5-Coder-0.5B")
    True
    """
    short = re.sub(r"^[\w.-]+/(?=\S)", "", text.strip()).casefold()
    short = re.sub(r"(\d) ?(b|m)(?:illion)?(?![a-z0-9])", r"\1\2", loosened(short))
    short = re.sub(r"(?<![\w.])(\d+)\.(\d+)(?=[bm](?!\w))", r"\1p\2", short)
    short = re.sub(r"([a-z]{3,}?)(v?\d)", r"\1 \2", short)
    parts = [part for part in re.split(r"[^a-z0-9]+", short) if part and part not in _FILLERS]
    sizes = [part for part in parts if _SIZE.fullmatch(part)]
    return ModelWords(tuple(part for part in parts if part not in sizes), tuple(sorted(sizes)))


@cache
def library_words() -> dict[str, ModelWords]:
    """The words of every name in the model library.

    Examples
    --------
    >>> library_words()["Qwen3-30B-A3B"]
    ModelWords(words=('qwen', '3'), sizes=('30b', 'a3b'))
    """
    return {name: model_words(name) for name in model_names()}
