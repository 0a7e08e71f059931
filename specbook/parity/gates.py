"""Runs the gates that were chosen, on the shipped pair."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from specbook.checks import check_counts
from specbook.engine.arithmetic import arithmetic
from specbook.engine.library import SHA256, load_target
from specbook.engine.library.drafters import DRAFTER_NAMES, drafter_name
from specbook.engine.threads import blas_description, blas_threads
from specbook.engine.transformer import Transformer
from specbook.parity.cases import Case, shipped_cases
from specbook.parity.distribution import check_distribution
from specbook.parity.greedy import check_greedy, check_room
from specbook.parity.report import GATE_NAMES, GateName, GateResult, ParityReport, failure
from specbook.parity.rollback import check_rollback
from specbook.parity.tree_mask import check_tree_mask
from specbook.progress import Progress, silent

# Fewer say too little: a pool of samples for each of 14 cases, caches and trees of all sizes.
_LEAST_SAMPLES, _LEAST_ROLLBACKS, _LEAST_TREES = 1120, 200, 50


@dataclass(frozen=True, kw_only=True, slots=True)
class ParityConfig:
    """What is checked, and how long.

    Parameters
    ----------
    gates : tuple of str
        Of ``greedy``, ``distribution``, ``rollback``, ``tree-mask``.
    arithmetics : tuple of str
        Of ``exact``, ``fast``, ``ref64``, ``naive``.
    drafters : tuple of str
        Names or aliases; each is run as a chain and as a tree.
    n_tokens : int
        Tokens that the greedy gate compares in each arithmetic, at least 1. The other gates take a tenth as many
        samples and rollbacks, and a hundredth as many trees, but no fewer than 1,120, 200 and 50.
    seed : int

    Raises
    ------
    ValueError
        If a name is unknown, a list is empty, or a number is out of range.

    Examples
    --------
    >>> ParityConfig(n_tokens=100_000).n_rollbacks
    10000
    """

    gates: tuple[GateName, ...] = GATE_NAMES
    arithmetics: tuple[str, ...] = ("exact",)
    drafters: tuple[str, ...] = DRAFTER_NAMES
    n_tokens: int = 2000
    seed: int = 0

    def __post_init__(self) -> None:
        check_counts("n_tokens", self.n_tokens, minimum=1)
        check_counts("seed", self.seed)
        for name in ("gates", "arithmetics", "drafters"):
            if not getattr(self, name):
                raise ValueError(f"{name} must not be empty")
        for gate in self.gates:
            if gate not in GATE_NAMES:
                raise ValueError(f"gates must be of {', '.join(GATE_NAMES)}; got {gate!r}")
        for name in self.arithmetics:
            arithmetic(name)
        for name in self.drafters:
            drafter_name(name)

    @property
    def n_samples(self) -> int:
        """Decodings that the distribution gate samples."""
        return max(_LEAST_SAMPLES, self.n_tokens // 10)

    @property
    def n_rollbacks(self) -> int:
        """Random rollbacks."""
        return max(_LEAST_ROLLBACKS, self.n_tokens // 10)

    @property
    def n_trees(self) -> int:
        """Random trees of the mask gate."""
        return max(_LEAST_TREES, self.n_tokens // 100)

    @property
    def n_steps(self) -> int:
        """What ``advance`` is told in all."""
        sizes = (self.n_tokens, self.n_samples, self.n_rollbacks, self.n_trees)
        steps = dict(zip(GATE_NAMES, sizes, strict=True))
        return len(self.arithmetics) * sum(steps[gate] for gate in self.gates)


def run_parity(config: ParityConfig, prompts: Sequence[Sequence[int]], advance: Progress = silent) -> ParityReport:
    """Run the gates one after the other with one BLAS thread.

    Parameters
    ----------
    config : ParityConfig
    prompts : sequence of sequences of int
        Token lists for the shipped target.
    advance : callable, optional
        Is told steps done, ``config.n_steps`` in all.

    Returns
    -------
    ParityReport
        A gate in which the engine raised has failed.

    Raises
    ------
    ValueError
        If there is no prompt, or the prompts leave too little room for so many tokens.
    """
    if not prompts:
        raise ValueError("prompts must not be empty")
    with blas_threads(1):
        results = [result for name in config.arithmetics for result in _in_arithmetic(name, config, prompts, advance)]
        blas = blas_description()
    return ParityReport(
        results=tuple(results),
        drafters=tuple(dict.fromkeys(map(drafter_name, config.drafters))),
        n_tokens=config.n_tokens,
        seed=config.seed,
        blas=blas,
        weights=SHA256,
    )


def _in_arithmetic(
    name: str, config: ParityConfig, prompts: Sequence[Sequence[int]], advance: Progress
) -> list[GateResult]:
    target = load_target(name)
    cases = shipped_cases(target, config.drafters)
    if "greedy" in config.gates:
        check_room(target, len(cases), prompts, config.n_tokens)
    return [guarded(gate, target, _gate(gate, target, cases, config, prompts, advance)) for gate in config.gates]


def _gate(
    gate: GateName,
    target: Transformer,
    cases: Sequence[Case],
    config: ParityConfig,
    prompts: Sequence[Sequence[int]],
    advance: Progress,
) -> Callable[[], GateResult]:
    """The gate with its own stream of chance, whichever other gates run."""
    rng = np.random.default_rng([config.seed, GATE_NAMES.index(gate)])
    gates: dict[GateName, Callable[[], GateResult]] = {
        "greedy": lambda: check_greedy(target, cases, prompts, config.n_tokens, advance),
        "distribution": lambda: check_distribution(target, cases, prompts, config.n_samples, rng, advance),
        "rollback": lambda: check_rollback(target, cases, prompts, config.n_rollbacks, rng, advance),
        "tree-mask": lambda: check_tree_mask(target, prompts, config.n_trees, rng, advance),
    }
    return gates[gate]


def guarded(gate: GateName, target: Transformer, run: Callable[[], GateResult]) -> GateResult:
    """An engine that raises has failed the gate."""
    try:
        return run()
    except (ValueError, IndexError) as error:
        problem = failure(f"the engine raised {type(error).__name__}: {error}")
        name = target.arithmetic.name
        return GateResult(gate=gate, arithmetic=name, passed=False, counts={}, first_failure=problem)
