"""Acceptance evidence that ships with specbook: runs read from public files, published figures, and small examples."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from specbook.acceptance.library.published import (
    published_profile,
    published_rows,
    published_sources,
    published_table,
)
from specbook.acceptance.profile import AcceptanceProfile, read_profile
from specbook.checks import BadInput

__all__ = [
    "example_file",
    "library_names",
    "library_profile",
    "library_series",
    "names_beginning",
    "published_sources",
    "published_table",
]

_FOLDER = Path(__file__).parent
_AT_DRAFT_LENGTH = re.compile(r"(?P<stem>.+)-k(?P<draft_length>\d+)")


def library_names() -> list[str]:
    """Names of the shipped profiles, in alphabetical order.

    Examples
    --------
    >>> "spec-bench-sps-vicuna-7b" in library_names(), "golden-al-qwen3.5-thinking-on-k4" in library_names()
    (True, True)
    """
    return list(_names())


@cache
def _names() -> tuple[str, ...]:
    return tuple(sorted({*(path.stem for path in _FOLDER.glob("*.json")), *published_rows()}))


@cache
def library_profile(name: str) -> AcceptanceProfile:
    """A shipped profile by name.

    Raises
    ------
    BadInput
        If there is none of that name; it says which names are close.

    Examples
    --------
    >>> library_profile("spec-bench-sps-vicuna-7b").n_rounds
    40632
    >>> library_profile("golden-al-qwen3.5-thinking-on-k4").mean_acceptance_length
    3.97
    """
    if name in published_rows():
        return published_profile(name)
    if name not in _names():
        raise _no_such(name)
    return read_profile(_FOLDER / f"{name}.json")


def names_beginning(prefix: str) -> list[str]:
    """Names of the shipped profiles that begin like this.

    Raises
    ------
    BadInput
        If there is none.

    Examples
    --------
    >>> names_beginning("vllm-48892")
    ['vllm-48892-mtp-k1', 'vllm-48892-mtp-k8']
    """
    names = [name for name in _names() if name.startswith(prefix)]
    if not names:
        raise _no_such(prefix)
    return names


def _no_such(name: str) -> BadInput:
    close = get_close_matches(name, _names(), n=4)
    listed = "specbook profile library lists them"
    remedy = f"close to it: {', '.join(close)}" if close else f"{listed}, for example vllm-48892-mtp-k8"
    return BadInput("no such profile in the library", value=name, remedy=remedy)


def library_series(names: Iterable[str]) -> dict[str, list[str]]:
    """Names that differ in the draft length alone are put together, by rising draft length.

    Parameters
    ----------
    names : iterable of str
        Names of the library.

    Returns
    -------
    dict of str to list of str
        Short name → names, in the order in which a series first appears.

    Examples
    --------
    >>> library_series(["amd-2026", "vllm-48892-mtp-k8", "vllm-48892-mtp-k1"])
    {'amd-2026': ['amd-2026'], 'vllm-48892-mtp-k{1,8}': ['vllm-48892-mtp-k1', 'vllm-48892-mtp-k8']}
    """
    series: dict[str, dict[int, str]] = {}
    for name in names:
        match = _AT_DRAFT_LENGTH.fullmatch(name)
        stem, draft_length = (match["stem"], int(match["draft_length"])) if match else (name, 0)
        series.setdefault(stem, {})[draft_length] = name
    return {
        _short_name(stem, sorted(members)) if len(members) > 1 else next(iter(members.values())): [
            members[draft_length] for draft_length in sorted(members)
        ]
        for stem, members in series.items()
    }


def _short_name(stem: str, draft_lengths: list[int]) -> str:
    first, last = draft_lengths[0], draft_lengths[-1]
    whole = len(draft_lengths) > 2 and draft_lengths == list(range(first, last + 1))
    return f"{stem}-k{{{first}..{last}}}" if whole else f"{stem}-k{{{','.join(map(str, draft_lengths))}}}"


def example_file(name: str) -> Path:
    """Path of a small invented file in one of the formats that the readers take; for doctests and first steps.

    Examples
    --------
    >>> example_file("vllm-per-request.jsonl").name
    'vllm-per-request.jsonl'
    """
    return _FOLDER / "examples" / name
