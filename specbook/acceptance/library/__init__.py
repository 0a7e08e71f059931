"""Acceptance evidence that ships with specbook: profiles made from published runs, and small example files."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from specbook.acceptance.profile import AcceptanceProfile, read_profile
from specbook.checks import BadInput

_FOLDER = Path(__file__).parent


def library_names() -> list[str]:
    """Names of the shipped profiles.

    Examples
    --------
    >>> "spec-bench-sps-vicuna-7b" in library_names()
    True
    """
    return sorted(path.stem for path in _FOLDER.glob("*.json"))


@cache
def library_profile(name: str) -> AcceptanceProfile:
    """A shipped profile by name.

    Raises
    ------
    BadInput
        If there is none of that name.

    Examples
    --------
    >>> library_profile("spec-bench-sps-vicuna-7b").n_rounds
    40632
    """
    if name not in library_names():
        raise BadInput("no such profile in the library", value=name, remedy=f"one of: {', '.join(library_names())}")
    return read_profile(_FOLDER / f"{name}.json")


def example_file(name: str) -> Path:
    """Path of a small invented file in one of the formats that the readers take; for doctests and first steps.

    Examples
    --------
    >>> example_file("vllm-per-request.jsonl").name
    'vllm-per-request.jsonl'
    """
    return _FOLDER / "examples" / name
