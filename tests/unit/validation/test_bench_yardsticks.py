"""Rules that need measured speculation: that they see nothing of the row that they predict."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specbook.validation.bench_yardsticks import bench_yardsticks, neighbours_speedups, regressed_speedups
from specbook.validation.published_errors import Comparable, comparable, left_out_ratios


@pytest.fixture(scope="module")
def rows() -> Comparable:
    return comparable("sglang")


class TestNeighbours:
    def test_share_is_that_of_other_series_of_target_and_length_by_hand(self, rows: Comparable) -> None:
        found = neighbours_speedups(rows)
        for place, each in enumerate(rows.found):
            shares = [
                rows.speedups[other] / rows.passes.tokens_per_round[other]
                for other, setting in enumerate(rows.found)
                if setting.target.name == each.target.name
                and setting.depth == each.depth
                and setting.row.series != each.row.series
            ]
            wanted = np.median(shares) * each.tokens_per_round if shares else np.nan
            assert found[place] == pytest.approx(wanted, nan_ok=True)

    @settings(max_examples=10, deadline=None)
    @given(place=st.integers(0, 100), factor=st.floats(0.1, 10.0))
    def test_speeds_of_its_own_series_change_nothing(self, place: int, factor: float) -> None:
        rows = comparable("sglang")
        own = np.array(rows.groups("series")) == rows.found[place].row.series
        changed = replace(rows, speedups=np.where(own, factor, 1.0) * rows.speedups)
        assert np.array_equal(neighbours_speedups(changed)[own], neighbours_speedups(rows)[own], equal_nan=True)


class TestRegression:
    def test_a_law_of_its_form_is_found(self, rows: Comparable) -> None:
        lengths = np.array([each.depth for each in rows.found])
        is_mixture = np.array([float(each.target.is_mixture) for each in rows.found])
        law = np.exp(0.1 - 0.04 * lengths - 0.2 * is_mixture) * rows.passes.tokens_per_round**0.8
        changed = replace(rows, speedups=law)
        assert regressed_speedups(changed, rows.groups("target")) == pytest.approx(law, rel=1e-6)

    def test_speeds_of_its_own_target_change_nothing(self, rows: Comparable) -> None:
        groups = rows.groups("target")
        own = np.array(groups) == groups[0]
        changed = replace(rows, speedups=np.where(own, 3.0, 1.0) * rows.speedups)
        assert regressed_speedups(changed, groups)[own] == pytest.approx(regressed_speedups(rows, groups)[own])
        assert not np.allclose(regressed_speedups(changed, groups)[~own], regressed_speedups(rows, groups)[~own])


class TestTable:
    def test_errors_of_the_model_are_those_of_its_fits(self, rows: Comparable) -> None:
        for left_out in ("series", "target"):
            error = np.abs(1.0 / left_out_ratios("sglang", left_out) - 1.0)
            row = bench_yardsticks().filter(rule="specbook", left_out=left_out).row(0, named=True)
            assert row["median"] == pytest.approx(float(np.median(error)))
            has = np.isfinite(neighbours_speedups(rows))
            assert row["neighboured"] == pytest.approx(float(np.median(error[has])))

    def test_all_rules_are_compared_on_the_same_rows(self, rows: Comparable) -> None:
        table = bench_yardsticks()
        assert table["n_neighboured"].to_list() == [int(np.isfinite(neighbours_speedups(rows)).sum())] * table.height
        assert table.filter(rule="a neighbour's share")["median"].to_list() == [None]

    def test_four_numbers_without_hardware_know_less_of_another_target(self) -> None:
        medians = {
            (rule, out): each for rule, out, each in bench_yardsticks().select("rule", "left_out", "median").rows()
        }
        assert medians["regression", "target"] > 1.3 * medians["specbook", "target"]
