"""The four gates on a terminal: what was compared, what was found, and the first failure in full."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from specbook.display.tables import open_console, plain_table, safe_text, say
from specbook.parity.report import GateResult, ParityReport


def show_parity(report: ParityReport) -> None:
    """One row a gate and arithmetic, then each first failure."""
    blas = report.blas
    threads = "1 thread" if blas["threads"] == 1 else f"{blas['threads']} threads"
    say(f"drafters, as chains and trees: {', '.join(report.drafters)}; seed {report.seed}")
    say(f"{blas['library']} {blas['version']}, {blas['kernel']} kernels, {threads}")
    table = plain_table("gate", "arithmetic", "", "result", ">s", title="parity")
    for result in report.results:
        cells = (result.gate, result.arithmetic, _compared(result), "passed" if result.passed else "FAILED")
        table.add_row(*map(safe_text, cells), safe_text(f"{result.seconds:.1f}"))
    open_console().print(table)
    for result in report.results:
        if result.first_failure is not None:
            say(f"{result.gate}, {result.arithmetic}: {in_words(result.first_failure)}")


def in_words(failure: Mapping[str, Any]) -> str:
    """A failure as one line.

    Examples
    --------
    >>> in_words({"what": "the token differs", "drafter": "small", "position": 5, "tokens": [7, 8]})
    'the token differs: drafter small, position 5, tokens 7 and 8'
    """
    where = [f"{name.replace('_', ' ')} {_shown(value)}" for name, value in failure.items() if name != "what"]
    return f"{failure['what']}: {', '.join(where)}" if where else str(failure["what"])


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.7g}"
    if isinstance(value, list | tuple) and len(value) == 2:
        return f"{_shown(value[0])} and {_shown(value[1])}"
    return str(value)


def _compared(result: GateResult) -> str:
    return _SENTENCES[result.gate](result.counts, result.findings) if result.counts else "–"


def _greedy(counts: Mapping[str, int], findings: Mapping[str, Any]) -> str:
    tokens = f"{counts['tokens']:,} tokens, {_count(counts['divergences'], 'divergence')}"
    if not counts["unequal_logit_rows"]:
        return f"{tokens}; all {counts['logit_rows']:,} rows of logits bit-equal"
    difference = f"logits differ by {findings['largest_logit_difference']:.1e} at most"
    return f"{tokens}, {_count(counts['near_ties'], 'near-tie')}; {difference}"


def _distribution(counts: Mapping[str, int], findings: Mapping[str, Any]) -> str:
    pool = findings["pools"]["all"]
    laws = f"{counts['exact_laws']} exact laws within {findings['largest_law_difference']:.0e}"
    divergence = f"divergence {pool['divergence']:.4f} of at most {pool['bound']:.4f}"
    return f"{laws}; {counts['samples']:,} samples: p {pool['p_value']:.2g}, {divergence}"


def _rollback(counts: Mapping[str, int], _: Mapping[str, Any]) -> str:
    random = f"{counts['rollbacks']:,} rollbacks, {counts['rounds_of_drafters']:,} rounds of drafters"
    return f"{random}: {counts['bytes'] / 1e6:,.0f} MB, {counts['unequal']:,} unequal"


def _tree_mask(counts: Mapping[str, int], _: Mapping[str, Any]) -> str:
    return f"{counts['trees']:,} trees of {counts['nodes']:,} nodes, each as its path; {counts['unequal']:,} unequal"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


_SENTENCES: dict[str, Callable[[Mapping[str, int], Mapping[str, Any]], str]] = {
    "greedy": _greedy,
    "distribution": _distribution,
    "rollback": _rollback,
    "tree-mask": _tree_mask,
}
