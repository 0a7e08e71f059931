"""Probes of named machines that ship with specbook, so that what is shown of them stays the same."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from specbook.checks import BadInput
from specbook.files import read_model
from specbook.hardware.profile import HardwareProfile

_FOLDER = Path(__file__).parents[1] / "probes"


def stored_probe_names() -> list[str]:
    """Names of the machines.

    Examples
    --------
    >>> "epyc-zen4-2core" in stored_probe_names()
    True
    """
    return sorted(path.stem for path in _FOLDER.glob("*.json"))


@cache
def stored_probe(name: str) -> HardwareProfile:
    """The profile of a machine that was probed for the book.

    Raises
    ------
    BadInput
        If there is none of that name.

    Examples
    --------
    >>> stored_probe("epyc-zen4-2core").probe.backend
    'numpy'
    """
    names = stored_probe_names()
    if name not in names:
        raise BadInput("no such probe", field="probe", value=name, remedy=f"one of {', '.join(names)}")
    return read_model(_FOLDER / f"{name}.json", HardwareProfile)
