"""One way to reject a bad argument and one way to reject a bad file.

Kernels raise :class:`ValueError` through the ``check_*`` functions, which name the argument, the offending
value and the allowed range. Files raise :class:`BadInput`, whose text is a single line with file, field, value
and remedy; the command line prints it and exits with code 2.
"""

from __future__ import annotations

import unicodedata
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

_SHOWN_CHARACTERS = 80


class BadInput(ValueError):
    """A file, or a choice of one, that cannot be used; its text is one line.

    Parameters
    ----------
    problem : str
        What is wrong, in a few words.
    remedy : str
        What the reader can do about it.
    file, field : str, optional
        Where it is: a path, and a dotted path inside the file.
    value : object, optional
        The offending value; shown shortened, with control characters escaped.

    Examples
    --------
    >>> print(BadInput("rises", remedy="sort it", file="p.json", field="marginal_acceptance", value=[0.1, 0.2]))
    p.json: marginal_acceptance = [0.1, 0.2]: rises; sort it
    """

    def __init__(
        self, problem: str, *, remedy: str, file: str | None = None, field: str | None = None, value: Any = ...
    ) -> None:
        place = "" if field is None else field
        if value is not ...:
            place = f"{place} = {shown(value)}" if place else shown(value)
        parts = [printable(str(file))] if file is not None else []
        parts += [place] if place else []
        parts.append(f"{problem}; {remedy}")
        super().__init__(printable(": ".join(parts)))
        self.problem, self.file, self.field, self.value, self.remedy = problem, file, field, value, remedy

    def at(self, file: str) -> BadInput:
        """The same in a file, for a check that did not know where it was."""
        return BadInput(self.problem, remedy=self.remedy, file=file, field=self.field, value=self.value)


def printable(text: str) -> str:
    r"""Escape every character that a terminal would act on instead of show.

    Model names come from other people's files; an escape sequence or a right-to-left override in one must not
    reach the screen.

    Examples
    --------
    >>> print(printable("gpt\x1b[31m-red"))
    gpt\x1b[31m-red
    """
    return "".join(c if _is_visible(c) else c.encode("unicode_escape").decode("ascii") for c in text)


def _is_visible(character: str) -> bool:
    return unicodedata.category(character) not in {"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"}


def shown(value: Any) -> str:
    """The value as one short printable line.

    Examples
    --------
    >>> shown("x" * 200).endswith("…")
    True
    """
    text = printable(repr(value))
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"


def _reject(name: str, array: NDArray[Any], bad: NDArray[np.bool_], requirement: str) -> None:
    if np.any(bad):
        value = np.asarray(array)[bad].flat[0]
        raise ValueError(f"{name} {requirement}; got {value!s}")


def check_finite(name: str, value: ArrayLike) -> Floats:
    """Return ``value`` as float64, or raise if an entry is NaN or infinite.

    Examples
    --------
    >>> check_finite("draft_s", 3)
    array(3.)
    """
    array = np.asarray(value, dtype=np.float64)
    _reject(name, array, ~np.isfinite(array), "must be finite")
    return array


def check_probability(name: str, value: ArrayLike) -> Floats:
    """Return ``value`` as float64, or raise if an entry lies outside [0, 1] or is NaN.

    Examples
    --------
    >>> check_probability("conditional_acceptance", 1.2)
    Traceback (most recent call last):
        ...
    ValueError: conditional_acceptance must lie in [0, 1]; got 1.2
    """
    array = np.asarray(value, dtype=np.float64)
    _reject(name, array, ~((array >= 0.0) & (array <= 1.0)), "must lie in [0, 1]")
    return array


def check_positive(name: str, value: ArrayLike) -> Floats:
    """Return ``value`` as float64, or raise if an entry is not finite and greater than zero.

    Examples
    --------
    >>> check_positive("batch", [1, 2])
    array([1., 2.])
    """
    array = check_finite(name, value)
    _reject(name, array, array <= 0.0, "must be greater than 0")
    return array


def check_non_negative(name: str, value: ArrayLike) -> Floats:
    """Return ``value`` as float64, or raise if an entry is not finite or is below zero.

    Examples
    --------
    >>> check_non_negative("context", 0)
    array(0.)
    """
    array = check_finite(name, value)
    _reject(name, array, array < 0.0, "must not be negative")
    return array


def check_counts(name: str, value: ArrayLike, minimum: int = 0) -> NDArray[np.int64]:
    """Return ``value`` as int64, or raise if an entry is not a whole number of at least ``minimum``.

    Examples
    --------
    >>> check_counts("draft_length", [0, 4])
    array([0, 4])
    """
    array = check_finite(name, value)
    _reject(name, array, (array < minimum) | (array != np.floor(array)), f"must be whole and at least {minimum}")
    return array.astype(np.int64)


def check_count(name: str, value: ArrayLike, minimum: int = 0) -> int:
    """Return ``value`` as one whole number, or raise if it is none of at least ``minimum``.

    Examples
    --------
    >>> check_count("max_batch", 4.0)
    4
    """
    array = check_counts(name, value, minimum)
    if array.ndim:
        raise ValueError(f"{name} must be one number; got {value!r}")
    return int(array)


def check_non_increasing(name: str, array: Floats) -> Floats:
    """Return ``array``, or raise if it rises anywhere along its last axis.

    Examples
    --------
    >>> check_non_increasing("marginal_acceptance", np.array([0.5, 0.7]))
    Traceback (most recent call last):
        ...
    ValueError: marginal_acceptance must not rise from one position to the next; got 0.7
    """
    rises = np.diff(array, axis=-1) > 0.0
    _reject(name, array[..., 1:], rises, "must not rise from one position to the next")
    return array


def check_draft_axis(name: str, array: Floats) -> Floats:
    """Return ``array``, or raise if it is a scalar where a vector over draft positions is needed.

    Examples
    --------
    >>> check_draft_axis("conditional_acceptance", np.float64(0.8))
    Traceback (most recent call last):
        ...
    ValueError: conditional_acceptance needs a draft axis; got a scalar
    """
    if np.ndim(array) == 0:
        raise ValueError(f"{name} needs a draft axis; got a scalar")
    return array
