"""What all names have in common: blanks and case that mean nothing, words for nothing, and how a question is put."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from difflib import get_close_matches

from specbook.checks import shown

# Longer than any name with its remarks; matching would only find words of a sentence.
LONGEST_NAME = 300
_NOTHING = {
    "", "-", "–", "—", "?", "n/a", "na", "nan", "none", "null", "nil", "unknown", "unspecified", "tbd", "not recorded",
    "not stated", "not given", "not specified", "not published", "not known", "not available", "missing",
}  # fmt: skip
_SEPARATORS = re.compile(r"[\s_/\\,;:()\[\]{}\"'`=|~-]+")


def is_nothing(text: str) -> bool:
    """Whether a text stands for a name that nobody wrote down.

    Examples
    --------
    >>> is_nothing(" Not  recorded"), is_nothing("N/A"), is_nothing("L4")
    (True, True, False)
    """
    return " ".join(text.casefold().split()) in _NOTHING or loosened(text) in _NOTHING


def loosened(text: str) -> str:
    """A name in lower case with one blank wherever it had blanks, underscores, hyphens, slashes or brackets.

    Examples
    --------
    >>> loosened("RTX_5060  Ti (sm_120)")
    'rtx 5060 ti sm 120'
    """
    return _SEPARATORS.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()


def unreadable(text: str) -> str | None:
    """Why a text cannot be a name at all: too long, or nothing; None if it can.

    Examples
    --------
    >>> print(unreadable("x" * 400))
    is too long for a name (400 characters)
    """
    if len(text) > LONGEST_NAME:
        return f"is too long for a name ({len(text)} characters)"
    return "is not recorded" if is_nothing(text) else None


def question(text: str, why: str, remedy: str) -> str:
    """One line that says what is unclear about a name and how to state it.

    Examples
    --------
    >>> print(question("H100", "may be one of two", "state --device h100-sxm5"))
    'H100' may be one of two: state --device h100-sxm5
    """
    return f"{shown(text)} {why}: {remedy}"


def nearest(text: str, names: Iterable[str], most: int = 3) -> list[str]:
    """Names that look like a text, the likest first; none if nothing does.

    Examples
    --------
    >>> nearest("rtx 3080", ["rtx-3090", "l4", "m3-max"])
    ['rtx-3090']
    """
    by_loose = {loosened(name): name for name in names}
    return [by_loose[near] for near in get_close_matches(loosened(text), by_loose, n=most, cutoff=0.55)]
