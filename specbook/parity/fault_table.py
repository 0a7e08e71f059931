"""Which gate catches which fault: small gates on the shipped pair, once for each fault that is planted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext

import numpy as np
import polars as pl

from specbook.engine.draft import tree_shape
from specbook.engine.library import load_target
from specbook.engine.threads import blas_threads
from specbook.parity.cases import shipped_cases
from specbook.parity.decoded_law import decoded_law, random_pair, single_step_law
from specbook.parity.distribution import case_law, compare_laws
from specbook.parity.exact_law import EXACT_CASES
from specbook.parity.faults import planted
from specbook.parity.gates import guarded
from specbook.parity.greedy import check_greedy
from specbook.parity.report import GATE_NAMES, GateName, GateResult, failure
from specbook.parity.rollback import check_rollback
from specbook.parity.tree_mask import check_tree_mask

NO_FAULT = "no fault"
_LAWS = {("chain of 2", 5), ("2 siblings", 5), ("tree, greedy", 6)}
N_TOKENS, N_ROLLBACKS, N_TREES = 64, 8, 4


def fault_table(
    names: Sequence[str], prompts: Sequence[Sequence[int]], drafter: str = "small", seed: int = 0
) -> pl.DataFrame:
    """Plant faults one after the other and run all four gates, in ``exact``.

    Parameters
    ----------
    names : sequence of str
        Of :func:`specbook.parity.faults.fault_names`; ``no fault`` plants none.
    prompts : sequence of sequences of int
        Token lists for the shipped target.
    drafter : str
        Drafts, as a chain and as a tree.
    seed : int

    Returns
    -------
    DataFrame
        Columns fault, gate, verdict: ``caught`` where the gate failed, else ``passed``. The distribution gate looks at
        three exact laws of tables and one of whole decodings, and samples nothing.

    Examples
    --------
    >>> table = fault_table(["forget the residual"], [[1023, *range(65, 90)]])
    >>> table.filter(verdict="caught")["gate"].to_list()
    ['distribution']
    """
    rows = []
    with blas_threads(1):
        for name in names:
            with nullcontext() if name == NO_FAULT else planted(name):
                results = _results(prompts, drafter, seed)
            rows += [(name, result.gate, "passed" if result.passed else "caught") for result in results]
    return pl.DataFrame(rows, schema=["fault", "gate", "verdict"], orient="row")


def _results(prompts: Sequence[Sequence[int]], drafter: str, seed: int) -> list[GateResult]:
    target, rng = load_target("exact"), np.random.default_rng(seed)
    cases = shipped_cases(target, [drafter])
    gates: dict[GateName, Callable[[], GateResult]] = {
        "greedy": lambda: check_greedy(target, cases, prompts, N_TOKENS),
        "distribution": lambda: _laws(rng),
        "rollback": lambda: check_rollback(target, cases, prompts, N_ROLLBACKS, rng),
        "tree-mask": lambda: check_tree_mask(target, prompts, N_TREES, rng),
    }
    return [guarded(gate, target, gates[gate]) for gate in GATE_NAMES]


def _laws(rng: np.random.Generator) -> GateResult:
    chosen = [case for case in EXACT_CASES if (case.name, case.n_vocab) in _LAWS]
    laws = [case_law(case, rng) for case in chosen]
    pair = random_pair("exact", rng)
    laws.append(compare_laws("whole decoding, tree", decoded_law(*pair, tree_shape((2,))), single_step_law(pair[0])))
    wrong = [law for law in laws if not law.passed]
    problem = failure("the law differs", law=wrong[0].name) if wrong else None
    return GateResult(
        gate="distribution",
        arithmetic="exact",
        passed=not wrong,
        counts={"exact_laws": len(laws)},
        first_failure=problem,
    )
