"""Simpler rules: Leviathan's formula, one acceptance for all positions, always drafting; and their scores."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbook.checks import BadInput
from specbook.validation.passes import Passes
from specbook.validation.scores import scored
from specbook.validation.validate import example_validation
from specbook.validation.yardsticks import (
    iid_acceptance,
    iid_tokens,
    leviathan_speedups,
    published_passes,
    with_predictions,
    yardsticks,
)


def _passes(draft_s: float, tokens: float) -> Passes:
    figures = {
        "step_s": 5e-3,
        "verify_s": 9e-3,
        "draft_s": draft_s,
        "n_draft_passes": 3.0,
        "n_further_rows": 3.0,
        "n_small_rows": 3.0,
        "tokens_per_round": tokens,
        "baseline_tpot_s": 6e-3,
        "fastest_tpot_s": 6e-3,
    }
    return Passes(**{name: np.array([value]) for name, value in figures.items()})


class TestLeviathan:
    def test_speedup_is_tokens_over_one_plus_length_times_cost_ratio(self) -> None:
        assert leviathan_speedups(_passes(draft_s=3 * 0.5e-3, tokens=2.6))[0] == pytest.approx(2.6 / 1.3)

    def test_a_free_drafter_gains_all_its_tokens_whatever_a_verify_pass_takes(self) -> None:
        assert leviathan_speedups(_passes(draft_s=0.0, tokens=3.1))[0] == pytest.approx(3.1)

    @given(alpha=st.floats(0.0, 1.0), length=st.integers(1, 12))
    def test_acceptance_gives_its_tokens_back(self, alpha: float, length: int) -> None:
        closed_form = length + 1.0 if alpha == 1.0 else (1.0 - alpha ** (length + 1)) / (1.0 - alpha)
        assert iid_tokens(alpha, length) == pytest.approx(closed_form, rel=1e-6)
        assert iid_tokens(iid_acceptance(iid_tokens(alpha, length), length), length) == pytest.approx(
            iid_tokens(alpha, length), abs=1e-9
        )

    @pytest.mark.parametrize("tokens", [0.9, 4.1])
    def test_acceptance_that_cannot_be_is_refused(self, tokens: float) -> None:
        with pytest.raises(BadInput, match="from 1 to 4 tokens per round"):
            iid_acceptance(tokens, 3)


class TestOtherPredictions:
    def test_errors_and_wins_follow_the_new_predictions(self) -> None:
        frame = example_validation().frame
        halved = with_predictions(frame, 0.4 * frame["measured_speedup"].to_numpy())
        assert halved["error"].to_list() == pytest.approx([-0.6] * 3)
        assert halved["predicted_wins"].to_list() == [False] * 3
        assert scored(halved)["win_lose_right"][0] == 0.0
        assert halved["predicted_low"].null_count() == 3

    def test_measured_figures_stay(self) -> None:
        frame = example_validation().frame
        other = with_predictions(frame, np.ones(3))
        assert other["measured_speedup"].to_list() == frame["measured_speedup"].to_list()


class TestPublishedTable:
    def test_passes_are_of_the_rows_that_can_be_predicted(self) -> None:
        found, passes = published_passes()
        assert len(found) == passes.draft_s.size >= 150
        assert np.all(passes.step_s > 0.0)

    def test_no_rule_is_nearer_than_the_model_in_the_median(self) -> None:
        errors = yardsticks()["median_absolute_error"].to_list()
        assert max(errors[:2]) < min(error for error in errors[2:] if error is not None)

    def test_model_chooses_better_lengths_than_a_fixed_one(self) -> None:
        regrets = dict(yardsticks().select("rule", "regret").iter_rows())
        fixed = [regret for rule, regret in regrets.items() if rule.startswith("always")]
        assert regrets["specbook, target left out"] < 0.5 * min(fixed)

    def test_drafting_always_is_right_where_rows_won_and_foresees_no_loss(self) -> None:
        found, _ = published_passes()
        speedups = np.array([each.row.speedup or np.nan for each in found])
        outside = speedups[np.abs(speedups - 1.0) > 0.05]
        always = yardsticks().filter(pl.col("rule").str.starts_with("always"))
        assert always["win_lose_right"].to_list() == pytest.approx([(outside > 1.0).mean()] * 3)
        assert always["n_losses_foreseen"].sum() == 0

    def test_a_verify_pass_as_short_as_a_step_is_too_good_for_mixtures_most_of_all(self) -> None:
        row = yardsticks().row(by_predicate=pl.col("rule") == "Leviathan, α of each row", named=True)
        assert row["bias"] > 0.0
        assert row["median_mixture"] > 2.0 * row["median_dense"]
