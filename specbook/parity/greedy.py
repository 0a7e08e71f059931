"""Gate 1: greedy speculative decoding emits the very tokens of autoregressive decoding, on every drafter.

In ``exact`` and ``ref64`` the verify pass must also give the bits of the single steps' logits wherever its rows are
accepted. In ``fast`` and ``naive`` tokens alone must be equal; positions where the two best tokens are nearly tied, and
rounding could choose, are counted, and a divergence at one of them is still a failure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from specbook.checks import check_counts
from specbook.engine.decoding import DecodingConfig, speculative
from specbook.engine.sampling import logit_gap
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
    same_bits,
)
from specbook.parity.report import GateResult, failure
from specbook.progress import Progress, silent

# Two best logits closer than this are a near-tie: about thirty times the rounding seen between passes.
NEAR_TIE = LOGIT_TOLERANCE

_TOKENS_A_RUN = 32


@dataclass(kw_only=True, slots=True)
class _Tally:
    """What was compared so far."""

    tokens: int = 0
    rounds: int = 0
    accepted: int = 0
    logit_rows: int = 0
    unequal_rows: int = 0
    near_ties: int = 0
    divergences: int = 0
    largest_difference: float = 0.0
    first_failure: dict[str, Any] | None = None

    def fail(self, problem: dict[str, Any]) -> None:
        self.first_failure = self.first_failure or problem


def check_greedy(
    target: Transformer,
    cases: Sequence[Case],
    prompts: Sequence[Sequence[int]],
    n_tokens: int,
    advance: Progress = silent,
) -> GateResult:
    """Compare tokens, and logits, until ``n_tokens`` were compared in all.

    Parameters
    ----------
    target : Transformer
    cases : sequence of Case
        At least one; each gets its share.
    prompts : sequence of sequences of int
        At least one; taken in turn.
    n_tokens : int
        At least 1. Texts are continued by 32 tokens, by fewer if that would leave out a case, and by more if there are
        not prompts enough.
    advance : callable, optional
        Is told the tokens compared.

    Raises
    ------
    ValueError
        If there is no case or prompt, or the contexts hold too few tokens.

    Examples
    --------
    >>> from specbook.engine.library import load_target
    >>> from specbook.parity.cases import shipped_cases
    >>> target = load_target()
    >>> result = check_greedy(target, shipped_cases(target, ["ngram"]), [[1023, 65, 66, 65, 66]], 16)
    >>> result.passed, result.counts["tokens"], result.counts["divergences"]
    (True, 16, 0)
    """
    check_counts("n_tokens", n_tokens, minimum=1)
    if not cases or not prompts:
        raise ValueError(f"cases and prompts must not be empty; got {len(cases)} and {len(prompts)}")
    check_room(target, len(cases), prompts, n_tokens)
    start, tally = perf_counter(), _Tally()
    for index, shares in enumerate(_shares(n_tokens, len(cases), len(prompts))):
        reference = greedy_reference(target, prompts[index], _config(prompts[index], shares[0]))
        for case, n_new in zip(cases, shares, strict=False):
            run = _Run(case=case, prompt=index, reference=reference, n_new=n_new)
            _compare(run, target, prompts[index], tally)
            advance(n_new)
    return _result(target, tally, perf_counter() - start)


def check_room(target: Transformer, n_cases: int, prompts: Sequence[Sequence[int]], n_tokens: int) -> None:
    """Raise if the prompts cannot be continued so far that ``n_tokens`` are compared.

    Raises
    ------
    ValueError
        With the most that can be compared.
    """
    a_run, longest = _shares(n_tokens, n_cases, len(prompts))[0][0], max(map(len, prompts))
    room = target.spec.max_context - longest
    if a_run > room:
        most = max(0, room) * n_cases * len(prompts)
        raise ValueError(f"n_tokens must be at most {most} with these drafters and prompts; got {n_tokens}")


def _shares(n_tokens: int, n_cases: int, n_prompts: int) -> list[list[int]]:
    """Tokens of each run, one list a prompt, one run a case; together ``n_tokens``.

    Examples
    --------
    >>> _shares(10, 2, 2)
    [[5, 5]]
    >>> _shares(300, 2, 2)
    [[75, 75], [75, 75]]
    """
    a_run = max(math.ceil(n_tokens / (n_cases * n_prompts)), min(_TOKENS_A_RUN, math.ceil(n_tokens / n_cases)))
    runs = [a_run] * (n_tokens // a_run) + [n_tokens % a_run] * bool(n_tokens % a_run)
    return [runs[start : start + n_cases] for start in range(0, len(runs), n_cases)]


def _config(prompt: Sequence[int], n_new: int) -> DecodingConfig:
    """The context ends with the text, so that the last drafts are cut short."""
    return DecodingConfig(max_new_tokens=n_new, max_context=len(prompt) + n_new)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Run:
    """One case on one prompt, and what it must equal."""

    case: Case
    prompt: int
    reference: SingleSteps
    n_new: int

    def problem(self, what: str, position: int, other: int, verify: Array) -> dict[str, Any]:
        """Where a run differs: the reference's token and another, with both logits from both passes."""
        expected, single = self.reference.tokens[position], self.reference.logits[position]
        return failure(
            what,
            drafter=self.case.name,
            form=self.case.form,
            prompt=self.prompt,
            position=position,
            tokens=[expected, other],
            single_step_logits=[float(single[expected]), float(single[other])],
            verify_logits=[float(verify[expected]), float(verify[other])],
            gap=float(single[expected]) - float(single[other]),
            near_tie=logit_gap(single) < NEAR_TIE,
        )


def _compare(run: _Run, target: Transformer, prompt: Sequence[int], tally: _Tally) -> None:
    """Decode speculatively and compare round by round, as far as the tokens are equal."""
    observed, position = ObservedTransformer(target), 0
    config = _config(prompt, run.n_new)
    for round_ in speculative(observed, run.case.drafter, prompt, config, run.case.shape):
        rows = observed.last_logits[[0, *(node + 1 for node in round_.verdict.path)]][: len(round_.tokens)]
        tally.rounds += 1
        tally.accepted += len(round_.verdict.path)
        for token, verify in zip(round_.tokens, rows, strict=True):
            _compare_logits(run, position, verify, is_bitwise(target), tally)
            if not _same_token(run, position, token, verify, tally):
                return
            position += 1
    if position != run.n_new:
        tally.divergences += 1
        tally.fail(
            run.problem(f"the text ends after {position} tokens", position, run.reference.tokens[position], rows[-1])
        )


def _same_token(run: _Run, position: int, token: int, verify: Array, tally: _Tally) -> bool:
    tally.tokens += 1
    if token == run.reference.tokens[position]:
        return True
    tally.divergences += 1
    tally.fail(run.problem("the token differs", position, token, verify))
    return False


def _compare_logits(run: _Run, position: int, verify: Array, bitwise: bool, tally: _Tally) -> None:
    single = run.reference.logits[position]
    tally.logit_rows += 1
    tally.near_ties += logit_gap(single) < NEAR_TIE
    if same_bits(single, verify):
        return
    difference = largest_difference(single, verify)
    tally.unequal_rows += 1
    tally.largest_difference = max(tally.largest_difference, difference)
    if bitwise or difference > LOGIT_TOLERANCE:
        worst = int(np.argmax(np.abs(single - verify)))
        tally.fail(run.problem(f"a logit differs by {difference:.1e}", position, worst, verify))


def _result(target: Transformer, tally: _Tally, seconds: float) -> GateResult:
    return GateResult(
        gate="greedy",
        arithmetic=target.arithmetic.name,
        passed=tally.first_failure is None,
        counts={
            "tokens": tally.tokens,
            "divergences": tally.divergences,
            "rounds": tally.rounds,
            "accepted": tally.accepted,
            "logit_rows": tally.logit_rows,
            "unequal_logit_rows": tally.unequal_rows,
            "near_ties": tally.near_ties,
        },
        findings={"largest_logit_difference": tally.largest_difference, "near_tie_below": NEAR_TIE},
        first_failure=tally.first_failure,
        seconds=seconds,
    )
