"""Names for profiles that are written side by side: what tells them apart, fit for a file name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

_LONGEST_PART, _LONGEST_NAME = 60, 150
_PREFIX = {"draft_length": "k", "temperature": "t"}


def profile_names(labels: Sequence[str], keys: Sequence[tuple[Any, ...]]) -> list[str]:
    """A name for each key: the labels in which keys differ; numbered where they still clash.

    Parameters
    ----------
    labels : sequence of str
        Names of the entries of a key.
    keys : sequence of tuple
        Different from each other.

    Examples
    --------
    >>> profile_names(["target", "draft_length"], [("org/Model A", 4), ("org/Model A", 8), ("org/model-a", 8)])
    ['model-a-k4', 'model-a-k8', 'model-a-k8-2']
    >>> profile_names(["target"], [("t",)])
    ['acceptance']
    """
    varying = [index for index in range(len(labels)) if len({key[index] for key in keys}) > 1]
    used: set[str] = set()
    names = []
    for key in keys:
        parts = [_slug(labels[index], key[index]) for index in varying]
        stem = _capped("-".join(part for part in parts if part) or "acceptance")
        name, number = stem, 1
        while name in used:
            number += 1
            name = f"{stem}-{number}"
        used.add(name)
        names.append(name)
    return names


def _slug(label: str, value: Any) -> str:
    if value is None:
        return ""
    text = str(value).casefold()
    if label in ("target", "drafter"):  # the last part of a path or of organisation/model tells models apart
        text = text.replace("\\", "/").rstrip("/").rpartition("/")[2]
    return _PREFIX.get(label, "") + (re.sub(r"[^a-z0-9.]+", "-", text).strip("-.")[:_LONGEST_PART] or "unnamed")


def _capped(name: str) -> str:
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[:_LONGEST_NAME]}-{blake2b(name.encode(), digest_size=4).hexdigest()}"
