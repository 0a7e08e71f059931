"""Probes that ship with specbook: whole, of a quiet machine, and without a trace of where they were made."""

from __future__ import annotations

import json

import pytest

from specbook.checks import BadInput
from specbook.files import dump_model
from specbook.hardware.probe.models import SCRATCH_MODELS
from specbook.hardware.probe.statistics import NOISY
from specbook.hardware.probe.stored import stored_probe, stored_probe_names
from specbook.hardware.profile import load_hardware

NAMES = stored_probe_names()


@pytest.mark.parametrize("name", NAMES)
def test_stored_probe_is_whole_and_quiet(name: str):
    profile = stored_probe(name)
    record = profile.probe
    assert record is not None
    assert profile.name == name
    assert record.warnings == []
    assert record.noise <= NOISY
    assert record.budget_s >= 60.0
    assert record.wall_s <= record.budget_s
    models = {(table.model, table.engine) for table in profile.step_times}
    assert models == {(model, f"specbook {name}") for model in SCRATCH_MODELS for name in ("fast", "exact")}


@pytest.mark.parametrize("name", NAMES)
def test_stored_probe_holds_the_matrix_of_passes(name: str):
    record = stored_probe(name).probe
    assert record is not None
    for arithmetic in ("fast", "exact"):
        cells = {
            (time.batch, time.context, time.width)
            for time in record.passes
            if (time.model, time.arithmetic) == ("specbook-target-r8", arithmetic)
        }
        wanted = {(b, c, w) for b in (1, 4, 16) for c in (512, 4096, 16384) for w in (1, 5)}
        assert wanted <= cells
    assert {time.arithmetic for time in record.products} == {"exact", "fast", "ref64", "naive"}
    assert {time.rows for time in record.products} == set(range(1, 18))
    assert min(time.seconds.n for time in [*record.products, *record.attention, *record.passes]) >= 2


def test_longer_passes_take_longer_in_the_stored_probe():
    """Nothing of the measured times is pinned; that work takes time is."""
    record = stored_probe("epyc-zen4-2core").probe
    assert record is not None
    seconds = {
        (time.arithmetic, time.batch, time.context, time.width): time.seconds.median
        for time in record.passes
        if time.model == "specbook-target-r8"
    }
    for arithmetic in ("fast", "exact"):
        for context in (512, 4096, 16384):
            assert seconds[arithmetic, 1, context, 1] < seconds[arithmetic, 4, context, 5]
            assert seconds[arithmetic, 4, context, 1] < seconds[arithmetic, 16, context, 5]
        assert seconds[arithmetic, 16, 512, 1] < seconds[arithmetic, 16, 16384, 1]


def test_stored_probe_of_another_name_is_refused():
    with pytest.raises(BadInput, match=r"probe = 'abacus': no such probe; one of epyc-zen4-2core"):
        stored_probe("abacus")


def test_spread_out_of_order_is_refused(save):
    document = json.loads(dump_model(stored_probe("epyc-zen4-2core")))
    document["probe"]["call_overhead_s"]["low"] = 1.0
    with pytest.raises(BadInput, match=r"probe.call_overhead_s.*: has its median .* outside of 1 to "):
        load_hardware(str(save("mine.json", document)))
