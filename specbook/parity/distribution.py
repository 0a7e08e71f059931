"""Gate 2: sampled speculative decoding follows the target's law.

First exactly: every course that chance can take is run on small vocabularies, and the law of what comes out must be the
target's to rounding. Then on the model itself: pools of samples against the exact law of the first two tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

import numpy as np

from specbook.checks import check_counts
from specbook.engine.sampling import SamplingConfig
from specbook.engine.transformer import Transformer
from specbook.parity.cases import Case
from specbook.parity.decoded_law import DECODED_SHAPES, decoded_law, random_pair, single_step_law
from specbook.parity.exact_law import EXACT_CASES, ExactCase, Law, random_language, speculative_law, target_law
from specbook.parity.observation import is_bitwise
from specbook.parity.report import GateResult, failure
from specbook.parity.sampled_law import Pool, PoolTest, compare_pool, draw_pool, exact_cells, samples_for_bound
from specbook.progress import Progress, silent

# Of a probability, and of the divergence. The divergence goes with the square, so the first is the sharper demand.
LAW_TOLERANCE = 1e-12
# Where rows round with their company, a law moves with the logits.
_ROUNDED_LAW_TOLERANCE = 1e-5
# All tests of one gate together give a false alarm with this probability.
LEAST_P = 1e-3

_SAMPLING = SamplingConfig(temperature=1.0)
_HEAD, _AGAIN = 4, 2


@dataclass(frozen=True, kw_only=True, slots=True)
class LawComparison:
    """One exact law of speculative output beside the target's.

    Attributes
    ----------
    name : str
    n_sequences : int
        Sequences of three tokens that either law gives any probability.
    difference : float
        Largest difference of a probability.
    divergence : float
        Kullback–Leibler divergence of what comes out from what must, in nats.
    tolerance : float
        For both.
    """

    name: str
    n_sequences: int
    difference: float
    divergence: float
    tolerance: float

    @property
    def passed(self) -> bool:
        """Whether both stay within the tolerance."""
        return self.difference <= self.tolerance and self.divergence <= self.tolerance


def exact_laws(target: Transformer, rng: np.random.Generator) -> Iterator[LawComparison]:
    """Yield every exact law: of tables, which need no arithmetic, and of whole decodings in the target's."""
    for case in EXACT_CASES:
        yield case_law(case, rng)
    tolerance = LAW_TOLERANCE if is_bitwise(target) else _ROUNDED_LAW_TOLERANCE
    for name, shape in DECODED_SHAPES.items():
        verifier, drafter = random_pair(target.arithmetic.name, rng)
        yield compare_laws(name, decoded_law(verifier, drafter, shape), single_step_law(verifier), tolerance)


def case_law(case: ExactCase, rng: np.random.Generator) -> LawComparison:
    """One way to speculate, on tables made by chance, against the target's own law.

    Examples
    --------
    >>> case_law(EXACT_CASES[0], np.random.default_rng(0)).passed
    True
    """
    language = random_language(case, rng)
    name = f"{case.name}, {case.n_vocab} tokens"
    return compare_laws(name, speculative_law(case, language), target_law(language, case.sampling))


def compare_laws(name: str, found: Law, wanted: Law, tolerance: float = LAW_TOLERANCE) -> LawComparison:
    """Two laws side by side.

    Examples
    --------
    >>> compare_laws("coin", {(0,): 0.5, (1,): 0.5}, {(0,): 0.25, (1,): 0.75}).difference
    0.25
    """
    both = sorted(found.keys() | wanted.keys())
    pairs = [(found.get(tokens, 0.0), wanted.get(tokens, 0.0)) for tokens in both]
    return LawComparison(
        name=name,
        n_sequences=len(both),
        difference=max(abs(have - want) for have, want in pairs),
        divergence=math.fsum(_divergence(have, want) for have, want in pairs),
        tolerance=tolerance,
    )


def _divergence(have: float, want: float) -> float:
    if have == 0.0:
        return 0.0
    return have * math.log(have / want) if want > 0.0 else math.inf


def pool_prompt(prompts: Sequence[Sequence[int]]) -> list[int]:
    """A short prompt that repeats its beginning, so that drafters that copy have something to copy.

    Examples
    --------
    >>> pool_prompt([[0, 1, 2, 3, 4, 5, 6, 7, 8]])
    [0, 1, 2, 3, 0, 1]
    """
    head = list(prompts[0][:_HEAD])
    return [*head, *head[:_AGAIN]]


def check_distribution(
    target: Transformer,
    cases: Sequence[Case],
    prompts: Sequence[Sequence[int]],
    n_samples: int,
    rng: np.random.Generator,
    advance: Progress = silent,
) -> GateResult:
    """Enumerate exact laws, then test one pool a case, and all pools as one.

    Parameters
    ----------
    target : Transformer
    cases : sequence of Case
        At least one.
    prompts : sequence of sequences of int
        The beginning of the first is continued.
    n_samples : int
        Decodings in all, at least one a case; pools of fewer than some hundred see only coarse faults.
    rng : numpy.random.Generator
        Makes the small languages and the seeds of decodings.
    advance : callable, optional
        Is told the samples drawn.

    Raises
    ------
    ValueError
        If there is no case or prompt, or fewer samples than cases.
    """
    if not cases or not prompts:
        raise ValueError(f"cases and prompts must not be empty; got {len(cases)} and {len(prompts)}")
    check_counts("n_samples", n_samples, minimum=len(cases))
    start = perf_counter()
    laws = list(exact_laws(target, rng))
    pools = _pools(target, cases, pool_prompt(prompts), n_samples, rng, advance)
    tests = _tests(target, cases, pool_prompt(prompts), pools)
    problem = next((_law_problem(law) for law in laws if not law.passed), None)
    least_p = _threshold(len(tests))
    for name, test in tests.items():
        if problem is None and (test.p_value < least_p or test.divergence > test.bound):
            problem = failure("a pool does not follow the target's law", pool=name, **asdict(test))
    return GateResult(
        gate="distribution",
        arithmetic=target.arithmetic.name,
        passed=problem is None,
        counts=_counts(laws, pools),
        findings=_findings(laws, tests, least_p),
        first_failure=problem,
        seconds=perf_counter() - start,
    )


def _pools(
    target: Transformer,
    cases: Sequence[Case],
    prompt: Sequence[int],
    n_samples: int,
    rng: np.random.Generator,
    advance: Progress,
) -> list[Pool]:
    seeds = np.array_split(rng.integers(2**53, size=n_samples), len(cases))
    return [
        draw_pool(target, case, prompt, _SAMPLING, own.tolist(), advance)
        for case, own in zip(cases, seeds, strict=True)
    ]


def _tests(
    target: Transformer, cases: Sequence[Case], prompt: Sequence[int], pools: Sequence[Pool]
) -> dict[str, PoolTest]:
    """A test of each pool by name, and of all together."""
    together = Pool()
    for pool in pools:
        together.add(pool)
    named = {f"{case.name}, {case.form}": pool for case, pool in zip(cases, pools, strict=True)} | {"all": together}
    cells = {
        size: exact_cells(target, prompt, _SAMPLING, size) for size in {pool.pairs.total() for pool in named.values()}
    }
    least_p = _threshold(len(named))
    return {name: compare_pool(pool, cells[pool.pairs.total()], least_p) for name, pool in named.items()}


def _threshold(n_pools: int) -> float:
    """Each pool faces two tests, of its counts and of its divergence; together they fail a true engine by LEAST_P."""
    return LEAST_P / (2 * n_pools)


def _law_problem(law: LawComparison) -> dict[str, Any]:
    return failure("an exact law is not the target's", **asdict(law))


def _counts(laws: Sequence[LawComparison], pools: Sequence[Pool]) -> dict[str, int]:
    return {
        "exact_laws": len(laws),
        "sequences": sum(law.n_sequences for law in laws),
        "unequal_laws": sum(not law.passed for law in laws),
        "pools": len(pools),
        "samples": sum(pool.pairs.total() for pool in pools),
        "drafted": sum(pool.drafted for pool in pools),
        "accepted": sum(pool.accepted for pool in pools),
    }


def _findings(laws: Sequence[LawComparison], tests: dict[str, PoolTest], least_p: float) -> dict[str, Any]:
    return {
        "largest_law_difference": max(law.difference for law in laws),
        "largest_law_divergence": max(law.divergence for law in laws),
        "pools": {name: asdict(test) for name, test in tests.items()},
        "least_p": least_p,
        "samples_for_bound_1e-4": samples_for_bound(tests["all"].n_cells, 1e-4, least_p),
    }
