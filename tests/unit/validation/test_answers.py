"""What a user states is said in each row that it answers; what cannot be is said as well."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specbook.hardware.profile import HardwareProfile, catalogue_device
from specbook.validation.scores import scored
from specbook.validation.series import SeriesFile, SeriesRow
from specbook.validation.settings import Overrides, example_series
from specbook.validation.validate import validate

ROW = example_series().rows[0]


def _file(*rows: SeriesRow, sha256: str = "") -> SeriesFile:
    return replace(example_series(), rows=rows, sha256=sha256)


@pytest.mark.parametrize(
    ("changes", "stated", "said"),
    [
        ({"hardware": "GH200"}, Overrides(device=catalogue_device("l4")), "device l4, as stated"),
        ({"target": "gpt-4"}, Overrides(target="8B"), "target 8B (stated size), as stated"),
        ({"drafter": ""}, Overrides(draft="eagle3"), "draft eagle3, as stated"),
        ({"engine": ""}, Overrides(engine="vLLM"), "engine vLLM, as stated"),
        ({}, Overrides(precision="fp8"), "weights in fp8, as stated"),
        ({}, Overrides(n_devices=2), "2 devices, as stated"),
    ],
)
def test_each_answer_is_an_assumption_of_its_rows_and_of_no_others(changes, stated, said):
    answered, own = validate(_file(replace(ROW, **changes)), stated), validate(_file(ROW))
    assert said in answered.frame["assumptions"][0].split("; ")
    assert "as stated" not in own.frame["assumptions"][0]


def test_an_answer_to_what_a_row_tells_is_not_taken():
    whole = replace(ROW, n_devices=1)
    stated = Overrides(device=catalogue_device("l4"), target="8B", draft="ngram", engine="vLLM", n_devices=4)
    assert "as stated" not in validate(_file(whole), stated).frame["assumptions"][0]


def test_what_does_not_fit_into_memory_is_said():
    wide = validate(_file(replace(ROW, batch=100_000, tokens_per_s=9e5, baseline_tokens_per_s=5e5))).frame
    assert "of the 141 GB of a device" in wide["assumptions"][0]
    assert "of a device" not in validate(_file(ROW)).frame["assumptions"][0]


def test_rows_without_drafts_choose_and_do_not_flatter():
    none = [
        replace(ROW, line=line, draft_length=0.0, tokens_per_round=1.0, tokens_per_s=190.0, series=name)
        for line, name in ((5, "example"), (6, "a"), (7, "b"))
    ]
    wrong = replace(ROW, tokens_per_s=1200.0)
    found = scored(validate(_file(wrong, *none)).frame).row(0, named=True)
    assert found["n_rows"] == 1
    assert found["median_absolute_error"] > 0.5
    assert found["n_varying_series"] == 1
    assert found["best_k_exact"] == 1.0


def test_a_profile_that_was_fitted_to_the_very_file_is_named():
    device = catalogue_device("h200-sxm")
    own = device.calibrations["default"].model_copy(update={"source": "fitted to 3 rows of mine.csv (sha256 abc123)"})
    profile = HardwareProfile.model_validate(device.model_copy(update={"calibrations": {"mine": own}}).model_dump())
    stated = Overrides(device=profile)
    flattering = "A calibration of h200-sxm was fitted to this very file, and its figures flatter."
    assert flattering in validate(_file(ROW, sha256="abc123"), stated).conditions
    assert flattering not in validate(_file(ROW, sha256="def456"), stated).conditions
    assert flattering not in validate(_file(ROW), stated).conditions
