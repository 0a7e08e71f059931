"""What the person importing knows and the file may not say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from specbook.acceptance.importing.formats import FORMATS
from specbook.acceptance.importing.pool import LABELS
from specbook.acceptance.readers.values import LONGEST_DRAFT, number, text, whole
from specbook.checks import BadInput

_UNKNOWN = frozenset({"–", "-", "", "unknown"})


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """Format, labels, filter and bootstrap of an import.

    Attributes
    ----------
    format : str
        A key of :data:`FORMATS`, or ``auto``.
    labels : dict
        Values for target, drafter, method, domain, temperature or draft_length that the files do not state, or that
        override what they state; None leaves a label alone. A stated ``draft_length`` says that every round drafted
        that many tokens, and must not contradict the files.
    only : dict of str to tuple of str
        Keep only observations whose label is one of these, such as ``{"domain": ("code",), "run": ("cuda",)}``;
        numbers are compared as numbers, and ``–`` or ``unknown`` means that the source does not say.
    n_replicates, seed : int
        Of the bootstrap that gives the intervals.

    Raises
    ------
    BadInput
        If there is no such format or label.
    """

    format: str = "auto"
    labels: dict[str, Any] = field(default_factory=dict)
    only: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    n_replicates: int = 2000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.format not in ("auto", *FORMATS):
            remedy = f"one of auto, {', '.join(FORMATS)}"
            raise BadInput("no such format", field="--format", value=self.format, remedy=remedy)
        for name, value in self.labels.items():
            _check_label(name, value)
        for name in self.only:
            if name not in LABELS:
                raise BadInput("no such label", field="--only", value=name, remedy=f"one of {', '.join(LABELS)}")

    @property
    def stated(self) -> dict[str, Any]:
        """Labels that were stated."""
        return {name: value for name, value in self.labels.items() if value is not None}

    def keeps(self, labels: Mapping[str, Any]) -> bool:
        """Whether an observation of these labels is wanted."""
        return all(any(is_value(labels.get(name), text) for text in wanted) for name, wanted in self.only.items())


def _check_label(name: str, value: Any) -> None:
    option = f"--{name.replace('_', '-')}"
    if name not in LABELS or name == "run":
        remedy = f"one of {', '.join(label for label in LABELS if label != 'run')}"
        raise BadInput("no such label", field="labels", value=name, remedy=remedy)
    if value is None:
        return
    if name == "draft_length":
        if whole(value, "options", option, minimum=1) > LONGEST_DRAFT:
            raise BadInput(
                f"must be at most {LONGEST_DRAFT}", field=option, value=value, remedy="no engine drafts more"
            )
    elif name == "temperature":
        number(value, "options", option)
    elif text(value, "options", option) is None:
        raise BadInput("must be text", field=option, value=value, remedy="give a name")


def is_value(value: Any, text: str) -> bool:
    """Whether a label is what a person wrote.

    Examples
    --------
    >>> is_value(0.0, "0"), is_value(None, "–"), is_value("code", "code"), is_value("4", "4.0")
    (True, True, True, False)
    """
    if value is None:
        return text.casefold() in _UNKNOWN
    if isinstance(value, int | float):
        try:
            return float(text) == value
        except ValueError:
            return False
    return str(value) == text
