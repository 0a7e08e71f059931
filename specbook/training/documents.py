"""Documents of the training corpus and the rule by which one in twenty is held out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

HELD_OUT_ONE_IN = 20


@dataclass(frozen=True, kw_only=True)
class Document:
    """A text and the key that decides on which side of the split it falls.

    Parameters
    ----------
    key : str
        Documents that share a key, such as the parts of one file, stay together. The keys say which documents the
        shipped models have not seen, so they do not change.
    text : str
        ASCII.
    """

    key: str
    text: str


def is_held_out(key: str) -> bool:
    """Whether a document is kept from training: its SHA-256, as a number, is a multiple of twenty.

    Examples
    --------
    >>> is_held_out("bisect.py"), is_held_out("functools.py")
    (False, True)
    """
    return int(hashlib.sha256(key.encode()).hexdigest(), 16) % HELD_OUT_ONE_IN == 0


def split_documents(documents: Iterable[Document]) -> dict[str, list[Document]]:
    """Documents by split, ``train`` or ``held_out``, in the order in which they come.

    Examples
    --------
    >>> parts = split_documents(Document(key=str(number), text="text") for number in range(2000))
    >>> len(parts["train"]) + len(parts["held_out"]), 60 < len(parts["held_out"]) < 140
    (2000, True)
    """
    parts: dict[str, list[Document]] = {"train": [], "held_out": []}
    for document in documents:
        parts["held_out" if is_held_out(document.key) else "train"].append(document)
    return parts
