"""The cycle simulator over a grid: draft lengths, acceptances and draft costs, for each parametric draft model."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np
import polars as pl

from specbook.acceptance.cycle_config import MAX_SEED, MAX_STEPS_OF_A_SWEEP, CycleConfig
from specbook.acceptance.cycles import cycles_frame, simulate_cycles
from specbook.acceptance.draft_models import DraftModel, EntropyAware, FixedAcceptance, PositionDecay
from specbook.checks import check_probability
from specbook.progress import Progress, silent

Varies = Literal["fixed", "every"]


@dataclass(frozen=True, kw_only=True)
class SweepConfig:
    """A grid of configurations: every draft model, draft length, acceptance and draft cost.

    Attributes
    ----------
    draft_lengths : tuple of int
    acceptances : tuple of float
        In [0, 1].
    draft_costs_s : tuple of float
        Time of a draft pass, seconds.
    verify_s : float
        Time of a verify pass, seconds.
    n_sequences, tokens_per_sequence : int
    seed : int
    varies : "fixed" or "every"
        Which draft models the acceptances are for. ``fixed``: the others keep their defaults, so that their rows repeat
        once an acceptance. ``every``: the acceptance takes the place of each model's first parameter, that is of the
        base of position decay and of the easy tokens' acceptance.

    Raises
    ------
    ValueError
        If a number is out of range, as for :class:`~specbook.acceptance.cycle_config.CycleConfig`.

    Examples
    --------
    >>> config = SweepConfig()
    >>> config.n_configurations
    576
    """

    draft_lengths: tuple[int, ...] = (1, 2, 3, 4, 5, 7, 10, 15)
    acceptances: tuple[float, ...] = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
    draft_costs_s: tuple[float, ...] = (10e-6, 20e-6, 50e-6, 100e-6)
    verify_s: float = 200e-6
    n_sequences: int = 500
    tokens_per_sequence: int = 128
    seed: int = 42
    varies: Varies = "fixed"

    def __post_init__(self) -> None:
        check_probability("acceptances", self.acceptances)
        if not 0 <= self.seed <= MAX_SEED:
            raise ValueError(f"seed must lie in [0, {MAX_SEED}]; got {self.seed}")
        if self.varies not in ("fixed", "every"):
            raise ValueError(f"varies must be fixed or every; got {self.varies}")
        steps = self.n_configurations * self.tokens_per_sequence
        if not 0 < steps <= MAX_STEPS_OF_A_SWEEP:
            limits = f"must lie in [1, {MAX_STEPS_OF_A_SWEEP:,}]"
            raise ValueError(f"configurations × tokens_per_sequence {limits}; got {steps:,}")
        self.configurations()

    @property
    def n_configurations(self) -> int:
        """Rows of the sweep."""
        return 3 * len(self.draft_lengths) * len(self.acceptances) * len(self.draft_costs_s)

    def configurations(self) -> list[tuple[float, CycleConfig]]:
        """Swept acceptance and configuration of every row.

        Each has a seed of its own, drawn from that of the sweep, so that streams are independent and any row can be
        simulated again by itself.
        """
        seeds = iter(np.random.default_rng(self.seed).integers(2**53, size=self.n_configurations).tolist())
        grid = product(range(3), self.draft_lengths, self.acceptances, self.draft_costs_s)
        return [
            (acceptance, self._configuration(self._draft_models(acceptance)[index], draft_length, draft_s, next(seeds)))
            for index, draft_length, acceptance, draft_s in grid
        ]

    def _draft_models(self, acceptance: float) -> tuple[DraftModel, ...]:
        fixed = FixedAcceptance(acceptance=acceptance)
        if self.varies == "fixed":
            return fixed, PositionDecay(), EntropyAware()
        return fixed, PositionDecay(base=acceptance), EntropyAware(easy_acceptance=acceptance)

    def _configuration(self, draft_model: DraftModel, draft_length: int, draft_s: float, seed: int) -> CycleConfig:
        return CycleConfig(
            draft_model=draft_model,
            draft_length=draft_length,
            draft_s=draft_s,
            verify_s=self.verify_s,
            n_sequences=self.n_sequences,
            tokens_per_sequence=self.tokens_per_sequence,
            seed=seed,
        )


def sweep_cycles(config: SweepConfig, progress: Progress = silent) -> pl.DataFrame:
    """Simulate every configuration of a sweep.

    Parameters
    ----------
    config : SweepConfig
    progress : callable
        Receives 1 after each configuration.

    Returns
    -------
    polars.DataFrame
        One row a configuration: ``varies, swept_acceptance``, then the columns of
        :meth:`~specbook.acceptance.cycles.CyclesResult.row`, simulated and exact figures side by side.

    Examples
    --------
    >>> frame = sweep_cycles(SweepConfig(draft_lengths=(4,), acceptances=(0.8,), draft_costs_s=(20e-6,)))
    >>> frame.select("draft_model", pl.col("expected_speedup").round(3)).rows()
    [('fixed', 2.372), ('position_decay', 2.663), ('entropy_aware', 2.442)]
    """
    rows = []
    for acceptance, configuration in config.configurations():
        row = simulate_cycles(configuration).row()
        rows.append({"varies": config.varies, "swept_acceptance": acceptance} | row)
        progress(1)
    return cycles_frame(rows)
