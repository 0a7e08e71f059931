"""What the gates are run on: each drafter as a chain and as a tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specbook.engine.draft import TreeShape, chain_shape
from specbook.engine.drafters.drafter import Drafter
from specbook.engine.library.drafters import DRAFTER_NAMES, branched_shape, drafter_name, shipped_drafter
from specbook.engine.transformer import Transformer


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """A drafter in one form.

    Attributes
    ----------
    name : str
        Of the drafter.
    form : str
        ``chain`` or ``tree``.
    drafter : Drafter
        May be shared by cases, since it begins anew with every text.
    shape : TreeShape
    """

    name: str
    form: str
    drafter: Drafter
    shape: TreeShape


def drafter_cases(name: str, drafter: Drafter, draft_length: int = 4) -> list[Case]:
    """One drafter as a chain and as a tree of the same depth."""
    shapes = {"chain": chain_shape(draft_length), "tree": branched_shape(draft_length)}
    return [Case(name=name, form=form, drafter=drafter, shape=shape) for form, shape in shapes.items()]


def shipped_cases(target: Transformer, names: Sequence[str] = DRAFTER_NAMES) -> list[Case]:
    """Drafters of the shipped pair, each once, as chain and tree.

    Raises
    ------
    ValueError
        If there is no such drafter.

    Examples
    --------
    >>> from specbook.engine.library import load_target
    >>> [(case.name, case.form) for case in shipped_cases(load_target(), ["mtp"])]
    [('early_exit', 'chain'), ('early_exit', 'tree')]
    """
    unique = dict.fromkeys(map(drafter_name, names))
    return [case for name in unique for case in drafter_cases(name, shipped_drafter(name, target))]
