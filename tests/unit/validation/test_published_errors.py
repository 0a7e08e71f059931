"""The shipped rows of an engine that can be compared, and how far each is from a fit that never saw it."""

from __future__ import annotations

import numpy as np
import pytest

from specbook.checks import BadInput
from specbook.roofline.engine_overheads import CONSTANTS
from specbook.validation.constants import fit_constants
from specbook.validation.published_errors import FITTED, KNOWN, LeftOut, comparable, left_out_fits, left_out_ratios
from specbook.validation.rounds import predict_rounds


@pytest.mark.parametrize("engine", FITTED)
def test_comparable_rows_have_all_that_a_comparison_needs(engine: str):
    rows = comparable(engine)
    n = len(rows.found)
    assert n == rows.speedups.size == rows.passes.step_s.size
    assert {each.engine for each in rows.found} == {engine}
    assert all(each.n_devices and each.devices_from for each in rows.found)
    assert np.all(np.isfinite(rows.speedups))
    assert np.all(rows.speedups > 0)
    assert np.all(np.isfinite(rows.passes.baseline_tpot_s))
    assert rows.speedups.tolist() == [each.row.speedup for each in rows.found]
    assert len(rows.groups("series")) == len(rows.groups("target")) == n


def test_an_engine_without_rows_has_none():
    assert comparable("no such engine").found == ()


def test_known_constants_are_constants():
    assert set(KNOWN) == set(FITTED)
    assert all(set(known) <= set(CONSTANTS) for known in KNOWN.values())


@pytest.mark.parametrize("left_out", ["series", "target"])
def test_each_group_has_a_fit_without_it(left_out: LeftOut):
    rows, fits = comparable("sglang"), left_out_fits("sglang", left_out)
    names = np.array(rows.groups(left_out))
    name = names[0]
    by_hand = fit_constants(rows.passes.part(names != name), rows.speedups[names != name], KNOWN["sglang"])
    assert np.array_equal(fits[names == name], np.tile(by_hand, ((names == name).sum(), 1)))
    assert fits.shape == (len(rows.found), len(CONSTANTS))


def test_ratios_are_measured_over_predicted():
    rows, ratios = comparable("sglang"), left_out_ratios("sglang")
    predicted = predict_rounds(rows.passes, left_out_fits("sglang", "series")).speedup
    assert (ratios * predicted).tolist() == pytest.approx(rows.speedups.tolist(), rel=1e-12)


def test_too_few_rows_are_refused_in_one_line():
    with pytest.raises(BadInput, match="0 rows cannot tell"):
        fit_constants(comparable("no such engine").passes, comparable("no such engine").speedups)
