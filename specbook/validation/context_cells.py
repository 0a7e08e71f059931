"""What the cells of a series say about lengths of context, as people write them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from specbook.checks import BadInput
from specbook.validation.cells import number

_MOST_TOKENS = 1e9
_FIGURE = re.compile(r"[+\-−]?\d[\d., ’'_\u00a0\u202f]*(?:e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_POINT_OR_THOUSAND = re.compile(r"[1-9]\d{0,2}\.\d{3}", re.ASCII)


def is_figure(text: str) -> bool:
    """Whether a cell is meant as one number, whatever is wrong with it.

    Examples
    --------
    >>> is_figure("1,024"), is_figure("-5"), is_figure("32k")
    (True, True, False)
    """
    return _FIGURE.fullmatch(text) is not None


def context_figure(text: str, *, decimal_comma: bool = False) -> float:
    """Tokens of context from a cell that is one number, at least 1.

    Parameters
    ----------
    text : str
        Also a mean, such as "4096.5".
    decimal_comma : bool
        As for :func:`number`.

    Raises
    ------
    BadInput
        If it is no number of tokens, or may hold a thousands separator.

    Examples
    --------
    >>> context_figure("4096.5")
    4096.5
    """
    if _POINT_OR_THOUSAND.fullmatch(text):
        raise BadInput("may hold a thousands separator", remedy=f"write {text.replace('.', '')} if it does")
    value = number(text, decimal_comma=decimal_comma)
    if not 1.0 <= value <= _MOST_TOKENS:
        raise BadInput("is no number of tokens in a cache", remedy="leave the cell empty if nothing was recorded")
    return value


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextTokens:
    """Tokens that a cell on the context states, each None where it states none.

    Attributes
    ----------
    context, prompt, output : float or None
        Tokens in the cache, in the prompt, and generated.
    derived : tuple of str
        How each figure that is not in the cell as such was worked out.
    """

    context: float | None = None
    prompt: float | None = None
    output: float | None = None
    derived: tuple[str, ...] = ()


_PARTS = re.compile(r"[,;/+&]|\band\b")
_LENGTH = re.compile(r"(\d+(?:\.\d+)?)(\s?k\b)?(?:\s?(?:-|–|to)\s?(\d+(?:\.\d+)?)(\s?k\b)?)?", re.ASCII)
_LONGEST_CELL = 200
_WORD = re.compile(r"[^\W\d_]+")
_WHOSE = {
    "prompt": frozenset({"in", "input", "inputs", "prompt", "prompts", "isl", "prefill"}),
    "output": frozenset({"out", "output", "outputs", "generated", "new", "osl", "decode", "completion"}),
    "context": frozenset({"context", "ctx", "kv"}),
}
_FILLERS = frozenset({"tok", "toks", "token", "tokens", "k", "about", "around", "ca", "approx", "to", "length", "of"})


def context_tokens(text: str) -> ContextTokens:
    """Tokens of context, prompt and output.

    Parameters
    ----------
    text : str
        "4096", "32k", "167 in, 512 out", "prompts ~80-170 tok, 512 out". A length without a word is the context's; a
        range is its mean; 1k is 1024.

    Raises
    ------
    BadInput
        If it says something else.

    Examples
    --------
    >>> context_tokens("prompts ~80-170 tok, 512 out")
    ContextTokens(context=None, prompt=125.0, output=512.0, derived=('prompt tokens are the mean of 80 to 170',))
    """
    found: dict[str, float] = {}
    derived: list[str] = []
    for part in _PARTS.split(text.casefold()) if len(text) <= _LONGEST_CELL else [""]:
        whose = _whose(part)
        lengths = _LENGTH.findall(part)
        if whose is None or whose in found or len(lengths) != 1:
            raise BadInput("is no length of a context", remedy="write 4096, or 167 in, 512 out")
        found[whose], how = _tokens(*lengths[0])
        derived += [f"{whose} tokens are {how}"] if how else []
    return ContextTokens(**found, derived=tuple(derived))


def _whose(part: str) -> str | None:
    """What a length is the length of; None if the words say something else."""
    words = set(_WORD.findall(part)) - _FILLERS
    named = [whose for whose, names in _WHOSE.items() if words & names]
    is_understood = len(named) <= 1 and words <= frozenset().union(*_WHOSE.values()) and not _has_minus(part)
    return (named or ["context"])[0] if is_understood else None


def _has_minus(part: str) -> bool:
    return part.lstrip().startswith(("-", "−"))


def _tokens(low: str, low_k: str, high: str, high_k: str) -> tuple[float, str]:
    """Tokens of a length or of the middle of a range, and how they were worked out."""
    first = float(low) * (1024 if low_k or (high and high_k) else 1)
    last = float(high) * (1024 if high_k else 1) if high else first
    if last < first or last > _MOST_TOKENS or not (first.is_integer() and last.is_integer()):
        raise BadInput("is no length of a context", remedy="write 4096, or 167 in, 512 out")
    if high:
        return (first + last) / 2.0, f"the mean of {first:.0f} to {last:.0f}"
    return first, f"{first:.0f} for {low}k" if low_k else ""
