"""A draft: a tree of proposed tokens, each with the distribution it was drawn from. A chain is one without branches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from specbook.checks import check_counts
from specbook.engine.layout import check_parents, depths
from specbook.engine.sampling import Probabilities


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeShape:
    """Which nodes a draft may have.

    Parameters
    ----------
    parents : sequence of int
        Parent of each node, −1 for children of the last token; parents come first. Siblings are ranked in order.

    Raises
    ------
    ValueError
        If a parent is no earlier node.

    Examples
    --------
    >>> chain_shape(3).parents, tree_shape((2, 1)).parents
    ((-1, 0, 1), (-1, -1, 0, 1))
    """

    parents: tuple[int, ...]

    def __post_init__(self) -> None:
        check_parents(self.parents)

    @property
    def n_nodes(self) -> int:
        """Drafted tokens."""
        return len(self.parents)

    @property
    def depth(self) -> int:
        """Tokens on the longest path: what a chain calls the draft length."""
        return int(depths(self.parents).max(initial=0))

    @property
    def is_chain(self) -> bool:
        """Whether no node has a sibling."""
        return all(parent == node - 1 for node, parent in enumerate(self.parents))

    def children(self, node: int) -> list[int]:
        """Children of a node, or of the root (−1), best rank first."""
        return [child for child, parent in enumerate(self.parents) if parent == node]

    def cut(self, depth: int) -> TreeShape:
        """The nodes down to a depth.

        Examples
        --------
        >>> tree_shape((2, 2)).cut(1).n_nodes
        2
        """
        if depth >= self.depth:
            return self
        kept = [node for node, level in enumerate(depths(self.parents)) if level <= depth]
        number = {-1: -1} | {node: index for index, node in enumerate(kept)}
        return TreeShape(parents=tuple(number[self.parents[node]] for node in kept))


def chain_shape(draft_length: int) -> TreeShape:
    """A chain of K tokens; 0 drafts nothing.

    Examples
    --------
    >>> chain_shape(0).n_nodes
    0
    """
    length = int(check_counts("draft_length", draft_length))
    return TreeShape(parents=tuple(range(-1, length - 1)))


def tree_shape(branching: Sequence[int]) -> TreeShape:
    """A tree in which every node of depth d has ``branching[d]`` children, level by level.

    Examples
    --------
    >>> tree_shape((3, 1)).n_nodes
    6
    """
    parents: list[int] = []
    level = [-1]
    for width in check_counts("branching", list(branching), minimum=1):
        first = len(parents)
        parents += [node for node in level for _ in range(int(width))]
        level = list(range(first, len(parents)))
    return TreeShape(parents=tuple(parents))


def ranked_shape(ranks: Sequence[Sequence[int]]) -> TreeShape:
    """A tree from paths of ranks, as Medusa states its trees: (0,) is the first child, (0, 1) its second child.

    Parameters
    ----------
    ranks : sequence of sequences of int
        Each path once, parents before children, siblings in order of rank.

    Raises
    ------
    ValueError
        If a path's parent, or its sibling of the rank before, does not come earlier.

    Examples
    --------
    >>> ranked_shape([(0,), (1,), (0, 0)]).parents
    (-1, -1, 0)
    """
    number: dict[tuple[int, ...], int] = {(): -1}
    for path in map(tuple, ranks):
        before = path[:-1] if not path or path[-1] == 0 else (*path[:-1], path[-1] - 1)
        if path in number or path[:-1] not in number or before not in number:
            raise ValueError(f"paths must come once, after their parent and the sibling before; got {path}")
        number[path] = len(number) - 1
    return TreeShape(parents=tuple(number[path[:-1]] for path in list(number)[1:]))


@dataclass(kw_only=True, slots=True)
class Draft:
    """Proposed tokens.

    Attributes
    ----------
    tokens : list of int
    parents : list of int
        As in :class:`TreeShape`. Siblings stand in the order in which verification tries them.
    probabilities : list of (n_vocab,) ndarray of float64, or None
        The distribution that each token was drawn from, given the siblings before it; None if it was chosen without
        chance. Verification is exact only if this is true.
    """

    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    probabilities: list[Probabilities | None] = field(default_factory=list)

    def add(self, token: int, parent: int, probabilities: Probabilities | None) -> int:
        """Append a node and return its index."""
        self.tokens.append(token)
        self.parents.append(parent)
        self.probabilities.append(probabilities)
        return len(self.tokens) - 1

    @property
    def n_nodes(self) -> int:
        """Drafted tokens."""
        return len(self.tokens)

    @property
    def depth(self) -> int:
        """Tokens on the longest path."""
        return int(depths(self.parents).max(initial=0))

    @property
    def is_chain(self) -> bool:
        """Whether no node has a sibling."""
        return all(parent == node - 1 for node, parent in enumerate(self.parents))

    def children(self) -> dict[int, list[int]]:
        """Children by parent, in order."""
        found: dict[int, list[int]] = {}
        for node, parent in enumerate(self.parents):
            found.setdefault(parent, []).append(node)
        return found
