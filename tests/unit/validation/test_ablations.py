"""The model without one term: what changes, what does not, and that the rest is fitted anew."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from specbook.validation.ablations import Ablation, ablated, ablations
from specbook.validation.constants import fit_constants
from specbook.validation.published_errors import KNOWN, comparable, left_out_ratios

# What lengthens a verify pass of a mixture besides experts: activations, arithmetic, attention, communication.
GROWTH_WITHOUT_EXPERTS = 0.25
BY_WORD = {each.term: each for each in ablations()}


def _named(word: str) -> Ablation:
    return next(each for term, each in BY_WORD.items() if word in term)


class TestPassesWithoutATerm:
    def test_terms_of_the_engine_are_constants_that_are_known_to_be_nothing(self) -> None:
        rows = comparable("sglang")
        for word, name in (("draft pass", "draft_pass_s"), ("of a round", "round_s")):
            assert _named(word).known == {name: 0.0}
            assert _named(word).passes(rows) is rows.passes

    def test_without_time_outside_decoding_each_workload_is_its_own_fastest(self) -> None:
        passes = _named("outside decoding").passes(comparable("sglang"))
        assert np.array_equal(passes.fastest_tpot_s, passes.baseline_tpot_s)

    def test_without_other_workloads_the_share_outside_decoding_is_fitted_all_the_same(self) -> None:
        rows, without = comparable("sglang"), _named("outside decoding")
        passes = without.passes(rows)
        assert fit_constants(passes, rows.speedups, KNOWN["sglang"], told=without.told)[3] > 0.0
        assert fit_constants(passes, rows.speedups, KNOWN["sglang"])[3] == 0.0

    def test_scaled_passes_meet_the_measured_step_and_keep_the_ratio(self) -> None:
        rows = comparable("sglang")
        passes = _named("residual").passes(rows)
        longer = rows.passes.fastest_tpot_s > rows.passes.step_s
        assert np.allclose(passes.step_s[longer], rows.passes.fastest_tpot_s[longer])
        assert np.array_equal(passes.step_s[~longer], rows.passes.step_s[~longer])
        assert np.allclose(passes.verify_s / passes.step_s, rows.passes.verify_s / rows.passes.step_s)

    def test_a_whole_head_drafts_slower_and_changes_nothing_else(self) -> None:
        rows = comparable("sglang")
        passes = _named("smaller head").passes(rows)
        assert np.all(passes.draft_s > rows.passes.draft_s)
        assert np.array_equal(passes.verify_s, rows.passes.verify_s)

    def test_experts_lengthen_verify_passes_of_mixtures_alone(self) -> None:
        rows = comparable("sglang")
        is_mixture = np.array([each.target.is_mixture for each in rows.found])
        passes = _named("experts").passes(rows)
        shorter = passes.verify_s / rows.passes.verify_s
        assert np.all(shorter[is_mixture] < 0.95)
        growth = (passes.verify_s - passes.step_s) / (rows.passes.verify_s - rows.passes.step_s)
        assert np.all(growth[is_mixture] < GROWTH_WITHOUT_EXPERTS)
        assert np.allclose(shorter[~is_mixture], 1.0)

    def test_states_lengthen_verify_passes_of_recurrent_layers_alone(self) -> None:
        rows = comparable("sglang")
        is_recurrent = np.array([each.target.n_linear_layers > 0 for each in rows.found])
        shorter = _named("recurrent").passes(rows).verify_s / rows.passes.verify_s
        assert np.all(shorter[is_recurrent] < 1.0)
        assert np.allclose(shorter[~is_recurrent], 1.0)


class TestTable:
    def test_with_every_term_the_error_is_that_of_the_model(self) -> None:
        errors = np.abs(1.0 / left_out_ratios("sglang") - 1.0)
        table = ablated()
        of_all = table.filter(n_rows=errors.size)
        assert of_all.height == 5
        assert of_all["median_with"].to_list() == pytest.approx([float(np.median(errors))] * of_all.height)

    def test_rows_concerned_are_counted(self) -> None:
        found = comparable("sglang").found
        table = dict(ablated().select("term", "n_rows").iter_rows())
        assert table[_named("experts").term] == sum(each.target.is_mixture for each in found)
        assert table[_named("recurrent").term] == sum(each.target.n_linear_layers > 0 for each in found)

    def test_experts_are_worth_most(self) -> None:
        table = ablated()
        worth = table.sort(pl.col("median_without") - pl.col("median_with"), descending=True)
        assert worth["term"][0] == _named("experts").term

    def test_every_term_that_is_left_out_changes_a_figure(self) -> None:
        table = ablated()
        assert (table["median_with"] != table["median_without"]).all()
        assert (table["bias_with"] != table["bias_without"]).all()

    def test_figures_are_shares(self) -> None:
        table = ablated("target")
        for name in ("within_8", "regret", "median"):
            for how in ("with", "without"):
                assert table[f"{name}_{how}"].is_between(0.0, 1.0).all()


def test_an_ablation_that_changes_nothing_is_the_model() -> None:
    rows = comparable("sglang")
    assert Ablation(term="nothing").passes(rows) is rows.passes
