"""The shipped rows of one device and engine, fitted as a fleet: what was held back is met better than before."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from specbook.validation.fleet import FleetFit, fit_fleet
from specbook.validation.fleet_config import FleetConfig
from specbook.validation.published_errors import comparable


@pytest.fixture(scope="module")
def fit() -> FleetFit:
    return fit_fleet(comparable("sglang").found, FleetConfig(device="h200-sxm"), np.random.default_rng(0))


@pytest.mark.parametrize("kind", ["step", "round", "speedup"])
def test_what_was_held_back_is_met_better(fit: FleetFit, kind: str):
    found = fit.held_back.filter(pl.col("kind") == kind)
    assert found["error_after"].abs().median() < found["error_before"].abs().median()


def test_rounds_held_back_are_met_within_a_few_per_cent(fit: FleetFit):
    rounds = fit.held_back.filter(pl.col("kind") == "round")
    assert rounds.height > 30
    assert rounds["error_after"].abs().median() < 0.06


def test_contexts_of_a_few_hundred_tokens_do_not_tell_how_caches_are_read(fit: FleetFit):
    row = fit.constants.row(by_predicate=pl.col("constant") == "kv_passes", named=True)
    assert not row["fitted"]
