"""Receipts of named machines that ship with specbook, so that what is shown of them stays the same."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from specbook.checks import BadInput
from specbook.witness.receipt import Receipt, read_receipt

FOLDER = Path(__file__).parent / "receipts"


def stored_receipts() -> list[str]:
    """Names of the receipts: a machine's quiet run, and one beside other work.

    Examples
    --------
    >>> stored_receipts()
    ['epyc-zen5-2core', 'epyc-zen5-2core-busy']
    """
    return sorted(path.stem for path in FOLDER.glob("*.json"))


@cache
def stored_receipt(name: str) -> Receipt:
    """A receipt by name, checked as any other.

    Raises
    ------
    BadInput
        If there is none of that name.

    Examples
    --------
    >>> stored_receipt("epyc-zen5-2core").verdict
    'pass'
    """
    names = stored_receipts()
    if name not in names:
        raise BadInput("no such receipt", field="receipt", value=name, remedy=f"one of {', '.join(names)}")
    return read_receipt(FOLDER / f"{name}.json")
