"""Other uses of the run without speculation: what each takes from it, and that the constants are fitted anew."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from specbook.validation.baseline_use import (
    BaselineUse,
    baseline_uses,
    compared_uses,
    no_baseline,
    own_baseline,
    unscaled_speedups,
)
from specbook.validation.published_errors import comparable, left_out_ratios
from specbook.validation.rounds import predict_rounds

BY_WORD = {each.use: each for each in baseline_uses()}
CONSTANTS = np.array([2e-4, 5e-4, 0.0, 0.02])


def _named(word: str) -> BaselineUse:
    return next(each for use, each in BY_WORD.items() if word in use)


class TestPasses:
    def test_own_baseline_knows_no_other_workload(self) -> None:
        rows = comparable("sglang")
        assert np.array_equal(own_baseline(rows).fastest_tpot_s, rows.passes.baseline_tpot_s)

    def test_without_a_baseline_the_modelled_step_is_it(self) -> None:
        rows = comparable("sglang")
        rounds = predict_rounds(no_baseline(rows), CONSTANTS)
        assert np.array_equal(rounds.baseline_s, rows.passes.step_s)
        assert not rounds.outside_s.any()

    def test_with_nothing_known_no_measured_speed_goes_in(self) -> None:
        rows = comparable("sglang")
        slower = [
            replace(
                each,
                row=replace(each.row, baseline_tokens_per_s=0.5 * each.row.baseline_tokens_per_s, tokens_per_s=1.0),
            )
            for each in rows.found
            if each.row.baseline_tokens_per_s
        ]
        assert len(slower) == len(rows.found)
        changed = replace(rows, found=tuple(slower))
        none = _named("fewest")
        assert np.array_equal(none.passes(changed).step_s, none.passes(rows).step_s)
        assert np.all(np.isnan(none.passes(changed).baseline_tpot_s))

    def test_the_fewest_devices_are_never_faster(self) -> None:
        rows = comparable("sglang")
        assert np.all(_named("fewest").passes(rows).step_s >= rows.passes.step_s * (1.0 - 1e-12))


class TestUnscaled:
    def test_is_the_model_where_the_step_is_as_modelled(self) -> None:
        rows = comparable("sglang")
        step = rows.passes.step_s
        passes = replace(
            rows.passes, baseline_tpot_s=step / (1.0 - CONSTANTS[3]), fastest_tpot_s=step / (1.0 - CONSTANTS[3])
        )
        assert unscaled_speedups(passes, CONSTANTS) == pytest.approx(predict_rounds(passes, CONSTANTS).speedup)

    def test_a_step_twice_as_long_gains_twice_as_much(self) -> None:
        passes = comparable("sglang").passes
        bare = replace(passes, fastest_tpot_s=passes.baseline_tpot_s)
        slow = replace(
            passes, baseline_tpot_s=2.0 * passes.baseline_tpot_s, fastest_tpot_s=2.0 * passes.baseline_tpot_s
        )
        constants = np.array([2e-4, 5e-4, 0.0, 0.0])
        assert unscaled_speedups(slow, constants) == pytest.approx(2.0 * unscaled_speedups(bare, constants))


class TestTable:
    def test_the_shipped_use_has_the_errors_of_the_model(self) -> None:
        shipped = compared_uses().row(0, named=True)
        for left_out in ("series", "target"):
            errors = np.abs(1.0 / left_out_ratios("sglang", left_out) - 1.0)
            assert shipped[left_out] == pytest.approx(float(np.median(errors)))

    def test_every_other_use_is_worse_whatever_was_left_out(self) -> None:
        table = compared_uses()
        for left_out in ("series", "target"):
            assert table[left_out].arg_min() == 0
            assert table[left_out].arg_max() == table.height - 1

    def test_use_of_one_workload_lies_between_the_server_and_nothing(self) -> None:
        medians = dict(compared_uses().select("use", "target").iter_rows())
        assert medians["as shipped"] < medians[_named("alone").use] < medians[_named("fewest").use]
