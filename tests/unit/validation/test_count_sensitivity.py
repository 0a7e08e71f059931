"""Other numbers of devices: which rows they change, and by what."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from specbook.validation.count_sensitivity import IN_DOUBT, count_sensitivity, with_count
from specbook.validation.device_counts import possible_counts
from specbook.validation.published_errors import comparable, left_out_ratios
from specbook.validation.settings import example_setting


@pytest.mark.parametrize(("asked", "count"), [(0.5, 1), (1.0, 1), (2.0, 2), (8.0, 8), (16.0, 8)])
def test_the_nearest_number_that_can_be_is_taken(asked: float, count: int) -> None:
    setting = replace(example_setting(), n_devices=4, devices_from="inferred")
    assert with_count(setting, asked).n_devices == count


def test_a_stated_number_stays() -> None:
    setting = replace(example_setting(), n_devices=4, devices_from="stated")
    assert with_count(setting, 8.0) is setting


class TestTable:
    def test_inferred_numbers_are_the_model(self) -> None:
        errors = 1.0 / left_out_ratios("sglang") - 1.0
        is_inferred = np.array([each.devices_from == "inferred" for each in comparable("sglang").found])
        row = count_sensitivity().row(0, named=True)
        assert row["median"] == pytest.approx(float(np.median(np.abs(errors))))
        assert row["bias"] == pytest.approx(float(errors[is_inferred].mean()))
        assert row["n_rows"] == is_inferred.sum()

    def test_a_doubted_target_on_its_inferred_number_is_the_model(self) -> None:
        table = dict(count_sensitivity().select("devices", "median").iter_rows())
        for name in IN_DOUBT:
            count = next(each.n_devices for each in comparable("sglang").found if each.target.name == name)
            assert table[f"{name}: {count}"] == pytest.approx(table["as inferred"])

    def test_more_devices_promise_more(self) -> None:
        table = dict(count_sensitivity().select("devices", "bias").iter_rows())
        assert table["halved"] < table["as inferred"] < table["doubled"]
        for name, counts in IN_DOUBT.items():
            biases = [table[f"{name}: {count}"] for count in counts]
            assert biases == sorted(biases)

    def test_every_count_that_is_tried_holds_the_weights(self) -> None:
        for each in comparable("sglang").found:
            if each.target.name in IN_DOUBT:
                assert set(IN_DOUBT[each.target.name]) <= set(possible_counts(each))
