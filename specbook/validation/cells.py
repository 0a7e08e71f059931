"""What the cells of a series hold: numbers, shares, counts and lengths of context, as people write them.

Nothing is guessed. A cell that could be read in two ways is refused with both, and a cell that is empty, or says in
words that nothing was recorded, is None.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from specbook.checks import BadInput

_MISSING = frozenset(
    {"", "-", "–", "—", "?", "n/a", "na", "none", "null", "not recorded", "not published", "unknown"},
)
_PLAIN = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d{1,4})?", re.ASCII | re.IGNORECASE)
_GROUPED = re.compile(r"[+-]?\d{1,3}(?:[ .,'’_\u00a0\u202f]\d{3})+(?:[.,]\d*)?", re.ASCII)
_COMMA = re.compile(r"[+-]?\d*,\d+", re.ASCII)
_COMMA_OR_THOUSAND = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}", re.ASCII)
_NOT_FINITE = re.compile(r"[+-]?(?:nan|inf(?:inity)?)", re.IGNORECASE)
# Beyond these, whole numbers are no longer exact as floats, and no run has so many.
MOST_COUNTED = 2.0**53
_MOST_TOKENS = 1e9


def is_missing(text: str) -> bool:
    """Whether a cell for a number says nothing.

    Examples
    --------
    >>> is_missing(""), is_missing("n/a"), is_missing("0")
    (True, True, False)
    """
    return not text or text.casefold() in _MISSING


def number(text: str, *, decimal_comma: bool = False, is_below_1000: bool = False) -> float:
    """One finite number.

    Parameters
    ----------
    text : str
        Without blanks around it.
    decimal_comma : bool
        Whether "54,7" may be a number, as in a table that is not separated by commas.
    is_below_1000 : bool
        Whether the quantity cannot reach a thousand, so that "1,851" can only be a decimal comma.

    Raises
    ------
    BadInput
        If it is none, not finite, or may hold a thousands separator.

    Examples
    --------
    >>> number("86.4"), number("54,7", decimal_comma=True)
    (86.4, 54.7)
    >>> number("1,488", decimal_comma=True)
    Traceback (most recent call last):
        ...
    specbook.checks.BadInput: has a comma that may stand for thousands or for decimals; write 1488 or 1.488
    """
    value = float(text if _PLAIN.fullmatch(text) else _with_point(text, decimal_comma, is_below_1000))
    if not math.isfinite(value):
        raise BadInput("is too large for a number", remedy="check the cell")
    return value


def _with_point(text: str, decimal_comma: bool, is_below_1000: bool) -> str:
    is_comma = _COMMA.fullmatch(text) is not None
    pointed = text.replace(",", ".")
    if is_comma and _COMMA_OR_THOUSAND.fullmatch(text) and not (decimal_comma and is_below_1000):
        remedy = f"write {text.replace(',', '')} or {pointed}"
        raise BadInput("has a comma that may stand for thousands or for decimals", remedy=remedy)
    if is_comma and decimal_comma:
        return pointed
    if is_comma:
        raise BadInput("has a decimal comma in a table separated by commas", remedy=f"write {pointed}")
    if _GROUPED.fullmatch(text):
        raise BadInput("may hold a thousands separator", remedy="write the digits without one, and a decimal point")
    if _NOT_FINITE.fullmatch(text):
        raise BadInput("is not finite", remedy="leave the cell empty if nothing was measured")
    raise BadInput("is not a number", remedy="leave the cell empty if nothing was recorded")


def whole(value: float, *, least: int, most: float = MOST_COUNTED) -> int:
    """A whole number from ``least`` to ``most``.

    Raises
    ------
    BadInput
        If it is none.

    Examples
    --------
    >>> whole(8.0, least=1)
    8
    """
    if value != math.floor(value):
        raise BadInput("is not a whole number", remedy="it counts things")
    if value < least:
        raise BadInput(f"is below {least}", remedy="correct it, or leave the cell empty")
    if value > most:
        raise BadInput(f"is above {most:.0f}", remedy="correct it, or leave the cell empty")
    return int(value)


def share(text: str, *, in_percent: bool = False, decimal_comma: bool = False) -> float:
    """A share in [0, 1], from a fraction, or from a percentage that says so.

    Parameters
    ----------
    text : str
        "0.547", "54.7 %" or "54.7%".
    in_percent : bool
        Whether the column or the unit says that its numbers are percentages.
    decimal_comma : bool
        As for :func:`number`.

    Raises
    ------
    BadInput
        If it is no number, or outside the range.

    Examples
    --------
    >>> share("0.5"), share("50 %"), share("50", in_percent=True)
    (0.5, 0.5, 0.5)
    >>> share("54.7")
    Traceback (most recent call last):
        ...
    specbook.checks.BadInput: is above 1: percent?; write 0.547 or 54.7 %
    """
    has_sign = text.endswith("%")
    bare = text[:-1].rstrip() if has_sign else text
    stated = number(bare, decimal_comma=decimal_comma, is_below_1000=True)
    if stated < 0.0:
        raise BadInput("is below 0", remedy="it is a share of the drafted tokens")
    if has_sign or in_percent:
        if stated > 100.0:
            raise BadInput("is above 100 %", remedy="it is a share of the drafted tokens")
        return stated / 100.0
    if stated > 100.0:
        raise BadInput("is above 1", remedy="it is a share of the drafted tokens")
    if stated > 1.0:
        raise BadInput("is above 1: percent?", remedy=f"write {stated / 100.0:.6g} or {stated:.6g} %")
    return stated


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
