"""A tree of drafts in the words of an option: children by depth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from specbook.checks import BadInput

if TYPE_CHECKING:
    from specbook.engine.draft import TreeShape

TreeOption = Annotated[str | None, typer.Option("--tree", help="Draft trees: children by depth, such as 3,2,1.")]

_MOST_CHILDREN, _MOST_NODES = 64, 256


def tree_of(text: str) -> TreeShape:
    """The tree that ``--tree`` names.

    Raises
    ------
    BadInput
        If it is no list of children, or too large.

    Examples
    --------
    >>> tree_of("2,1").parents
    (-1, -1, 0, 1)
    """
    from specbook.engine.draft import tree_shape

    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and 0 < int(part[:9]) <= _MOST_CHILDREN for part in parts):
        raise BadInput("is no list of children by depth", field="--tree", value=text, remedy="such as 3,2,1")
    shape = tree_shape([int(part) for part in parts])
    if shape.n_nodes > _MOST_NODES:
        problem = f"has {shape.n_nodes} nodes"
        raise BadInput(problem, field="--tree", value=text, remedy=f"draft at most {_MOST_NODES}")
    return shape
