"""Pending rows of a drafter's own cache: one for each node that was extended, and what each of them sees."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from specbook.engine.draft import Draft
from specbook.engine.kv_cache import Integers, KVCache
from specbook.engine.layout import Mask, ancestry, depths


class Branches:
    """Keeps the order in which nodes became rows.

    Parameters
    ----------
    cache : KVCache
        Of one sequence; rows that are pending already (the root) are seen by every node.
    """

    def __init__(self, cache: KVCache) -> None:
        self._cache = cache
        self._n_before = int(cache.n_pending[0])
        self.nodes: list[int] = []

    def place(self, draft: Draft, nodes: Sequence[int]) -> tuple[Integers, Mask]:
        """Positions (1, n_nodes) and mask (1, n_nodes, n_pending + n_nodes) of nodes that become rows now."""
        self.nodes += nodes
        sees = ancestry(draft.parents)[np.ix_(list(nodes), self.nodes)]
        before = np.ones((len(nodes), self._n_before), np.bool_)
        level = depths(draft.parents)[list(nodes)] - 1
        first = int(self._cache.lengths[0]) + self._n_before
        return (first + level)[None], np.concatenate([before, sees], axis=1)[None]

    def rows(self, path: Sequence[int]) -> list[int]:
        """Pending rows of an accepted path, as far as its nodes became rows."""
        known = {node: self._n_before + row for row, node in enumerate(self.nodes)}
        return [known[node] for node in path if node in known]
