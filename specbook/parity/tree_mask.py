"""Gate 4: a node of a tree knows the tokens before it, its ancestors and itself, and nobody else.

Another token at a node must change no logit outside the node's descendants, bit for bit, in every arithmetic, since
both passes have the same shape. And each node's logits must be those of its path as a chain: bit for bit in ``exact``
and ``ref64``, to rounding in ``fast`` and ``naive``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from specbook.checks import check_counts
from specbook.engine.kv_cache import KVCache
from specbook.engine.layout import chain_positions, tree_rows
from specbook.engine.transformer import Transformer
from specbook.parity.observation import LOGIT_TOLERANCE, Array, is_bitwise, largest_difference, same_bits
from specbook.parity.random_trees import RandomTree, random_tree
from specbook.parity.report import GateResult, failure
from specbook.progress import Progress, silent

_MOST_NODES = 12
_LONGEST_TEXT = 128
_TREES_A_TEXT = 25


@dataclass(kw_only=True, slots=True)
class _Tally:
    """What was compared so far, and where we are."""

    trees: int = 0
    nodes: int = 0
    rows_apart: int = 0
    rows_below: int = 0
    unequal: int = 0
    largest_difference: float = 0.0
    first_failure: dict[str, Any] | None = None
    where: dict[str, Any] = field(default_factory=dict)

    def fail(self, what: str, **more: Any) -> None:
        self.unequal += 1
        self.first_failure = self.first_failure or failure(what, **self.where, **more)


def check_tree_mask(
    target: Transformer,
    prompts: Sequence[Sequence[int]],
    n_trees: int,
    rng: np.random.Generator,
    advance: Progress = silent,
) -> GateResult:
    """Perturb a node of each of ``n_trees`` random trees, and compare every node with its path.

    Parameters
    ----------
    target : Transformer
    prompts : sequence of sequences of int
        Read as one text; trees stand behind beginnings of it, of at most 128 tokens.
    n_trees : int
        At least 1; of 2 to 12 nodes.
    rng : numpy.random.Generator
    advance : callable, optional
        Is told the trees done.

    Raises
    ------
    ValueError
        If there is no text, or ``n_trees`` is not positive.

    Examples
    --------
    >>> from specbook.engine.library import load_target
    >>> result = check_tree_mask(load_target(), [[1023, 65, 66]], 2, np.random.default_rng(0))
    >>> result.passed, result.counts["trees"], result.counts["unequal"]
    (True, 2, 0)
    """
    check_counts("n_trees", n_trees, minimum=1)
    text = [token for prompt in prompts for token in prompt][:_LONGEST_TEXT]
    if not text:
        raise ValueError("prompts must hold at least one token; got none")
    start, tally = perf_counter(), _Tally()
    for number in range(n_trees):
        if number % _TREES_A_TEXT == 0:
            length = int(rng.integers(0, len(text)))
            cache = target.new_cache(length + _MOST_NODES + 1)
            if length:
                target.prefill(text[:length], cache)
        tree = random_tree(rng, int(rng.integers(2, _MOST_NODES + 1)), target.n_vocab)
        tally.where = {"tree": number, "length": length, "parents": list(tree.parents)}
        _check_tree(target, cache, text[length], tree, rng, tally)
        advance(1)
    return _result(target, tally, perf_counter() - start)


def _check_tree(
    target: Transformer, cache: KVCache, root: int, tree: RandomTree, rng: np.random.Generator, tally: _Tally
) -> None:
    logits = _tree_logits(target, cache, root, tree)
    node = int(rng.integers(tree.n_nodes))
    other = (tree.tokens[node] + int(rng.integers(1, target.n_vocab))) % target.n_vocab
    changed = _tree_logits(target, cache, root, tree.with_tokens({node: other}))
    tally.trees += 1
    tally.nodes += tree.n_nodes
    _compare_perturbed(logits, changed, node, tree, tally)
    _compare_paths(target, cache, root, tree, logits, tally)


def _tree_logits(target: Transformer, cache: KVCache, root: int, tree: RandomTree) -> Array:
    """Logits of the root and of each node, (1 + n_nodes, n_vocab)."""
    positions, mask = tree_rows(int(cache.lengths[0]), tree.parents)
    return _logits(target, cache, [root, *tree.tokens], positions, mask)


def _logits(target: Transformer, cache: KVCache, tokens: list[int], positions: Array, mask: Array | None) -> Array:
    logits = target.logits(target.forward([tokens], positions, mask, cache))[0]
    cache.drop_pending()
    return np.asarray(logits)


def _compare_perturbed(logits: Array, changed: Array, node: int, tree: RandomTree, tally: _Tally) -> None:
    """Rows apart from the node are the same, and the node's own is not, or nothing was tested."""
    below = tree.descendants(node)
    for row in range(-1, tree.n_nodes):
        if row in below:
            tally.rows_below += 1
            continue
        tally.rows_apart += 1
        if not same_bits(logits[row + 1], changed[row + 1]):
            difference = largest_difference(logits[row + 1], changed[row + 1])
            tally.fail(f"a node that is no descendant changed by {difference:.1e}", perturbed=node, node=row)
    if same_bits(logits[node + 1], changed[node + 1]):
        tally.fail("another token at a node did not change its own logits", perturbed=node)


def _compare_paths(
    target: Transformer, cache: KVCache, root: int, tree: RandomTree, logits: Array, tally: _Tally
) -> None:
    """Each path from the root to a leaf as a chain of its own."""
    for leaf in tree.leaves():
        path = tree.path(leaf)
        chain = [root, *(tree.tokens[node] for node in path)]
        alone = _logits(target, cache, chain, chain_positions(cache, len(chain)), None)
        for node, wanted in zip([-1, *path], alone, strict=True):
            found = logits[node + 1]
            if same_bits(found, wanted):
                continue
            difference = largest_difference(found, wanted)
            tally.largest_difference = max(tally.largest_difference, difference)
            if is_bitwise(target) or not difference <= LOGIT_TOLERANCE:
                tally.fail(f"a node differs by {difference:.1e} from its path as a chain", node=node, path=path)


def _result(target: Transformer, tally: _Tally, seconds: float) -> GateResult:
    return GateResult(
        gate="tree-mask",
        arithmetic=target.arithmetic.name,
        passed=tally.first_failure is None,
        counts={
            "trees": tally.trees,
            "nodes": tally.nodes,
            "rows_apart": tally.rows_apart,
            "rows_below": tally.rows_below,
            "unequal": tally.unequal,
        },
        findings={"largest_difference": tally.largest_difference},
        first_failure=tally.first_failure,
        seconds=seconds,
    )
