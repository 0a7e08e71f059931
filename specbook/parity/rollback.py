"""Gate 3: rejected drafts and tokens given back leave no trace in the cache.

The reference is a cache that read a text one token a pass and never saw a draft. Against it, byte by byte: caches that
took random trees and kept a random path of them, or nothing, or gave tokens back; and the target's cache after every
round of every drafter. What lies behind the committed tokens is filled with NaN first, so that whatever reads it shows.

In ``fast`` and ``naive`` a row's last bits depend on its company. There the tokens committed before must keep their
bytes, accepted rows must keep the bytes that the pass wrote, and both must be close to the reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from specbook.checks import check_counts
from specbook.engine.decoding import DecodingConfig, speculative
from specbook.engine.kv_cache import KVCache
from specbook.engine.layout import tree_rows
from specbook.engine.transformer import Transformer
from specbook.parity.cases import Case
from specbook.parity.observation import (
    LOGIT_TOLERANCE,
    Array,
    ObservedTransformer,
    SingleSteps,
    greedy_reference,
    is_bitwise,
    largest_difference,
    peek,
    read_by_steps,
    same_bits,
)
from specbook.parity.random_trees import random_tree
from specbook.parity.report import GateResult, failure
from specbook.progress import Progress, silent

_LONGEST_TEXT = 256
_MOST_NODES = 12
_TOKENS_A_DRAFTER = 12


@dataclass(frozen=True, slots=True)
class _Held:
    """Keys and values of some tokens."""

    keys: Array  # (n_layers, n_kv_heads, head_size, n_tokens)
    values: Array  # (n_layers, n_kv_heads, n_tokens, head_size)

    def of(self, tokens: Sequence[int] | slice) -> _Held:
        """Those of these tokens."""
        return _Held(self.keys[..., tokens], self.values[..., tokens, :])

    def same(self, other: _Held) -> bool:
        return same_bits(self.keys, other.keys) and same_bits(self.values, other.values)

    def difference(self, other: _Held) -> float:
        return max(largest_difference(self.keys, other.keys), largest_difference(self.values, other.values))


def _committed(cache: KVCache) -> _Held:
    return _Held(*cache.committed())


def _with_pending(cache: KVCache) -> _Held:
    """Everything that is committed or pending, copied."""
    stop = int(cache.lengths[0] + cache.n_pending[0])
    return _Held(cache.keys[:, 0, ..., :stop].copy(), cache.values[:, 0, :, :stop].copy())


@dataclass(kw_only=True, slots=True)
class _Tally:
    """What was compared so far, and where we are."""

    bitwise: bool
    rejected_trees: int = 0
    accepted_paths: int = 0
    given_back: int = 0
    rounds_of_drafters: int = 0
    bytes_compared: int = 0
    unequal: int = 0
    largest_difference: float = 0.0
    first_failure: dict[str, Any] | None = None
    where: dict[str, Any] = field(default_factory=dict)

    def fail(self, what: str) -> None:
        self.unequal += 1
        self.first_failure = self.first_failure or failure(what, **self.where)

    def bits(self, what: str, found: _Held, wanted: _Held) -> None:
        """Demand the same bytes."""
        self.bytes_compared += wanted.keys.nbytes + wanted.values.nbytes
        if not found.same(wanted):
            self.fail(what)

    def close(self, what: str, found: _Held, wanted: _Held) -> None:
        """Demand the same bytes, or closeness where rows depend on their company."""
        if self.bitwise:
            self.bits(what, found, wanted)
            return
        self.largest_difference = max(self.largest_difference, found.difference(wanted))
        if not found.difference(wanted) <= LOGIT_TOLERANCE:
            self.fail(what)


def check_rollback(
    target: Transformer,
    cases: Sequence[Case],
    prompts: Sequence[Sequence[int]],
    n_rollbacks: int,
    rng: np.random.Generator,
    advance: Progress = silent,
) -> GateResult:
    """Compare caches after ``n_rollbacks`` random ones, and after every round of a short text with each case.

    Parameters
    ----------
    target : Transformer
    cases : sequence of Case
        May be empty.
    prompts : sequence of sequences of int
        Read as one text, of which at most 256 tokens are used; at least 16.
    n_rollbacks : int
        At least 1.
    rng : numpy.random.Generator
    advance : callable, optional
        Is told the rollbacks done.

    Raises
    ------
    ValueError
        If the prompts are too short, or a count is not positive.

    Examples
    --------
    >>> from specbook.engine.library import load_target
    >>> text = [1023, *range(65, 85)]
    >>> result = check_rollback(load_target(), [], [text], 4, np.random.default_rng(0))
    >>> result.passed, result.counts["unequal"]
    (True, 0)
    """
    check_counts("n_rollbacks", n_rollbacks, minimum=1)
    text = [token for prompt in prompts for token in prompt][:_LONGEST_TEXT]
    if len(text) < _MOST_NODES + 3:
        raise ValueError(f"prompts must hold at least {_MOST_NODES + 3} tokens; got {len(text)}")
    start, tally = perf_counter(), _Tally(bitwise=is_bitwise(target))
    reference = read_by_steps(target, text, spare=_MOST_NODES + 1)
    cache = target.new_cache(reference.cache.capacity)
    for number in range(n_rollbacks):
        tally.where = {"rollback": number}
        _random_rollback(target, reference, cache, rng, tally)
        advance(1)
    _rounds_of_drafters(target, cases, prompts[0], tally)
    return _result(target, tally, perf_counter() - start)


def _random_rollback(
    target: Transformer, reference: SingleSteps, cache: KVCache, rng: np.random.Generator, tally: _Tally
) -> None:
    """Draft a random tree behind a random length, keep a path of it or nothing, perhaps give tokens back; compare."""
    text = reference.tokens
    length = int(rng.integers(0, len(text) - _MOST_NODES - 1))
    tree = random_tree(rng, int(rng.integers(1, _MOST_NODES + 1)), target.n_vocab)
    path = tree.path(int(rng.integers(-1, tree.n_nodes)))
    tree = tree.with_tokens({node: text[length + 1 + depth] for depth, node in enumerate(path)})
    tally.where |= {"length": length, "parents": list(tree.parents), "path": path}
    _restore(cache, reference.cache, length)
    positions, mask = tree_rows(length, tree.parents)
    target.forward([[text[length], *tree.tokens]], positions, mask, cache)
    everything = _with_pending(cache)
    kept = [*range(length), *_settle(cache, path, rng, tally)]
    n_kept = int(cache.lengths[0])
    tally.bits("committed bytes are not those that were written", _committed(cache), everything.of(kept[:n_kept]))
    _compare_with_text(target, reference, cache, min(length, n_kept), tally)


def _restore(cache: KVCache, reference: KVCache, length: int) -> None:
    """The first tokens of the reference, and NaN behind them."""
    np.copyto(cache.keys, reference.keys)
    np.copyto(cache.values, reference.values)
    cache.keys[..., length:] = np.nan
    cache.values[..., length:, :] = np.nan
    cache.lengths = reference.lengths.copy()
    cache.rollback(length)


def _settle(cache: KVCache, path: list[int], rng: np.random.Generator, tally: _Tally) -> list[int]:
    """Reject all, or keep the path, or keep it and give tokens back; the slots that are kept behind the text."""
    length, rows = int(cache.lengths[0]), [0, *(node + 1 for node in path)]
    if rng.random() < 0.25:
        cache.drop_pending()
        tally.rejected_trees += 1
        tally.where["kept"] = length
        return []
    cache.commit([rows])
    tally.accepted_paths += 1
    if rng.random() < 0.5:
        given_back = int(rng.integers(1, len(rows) + 1))
        cache.rollback(length + len(rows) - given_back)
        tally.given_back += 1
        rows = rows[: len(rows) - given_back]
    tally.where["kept"] = length + len(rows)
    return [length + row for row in rows]


def _compare_with_text(
    target: Transformer, reference: SingleSteps, cache: KVCache, n_untouched: int, tally: _Tally
) -> None:
    """The cache and the logits behind one more token, against those of single steps."""
    wanted, found = _committed(reference.cache), _committed(cache)
    n_kept = int(cache.lengths[0])
    if n_kept != tally.where["kept"]:
        tally.fail(f"the cache holds {n_kept} tokens")
        return
    untouched = slice(0, n_untouched)
    tally.bits("tokens committed before the draft changed", found.of(untouched), wanted.of(untouched))
    tally.close("the cache is not that of single steps", found, wanted.of(slice(0, n_kept)))
    logits, single = peek(target, cache, reference.tokens[n_kept]), reference.logits[n_kept]
    difference = 0.0 if same_bits(logits, single) else largest_difference(logits, single)
    tally.largest_difference = max(tally.largest_difference, difference)
    strict = tally.bitwise or n_kept == n_untouched
    if not same_bits(logits, single) and (strict or not difference <= LOGIT_TOLERANCE):
        tally.fail(f"the next logits differ by {difference:.1e} from those of single steps")


def _rounds_of_drafters(target: Transformer, cases: Sequence[Case], prompt: Sequence[int], tally: _Tally) -> None:
    """Each case on a short text: the target's cache after every round."""
    config = DecodingConfig(max_new_tokens=_TOKENS_A_DRAFTER, max_context=len(prompt) + _TOKENS_A_DRAFTER)
    if not cases:
        return
    reference = _committed(greedy_reference(target, prompt, config).cache)
    for case in cases:
        observed, n_emitted = ObservedTransformer(target), 0
        before = reference.of(slice(0, len(prompt) - 1))
        for round_ in speculative(observed, case.drafter, prompt, config, case.shape):
            n_emitted += len(round_.tokens)
            tally.rounds_of_drafters += 1
            tally.where = {"drafter": case.name, "form": case.form, "tokens": n_emitted}
            found = _committed(observed.last_cache)
            n_held, n_wanted = found.values.shape[-2], len(prompt) + n_emitted - 1
            if n_held < n_wanted or (round_.finish is None and n_held > n_wanted):
                tally.fail(f"the cache holds {n_held} tokens, not {n_wanted}")
                break
            known = slice(0, before.values.shape[-2])
            tally.bits("tokens committed before the round changed", found.of(known), before)
            both = slice(0, n_wanted)
            tally.close("the cache is not that of single steps", found.of(both), reference.of(both))
            before = found


def _result(target: Transformer, tally: _Tally, seconds: float) -> GateResult:
    return GateResult(
        gate="rollback",
        arithmetic=target.arithmetic.name,
        passed=tally.first_failure is None,
        counts={
            "rollbacks": tally.rejected_trees + tally.accepted_paths,
            "rejected_trees": tally.rejected_trees,
            "accepted_paths": tally.accepted_paths,
            "given_back": tally.given_back,
            "rounds_of_drafters": tally.rounds_of_drafters,
            "bytes": tally.bytes_compared,
            "unequal": tally.unequal,
        },
        findings={"largest_difference": tally.largest_difference},
        first_failure=tally.first_failure,
        seconds=seconds,
    )
