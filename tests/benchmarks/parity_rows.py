"""What parity promises in ``exact``: no divergence, rollbacks and trees equal bit for bit; and how long that takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from specbook.measuring.subjects import own_prompt_tokens
from specbook.parity.gates import ParityConfig, run_parity
from specbook.parity.report import GateResult

Row = tuple[str, str, str]

N_TOKENS = 100_000


def parity_rows(n_tokens: int = N_TOKENS) -> Iterator[Row]:
    """Yield the four gates in ``exact`` over all drafters, chain and tree: 100,000 tokens by default."""
    for gate, describe in _DESCRIPTIONS.items():
        (result,) = run_parity(ParityConfig(gates=(gate,), n_tokens=n_tokens), own_prompt_tokens()).results
        what, promised, measured = describe(result.counts, result.findings)
        yield what, promised, measured if result.passed else f"FAILED {_problem(result)}"
        yield f"parity: {result.gate}: time", "", f"{result.seconds:.0f} s"


def _problem(result: GateResult) -> str:
    return "" if result.first_failure is None else str(result.first_failure["what"])


def _greedy(counts: Any, _: Any) -> Row:
    what = f"parity: exact, all drafters: {counts['tokens']:,} tokens, bits of logits too"
    return what, "0 diverge", f"{counts['divergences']} diverge"


def _distribution(counts: Any, findings: Any) -> Row:
    pool = findings["pools"]["all"]
    what = f"parity: {counts['exact_laws']} exact laws; {counts['samples']:,} samples in {pool['n_cells']} cells"
    return what, "p > 0.001", f"p {pool['p_value']:.2f}"


def _rollback(counts: Any, _: Any) -> Row:
    what = f"parity: {counts['rollbacks']:,} rollbacks, {counts['bytes'] / 1e9:.1f} GB compared"
    return what, "0 unequal", f"{counts['unequal']} unequal"


def _tree_mask(counts: Any, _: Any) -> Row:
    what = f"parity: {counts['trees']:,} random trees of {counts['nodes']:,} nodes"
    return what, "0 unequal", f"{counts['unequal']} unequal"


_DESCRIPTIONS: dict[Any, Any] = {
    "greedy": _greedy,
    "distribution": _distribution,
    "rollback": _rollback,
    "tree-mask": _tree_mask,
}
