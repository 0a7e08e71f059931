"""How many devices share a model: stated, the only possible number, or the fewest that the bare run allows."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from specbook.hardware.profile import catalogue_device
from specbook.roofline.model_spec import model
from specbook.validation.device_counts import possible_counts, with_counts
from specbook.validation.passes import counted_settings
from specbook.validation.published_series import published_series
from specbook.validation.settings import Setting, example_setting, settings
from specbook.validation.step_times import StepTimes

TIMES = StepTimes()
LARGE = replace(example_setting(), target=model("Llama-3.1-70B"))


def _counted(setting: Setting, fastest_s: float) -> Setting:
    return with_counts([setting], [fastest_s], TIMES)[0]


def _step_s(setting: Setting, n_devices: int) -> float:
    step = TIMES.target(setting.device, setting.target, setting.precision, n_devices)
    return float(step(1.0, setting.batch, setting.context_tokens))


@pytest.mark.parametrize(
    ("target", "precision", "counts"),
    [
        ("Llama-3.1-8B", "bf16", (1, 2, 4, 8)),  # 16 GB of 141
        ("Llama-3.1-70B", "bf16", (2, 4, 8)),  # 141 GB
        ("Llama-3.1-70B", "fp8", (1, 2, 4, 8)),
        ("Kimi-K2", "fp8", (8,)),  # 1,029 GB
        ("Kimi-K2", "bf16", ()),
    ],
)
def test_only_devices_that_hold_the_weights_are_possible(target: str, precision: str, counts: tuple[int, ...]):
    assert possible_counts(replace(example_setting(), target=model(target), precision=precision)) == counts


def test_a_device_without_a_known_link_is_alone():
    alone = replace(example_setting(), device=catalogue_device("m4-pro"))
    assert possible_counts(alone) == (1,)
    found = _counted(alone, 1e-6)
    assert (found.n_devices, found.devices_from, found.assumptions) == (1, "single", alone.assumptions)


def test_a_stated_number_is_kept_whatever_was_measured():
    stated = replace(LARGE, n_devices=8)
    for fastest_s in (1e-6, 1.0, math.nan):
        found = _counted(stated, fastest_s)
        assert (found.n_devices, found.devices_from, found.assumptions) == (8, "stated", stated.assumptions)


@pytest.mark.parametrize("count", [2, 4, 8])
def test_the_fewest_whose_step_is_no_longer_than_the_measured_one(count: int):
    found = _counted(LARGE, _step_s(LARGE, count))
    assert (found.n_devices, found.devices_from) == (count, "inferred")
    assert found.assumptions[-1].startswith(f"{count} devices, the fewest whose modelled step")


def test_the_error_of_the_calibration_is_allowed_for_and_no_more():
    assert _counted(LARGE, _step_s(LARGE, 2) / 1.06).n_devices == 2
    assert _counted(LARGE, _step_s(LARGE, 2) / 1.08).n_devices == 4


def test_the_most_where_none_is_as_fast_and_the_fewest_where_nothing_was_measured():
    assert _counted(LARGE, 1e-6).n_devices == 8
    assert _counted(LARGE, 10.0).n_devices == 2
    found = _counted(LARGE, math.nan)
    assert (found.n_devices, found.devices_from) == (2, "inferred")
    assert found.assumptions[-1] == "2 devices, the fewest that hold the weights"
    too_large = replace(example_setting(), target=model("Kimi-K2"), precision="bf16")
    assert _counted(too_large, math.nan).n_devices == 8


def test_counts_of_the_shipped_rows_come_from_the_run_without_speculation_alone():
    rows = published_series().rows
    faster = [replace(row, tokens_per_s=None if row.tokens_per_s is None else 3.0 * row.tokens_per_s) for row in rows]

    def counts(which: Any) -> list[tuple[int | None, str]]:
        return [(each.n_devices, each.devices_from) for each in counted_settings(settings(which), TIMES)]

    before = counts(rows)
    assert before == counts(faster)
    assert {source for _, source in before} == {"stated", "single", "inferred"}
    slower = [
        replace(row, baseline_tokens_per_s=None if row.baseline_tokens_per_s is None else row.baseline_tokens_per_s / 9)
        for row in rows
    ]
    inferred = [count for count, source in before if source == "inferred"]
    fewer = [count for count, source in counts(slower) if source == "inferred"]
    assert np.mean(fewer) < np.mean(inferred)


def test_order_is_kept():
    found = [example_setting(), replace(LARGE, n_devices=4), replace(example_setting(), batch=8)]
    counted = with_counts(found, [5.2e-3, math.nan, 6e-3], TIMES)
    assert [(each.target.name, each.batch) for each in counted] == [(each.target.name, each.batch) for each in found]
