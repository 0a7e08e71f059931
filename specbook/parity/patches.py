"""Functions replaced on purpose, and put back."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

# The modules that hold the replacements keep the functions that they wrap.
_KEPT = ("specbook.parity.faults", "specbook.parity.patches")


@dataclass(slots=True)
class Patches:
    """Attributes that were replaced, to be put back."""

    _saved: list[tuple[Any, str, Any]] = field(default_factory=list)

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Replace an attribute of a class or module."""
        self._saved.append((owner, name, vars(owner)[name]))
        setattr(owner, name, value)

    def replace(self, original: Any, replacement: Any) -> None:
        """Replace a function in every module of the package that has bound it."""
        for name, module in list(sys.modules.items()):
            if name.startswith("specbook.") and not name.startswith(_KEPT):
                for attribute, value in list(vars(module).items()):
                    if value is original:
                        self.set(module, attribute, replacement)

    def undo(self) -> None:
        """Put everything back."""
        while self._saved:
            setattr(*self._saved.pop())
