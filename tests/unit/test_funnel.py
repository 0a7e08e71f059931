"""The funnel, file to file: gates that add up, notes that say what is assumed, and files that repeat."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from specbook.acceptance.library import library_profile
from specbook.acceptance.profile import profile_from_accepted, profile_from_counts
from specbook.checks import BadInput
from specbook.funnel import example_funnel, run_funnel, summary, write_ranking
from specbook.funnel_config import FunnelConfig
from specbook.hardware.profile import catalogue_device, load_hardware
from specbook.measuring.traces import book_profile
from specbook.roofline.model_spec import model

VARIED = FunnelConfig(
    profiles=(
        library_profile("spec-bench-sps-vicuna-7b-math"),
        library_profile("spec-bench-sps-vicuna-7b-qa"),
    ),
    hardware=(catalogue_device("l4"), catalogue_device("genoa")),
    target=model("Vicuna-7B-v1.3"),
    draft=model("Llama-68M"),
    batches=(1, 32),
    contexts=(512, 16384),
    assume="truncation",
    max_draft_length=6,
)


def test_run_funnel_gates_account_for_every_configuration():
    for gate in run_funnel(VARIED).gates.values():
        assert gate.entered == gate.left + sum(gate.dropped.values())


def test_run_funnel_ranking_holds_every_domain():
    result = run_funnel(VARIED)
    assert result.ranking.height == 2 * 2 * 7 * 2 * 2
    assert result.ranking["domain"].unique().sort().to_list() == ["math", "qa"]
    assert result.break_even["domain"].unique().sort().to_list() == ["math", "qa"]


def test_run_funnel_viable_rows_are_those_that_leave_the_roofline():
    result = run_funnel(VARIED)
    viable = result.ranking.filter(pl.col("viable") & (pl.col("draft_length") > 0))
    assert result.gates["roofline"].left == viable.height


def test_run_funnel_notes_name_every_assumption():
    result = run_funnel(VARIED)
    notes = " | ".join(result.notes)
    assert "step times are calibrated" in result.notes[0]
    assert "truncation of drafts of unknown or varying length" in notes
    ideal = " | ".join(run_funnel(replace(VARIED, step_time="doctrine")).notes)
    assert "ideal roofline" in ideal
    assert "no launch overhead is known, so none is counted, on genoa" in ideal


def test_run_funnel_other_target_than_measured_is_noted():
    notes = " | ".join(run_funnel(replace(VARIED, target=model("Llama-3.1-8B"))).notes)
    assert "acceptance was measured on vicuna-7b-v1.3, not on Llama-3.1-8B" in notes
    assert "acceptance was measured on" not in " | ".join(run_funnel(VARIED).notes)


def test_run_funnel_measured_lengths_only_assume_nothing():
    config = replace(example_funnel(), profiles=(library_profile("vllm-48892-mtp-k1"),))
    assert not any("truncation" in note for note in run_funnel(config).notes)


def test_run_funnel_two_lengths_of_one_drafter_share_a_cell():
    names = ("vllm-48892-mtp-k1", "vllm-48892-mtp-k8")
    config = replace(example_funnel(), profiles=tuple(map(library_profile, names)))
    result = run_funnel(config)
    assert result.ranking["draft_length"].unique().sort().to_list() == [0, 1, 8]
    assert result.gates["acceptance"].entered == 2


def test_run_funnel_unusable_profile_is_refused():
    config = replace(example_funnel(), profiles=(profile_from_accepted([1, 1]),))
    with pytest.raises(BadInput, match="pass --assume truncation"):
        run_funnel(config)


@pytest.mark.parametrize("label", ["temperature", "method"])
def test_run_funnel_drafters_or_temperatures_do_not_compete(label: str):
    values = {"temperature": (0.0, 1.0), "method": ("mtp", "ngram")}[label]
    profiles = [profile_from_counts({2: [2, 4, 4]}, draft_length=2, **{label: value}) for value in values]
    config = replace(example_funnel(), profiles=tuple(profiles))
    first = run_funnel(config).ranking.filter(pl.col("rank") == 1)
    assert first.height == 2 * len(config.batches) * len(config.contexts)


def test_summary_holds_inputs_gates_notes_and_answers():
    result = run_funnel(VARIED)
    document = summary(result)
    assert list(document) == ["schema", "specbook_version", "config", "gates", "notes", "best", "break_even"]
    assert document["config"]["hardware"] == ["l4", "genoa"]
    assert document["config"]["assume"] == "truncation"
    assert [item["domain"] for item in document["config"]["evidence"]] == ["math", "qa"]
    assert all(item["provenance"][0]["sha256"] for item in document["config"]["evidence"])
    assert len(document["best"]) == result.ranking.filter(pl.col("rank") == 1).height
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_write_ranking_again_gives_the_same_bytes_and_the_same_table(tmp_path):
    result = run_funnel(VARIED)
    for folder in ("a", "b"):
        write_ranking(run_funnel(VARIED), tmp_path / folder / "ranking.parquet")
    assert (tmp_path / "a" / "ranking.parquet").read_bytes() == (tmp_path / "b" / "ranking.parquet").read_bytes()
    assert pl.read_parquet(tmp_path / "a" / "ranking.parquet").equals(result.ranking)


def test_write_ranking_below_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(BadInput, match="cannot be written"):
        write_ranking(run_funnel(example_funnel()), tmp_path / "file" / "ranking.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def _notes(**changes: Any) -> str:
    return "\n".join(run_funnel(replace(example_funnel(), **changes)).notes)


def test_notes_name_what_is_odd_about_the_pair():
    assert "different vocabularies" in _notes(draft=model("Qwen3-0.6B"))
    assert "is not smaller than" in _notes(draft=model("Llama-3.1-70B"))
    assert "was made for 131,072 tokens" in _notes(contexts=(200_000,))
    assert "does not name its target" in _notes()
    assert "different vocabularies" not in _notes()


def test_notes_say_where_fp8_falls_back():
    assert "no FP8 rate is known" in _notes(hardware=(catalogue_device("a100-sxm4-80gb"),), precision="fp8")
    assert "no FP8 rate is known" not in _notes(precision="bf16")


def test_notes_say_what_a_calibration_leaves_open():
    probed = (load_hardware("epyc-zen4-2core"),)
    assert "only 32-bit arithmetic was measured" in _notes(hardware=probed)
    assert "only 32-bit" not in _notes(hardware=probed, precision="fp32", draft_precision="fp32")
    assert "no link between devices is known, so 32 GB/s one way is assumed, on mi300x" in _notes(tensor_parallel=2)
    assert "no link" not in _notes() + _notes(tensor_parallel=2, hardware=(catalogue_device("h100-sxm5"),))


def test_a_draft_model_is_for_its_own_evidence_where_there_is_some():
    eagle = library_profile("eagle-vicuna-7b-t0")
    small = library_profile("spec-bench-sps-vicuna-7b")
    config = replace(VARIED, profiles=(eagle, small), assume="truncation")
    assert [grid.method for grid in config.grids()] == ["eagle", "draft_model"]
    assert not any("(eagle)" in note for note in run_funnel(config).notes)
    alone = replace(config, profiles=(eagle,))
    assert [grid.method for grid in alone.grids()] == ["draft_model"]
    assert any("(eagle)" in note for note in run_funnel(alone).notes)


def test_write_ranking_names_its_schema_and_sources(tmp_path):
    write_ranking(run_funnel(example_funnel()), tmp_path / "ranking.parquet")
    metadata = pl.read_parquet_metadata(tmp_path / "ranking.parquet")
    assert metadata["specbook.schema"] == "specbook-projection/1"
    assert json.loads(metadata["specbook.evidence"])[0]["domain"] == "code"


def test_notes_take_the_native_engines_models_for_what_they_are():
    profile = book_profile("small", "chain 4", "code", 0.0)
    pair = {"target": model("specbook-target-r8"), "draft": model("specbook-draft"), "profiles": (profile,)}
    assert "acceptance was measured" not in _notes(**pair)
    assert "acceptance was measured on" in _notes(**pair | {"target": model("Llama-3.1-8B")})
