"""Random trees of tokens, and who descends from whom; told from the parents alone, apart from the code under test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True, kw_only=True, slots=True)
class RandomTree:
    """Tokens and their parents; −1 is the root, which is no node.

    Examples
    --------
    >>> tree = RandomTree(tokens=(7, 8, 9), parents=(-1, 0, 0))
    >>> tree.path(2), sorted(tree.descendants(0)), tree.leaves()
    ([0, 2], [0, 1, 2], [1, 2])
    """

    tokens: tuple[int, ...]
    parents: tuple[int, ...]

    @property
    def n_nodes(self) -> int:
        """Nodes without the root."""
        return len(self.parents)

    def path(self, node: int) -> list[int]:
        """Nodes from below the root down to this one; none for the root."""
        nodes: list[int] = []
        while node >= 0:
            nodes.append(node)
            node = self.parents[node]
        return nodes[::-1]

    def descendants(self, node: int) -> set[int]:
        """The node itself and all below it."""
        return {other for other in range(self.n_nodes) if node in self.path(other)}

    def leaves(self) -> list[int]:
        """Nodes without children."""
        return [node for node in range(self.n_nodes) if node not in self.parents]

    def with_tokens(self, tokens: Mapping[int, int]) -> RandomTree:
        """The same tree with other tokens at some nodes."""
        return replace(self, tokens=tuple(tokens.get(node, token) for node, token in enumerate(self.tokens)))


def random_tree(rng: np.random.Generator, n_nodes: int, n_vocab: int) -> RandomTree:
    """A tree in which each node hangs below the root or any earlier node, with equal chance.

    Examples
    --------
    >>> random_tree(np.random.default_rng(0), 3, 10).parents[0]
    -1
    """
    return RandomTree(
        tokens=tuple(rng.integers(0, n_vocab, size=n_nodes).tolist()),
        parents=tuple(int(rng.integers(-1, node)) if node else -1 for node in range(n_nodes)),
    )
