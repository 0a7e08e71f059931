"""The grid as arrays and as the table that other people read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from specbook.acceptance.candidates import DraftCandidates
from specbook.hardware.profile import catalogue_device
from specbook.roofline.grid import GridConfig, evaluate_grid, example_grid, project
from specbook.roofline.model_spec import model

CONTRACT = [
    "hardware", "target", "drafter", "method", "draft_length", "tree_nodes", "precision", "batch", "context",
    "step_time_kind", "draft_s", "verify_s", "round_s", "baseline_tpot_s", "tpot_s", "expected_tokens", "speedup",
    "throughput_tokens_per_s", "kv_bytes", "regime", "viable",
]  # fmt: skip


def _grid(**changes: Any) -> GridConfig:
    candidates = DraftCandidates(
        draft_lengths=(0, 4),
        expected_tokens=(1.0, 3.3616),
        assumptions=("measured", "truncation of a profile at K = 8"),
        method="mtp",
        domain="code",
    )
    base = GridConfig(
        hardware=(catalogue_device("h100-sxm5"), catalogue_device("l4")),
        target=model("Llama-3.1-8B"),
        draft=model("Llama-3.2-1B"),
        candidates=candidates,
        batches=(1, 64),
        contexts=(512, 8192),
    )
    return replace(base, **changes)


def test_project_columns_begin_with_the_contract_in_its_order():
    table = project(_grid())
    assert table.columns[: len(CONTRACT)] == CONTRACT
    assert set(table.columns[len(CONTRACT) :]) == {
        "fits_memory", "draft_precision", "measured_target", "measured_drafter", "domain", "temperature",
        "acceptance_assumption", "speedup_low", "speedup_high", "step_time_source", "n_devices",
    }  # fmt: skip


def test_project_types_are_those_that_others_read():
    schema = project(_grid()).schema
    texts = ("hardware", "target", "drafter", "method", "precision", "step_time_kind", "regime", "domain")
    assert all(schema[name] == pl.String for name in texts)
    assert all(schema[name] == pl.Int64 for name in ("draft_length", "tree_nodes", "batch", "context"))
    assert all(schema[name] == pl.Float64 for name in CONTRACT if name.endswith(("_s", "_bytes", "speedup")))
    assert all(schema[name] == pl.Boolean for name in ("viable", "fits_memory"))


def test_project_has_every_configuration_once():
    table = project(_grid())
    keys = table.select("hardware", "draft_length", "batch", "context")
    assert keys.height == keys.n_unique() == 2 * 2 * 2 * 2


def test_project_labels_go_with_their_rows():
    table = project(_grid(precision="fp8"))
    assert table["target"].unique().to_list() == ["Llama-3.1-8B"]
    assert table["drafter"].unique().to_list() == ["Llama-3.2-1B"]
    assert table["method"].unique().to_list() == ["mtp"]
    assert table["domain"].unique().to_list() == ["code"]
    assert table["precision"].unique().to_list() == ["fp8"]
    assert table["step_time_kind"].unique().to_list() == ["calibrated"]
    assert table["tree_nodes"].null_count() == table.height
    assumed = table.filter(pl.col("acceptance_assumption") != "measured")
    assert assumed["draft_length"].unique().to_list() == [4]


def test_project_unknown_method_and_domain_are_null():
    candidates = DraftCandidates(draft_lengths=(0, 1), expected_tokens=(1.0, 1.5), assumptions=("measured",) * 2)
    table = project(_grid(candidates=candidates))
    assert table["method"].null_count() == table["domain"].null_count() == table.height
    assert table.schema["method"] == pl.String


def test_project_derived_columns_follow_from_the_times():
    table = project(_grid())
    for row in table.iter_rows(named=True):
        assert row["round_s"] == pytest.approx(row["draft_s"] + row["verify_s"], rel=1e-14)
        assert row["tpot_s"] == pytest.approx(row["round_s"] / row["expected_tokens"], rel=1e-14)
        assert row["speedup"] == pytest.approx(row["baseline_tpot_s"] / row["tpot_s"], rel=1e-14)
        assert row["throughput_tokens_per_s"] == pytest.approx(row["batch"] / row["tpot_s"], rel=1e-14)
        assert row["viable"] == (row["fits_memory"] and (row["speedup"] > 1 or row["draft_length"] == 0))


def test_project_no_draft_is_the_baseline_and_exactly_one():
    rows = project(_grid()).filter(pl.col("draft_length") == 0)
    assert rows["speedup"].to_list() == [1.0] * rows.height
    assert rows["tpot_s"].to_list() == rows["baseline_tpot_s"].to_list() == rows["verify_s"].to_list()


def test_project_cache_counts_the_drafter_only_when_it_drafts():
    table = project(_grid()).filter(hardware="h100-sxm5", batch=64, context=8192)
    per_token = {row["draft_length"]: row["kv_bytes"] / (64 * 8192) for row in table.iter_rows(named=True)}
    assert per_token == {0: 131_072.0, 4: 131_072.0 + 2 * 16 * 8 * 64 * 2}


def test_project_memory_limit_is_weights_and_cache():
    table = project(_grid())
    assert not any(table.filter(hardware="l4", batch=64, context=8192)["fits_memory"])
    assert all(table.filter(hardware="h100-sxm5", batch=1)["fits_memory"])
    big = project(_grid(target=model("Llama-3.1-70B")))
    assert not any(big["fits_memory"])
    assert not any(big["viable"])


def test_project_drafter_that_does_not_fit_beside_the_target_is_not_viable():
    l4 = catalogue_device("l4")
    needed = model("Llama-3.1-8B").weight_bytes("bf16") + 512 * 131_072
    tight = l4.model_copy(update={"memory_bytes": l4.memory_bytes.model_copy(update={"value": needed})})
    table = project(_grid(hardware=(tight,), batches=(1,), contexts=(512,)))
    assert dict(table.select("draft_length", "fits_memory").iter_rows()) == {0: True, 4: False}


def test_project_regime_is_of_the_verify_pass():
    table = project(_grid(batches=(1, 256), contexts=(512,))).filter(hardware="h100-sxm5", draft_length=4)
    assert dict(table.select("batch", "regime").iter_rows()) == {1: "memory", 256: "compute"}


def test_project_fp8_target_computes_at_its_own_rate():
    wide, narrow = (
        project(_grid(step_time="doctrine", precision=name, batches=(1024,), contexts=(512,))).filter(
            hardware="h100-sxm5", draft_length=4
        )
        for name in ("bf16", "fp8")
    )
    assert wide["regime"].item() == narrow["regime"].item() == "compute"
    assert (wide["verify_s"].item() - 8e-6) / (narrow["verify_s"].item() - 8e-6) == pytest.approx(2.0, rel=1e-12)


def test_project_draft_precision_changes_only_the_drafter():
    wide, narrow = project(_grid()), project(_grid(draft_precision="int4"))
    assert wide["verify_s"].equals(narrow["verify_s"])
    assert (narrow["draft_s"] < wide["draft_s"]).any()
    assert not (narrow["draft_s"] > wide["draft_s"]).any()


def test_project_same_frames_concatenate():
    assert pl.concat([project(_grid()), project(_grid(precision="int4"))]).height == 32


def test_evaluate_grid_broadcasts_to_the_shape():
    config = _grid()
    assert config.shape == (2, 2, 2, 2)
    for value in vars(evaluate_grid(config)).values():
        assert np.broadcast_to(value, config.shape).shape == config.shape


def test_example_grid_is_small():
    assert np.prod(example_grid().shape) <= 100


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hardware": ()}, "hardware must name at least one device"),
        ({"batches": ()}, "batches must not be empty"),
        ({"contexts": ()}, "contexts must not be empty"),
        ({"batches": (0,)}, "batches must be whole and at least 1; got 0"),
        ({"batches": (1, 2.5)}, "batches must be whole and at least 1; got 2.5"),
        ({"contexts": (-5,)}, "contexts must be whole and at least 1; got -5"),
        ({"contexts": (float("nan"),)}, "contexts must be finite; got nan"),
    ],
)
def test_grid_config_impossible_axis_is_refused(changes: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        _grid(**changes)
