"""Several draft lengths and seeds: one table, each row as the single run has it, and what a configuration comes to."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from specbook.checks import BadInput
from specbook.commands import serving_runs
from specbook.serving.iteration_time import ConstantIterationTime
from specbook.serving.kv_blocks import KvConfig
from specbook.serving.many import simulate_many
from specbook.serving.runs_file import ServingRunsFile, read_serving_runs
from specbook.serving.serving_config import ServingConfig
from specbook.serving.spread import Spread, best_of, spread_over_seeds
from specbook.serving.workload import Workload

LOAD = ("--rate", 8, "--requests", 40, "--output-tokens", "geometric:30", "--kv-blocks", 300)
ACCEPTANCE = ("--conditional-acceptance", 0.7)
MODELS = ("--hardware", "h100-sxm5", "--target", "Llama-3.1-8B", "--draft", "Llama-3.2-1B")
LATENCIES = ("ttft", "tpot", "itl", "e2e", "wait")


@pytest.fixture
def affine(save: Callable[..., Path]) -> Path:
    times = {"kind": "affine", "c0_ms": 9.0, "c1_ms": 0.06, "c2_ms": 0.0004, "c3_ms": 0.00002}
    return save("S.json", times | {"draft_ms_per_pass": 1.2})


def _json(outcome: Any, code: int = 0) -> dict[str, Any]:
    assert outcome.code == code, outcome.err
    document: dict[str, Any] = json.loads(outcome.out)
    return document


def test_each_row_is_the_single_run(cli, tmp_path: Path, affine: Path):
    common = ("simulate", "--step-time", affine, *LOAD, *ACCEPTANCE, "--slo-tpot", 0.02)
    many = _json(cli(*common, "--draft-length", "2,4", "--seed", "0,7", "--out", tmp_path / "many", "--json"))
    runs = pl.read_parquet(tmp_path / "many" / "runs.parquet")
    assert runs.select("seed", "name").rows() == [
        (seed, name) for seed in (0, 7) for name in ("no speculation", "K = 2", "K = 4")
    ]
    assert [each["name"] for each in many["configurations"]] == ["no speculation", "K = 2", "K = 4"]
    for seed, length in ((0, 2), (7, 4)):
        one = ("--draft-length", length, "--seed", seed, "--compare", "--out", tmp_path / "one", "--json")
        outcome = cli(*common, *one)
        summary = _json(outcome, outcome.code)
        row = runs.row(by_predicate=(pl.col("seed") == seed) & (pl.col("name") == f"K = {length}"), named=True)
        plain = runs.row(by_predicate=(pl.col("seed") == seed) & (pl.col("name") == "no speculation"), named=True)
        for figures, found in ((summary, row), (summary["comparison"]["without_speculation"], plain)):
            for name in LATENCIES:
                assert [found[f"{name}_{p}_s"] for p in ("p50", "p90", "p99", "mean")] == [
                    figures[f"{name}_s"][p] for p in ("p50", "p90", "p99", "mean")
                ]
            assert found["goodput_requests_per_s"] == figures["goodput_requests_per_s"]
        assert (row["viable"], row["reason"]) == (
            summary["comparison"]["viable"],
            "; ".join(summary["comparison"]["reasons"]),
        )


def test_summary_is_the_mean_and_the_range_of_the_rows(cli, tmp_path: Path, affine: Path):
    arguments = ("--step-time", affine, *LOAD, *ACCEPTANCE, "--draft-length", "0,3", "--seed", "0,1,2")
    document = _json(cli("simulate", *arguments, "--out", tmp_path / "s", "--json"))
    assert read_serving_runs(tmp_path / "s" / "summary.json") == ServingRunsFile.model_validate(document)
    runs = pl.read_parquet(tmp_path / "s" / "runs.parquet")
    plain, drafting = (runs.filter(name=name) for name in ("no speculation", "K = 3"))
    found = {each["name"]: each for each in document["configurations"]}
    for name, rows in (("no speculation", plain), ("K = 3", drafting)):
        tails = rows["tpot_p90_s"]
        assert found[name]["tpot_s"] == {
            "mean": pytest.approx(tails.mean()), "lowest": tails.min(), "highest": tails.max()
        }  # fmt: skip
        assert found[name]["goodput_requests_per_s"] is None
    gains = plain["tpot_p90_s"] / drafting["tpot_p90_s"]
    assert found["K = 3"]["tpot_gain"]["lowest"] == gains.min()
    assert found["no speculation"]["tpot_gain"] == {"mean": 1.0, "lowest": 1.0, "highest": 1.0}
    assert document["best"] == "K = 3"
    assert (document["seeds"], document["assumptions"]) == ([0, 1, 2], ["K = 3: fixed draft model"])


def test_seeds_alone_run_one_engine_and_compare_runs_two(cli, tmp_path: Path, affine: Path):
    arguments = ("--step-time", affine, *LOAD, *ACCEPTANCE, "--draft-length", 2, "--seed", "3,1")
    for more, names in (((), ["K = 2"]), (("--compare",), ["no speculation", "K = 2"])):
        document = _json(cli("simulate", *arguments, *more, "--out", tmp_path / "s", "--json"))
        assert [each["name"] for each in document["configurations"]] == names
        assert document["seeds"] == [1, 3]
    assert sorted(path.name for path in (tmp_path / "s").iterdir()) == ["runs.parquet", "summary.json"]


def test_a_trace_is_the_same_for_every_seed(cli, save, tmp_path: Path, affine: Path):
    rows = "".join(f"{second},100,{40}\n" for second in range(12))
    trace = save("trace.csv", "arrival_s,prompt_tokens,output_tokens\n" + rows)
    arguments = ("--step-time", affine, "--kv-blocks", 300, "--trace", trace, *ACCEPTANCE, "--draft-length", "0,2")
    document = _json(cli("simulate", *arguments, "--seed", "0,1", "--out", tmp_path / "s", "--json"))
    plain, drafting = document["configurations"]
    assert plain["tpot_s"]["lowest"] == plain["tpot_s"]["highest"]
    assert drafting["tpot_s"]["lowest"] < drafting["tpot_s"]["highest"]


def test_models_leave_each_length_its_own_blocks(cli, tmp_path: Path):
    arguments = ("--rate", 20, "--requests", 20, *MODELS, *ACCEPTANCE, "--draft-length", "0,2", "--seed", "0,1")
    document = _json(cli("simulate", *arguments, "--out", tmp_path / "s", "--json"))
    plain, drafting = document["configurations"]
    assert plain["kv_blocks"] > drafting["kv_blocks"] > 0
    assert document["step_time_kind"] == "calibrated"


def test_table_names_what_is_dropped_and_what_is_best(cli, tmp_path: Path, affine: Path):
    arguments = ("--step-time", affine, *LOAD, *ACCEPTANCE, "--draft-length", "1,4", "--seed", "0,1")
    good = cli("simulate", *arguments, "--compare", "--out", tmp_path / "s")
    assert (good.code, good.err) == (0, "")
    assert "2 seeds, affine step times; p90, mean over seeds and its range" in good.out
    assert "shortest TPOT of those that stay: K = " in good.out
    bad = cli("simulate", *arguments, "--compare", "--slo-tpot", 0.0001, "--out", tmp_path / "s")
    assert bad.code == 1
    assert "K = 4 is dropped at 2 of 2 seeds, at 0 since p90 TPOT" in bad.out
    assert "nothing stays at every seed" in bad.out


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("--draft-length", "2,65"), ("--draft-length = '2,65'", "whole numbers from 0 to 64")),
        (("--draft-length", "2,x"), ("--draft-length = '2,x'", "separated by commas")),
        (("--draft-length", "2", "--seed", "0,-1"), ("--seed = '0,-1'", "whole numbers from 0")),
        (("--draft-length", "2", "--seed", ""), ("--seed = ''", "whole numbers")),
        (("--draft-length", "2,4", "--schedule", "1:4,8:0"), ("--draft-length = 4", "beside a schedule")),
        (("--draft-length", "2,4", "--stream"), ("--stream", "one seed and one draft length")),
    ],
)
def test_lists_that_are_none_and_what_contradicts_them_is_one_line(cli, tmp_path: Path, affine: Path, arguments, parts):
    outcome = cli("simulate", "--step-time", affine, *LOAD, *ACCEPTANCE, *arguments, "--out", tmp_path / "s")
    assert (outcome.code, outcome.out) == (2, "")
    assert len(outcome.err.splitlines()) == 1
    assert all(part in outcome.err for part in parts)
    assert not (tmp_path / "s").exists()


def test_a_load_that_is_too_long_to_keep_is_refused(cli, monkeypatch, tmp_path: Path, affine: Path):
    monkeypatch.setattr(serving_runs, "MOST_IN_MEMORY", 39)
    arguments = ("--step-time", affine, *LOAD, *ACCEPTANCE, "--draft-length", "2,4", "--out", tmp_path / "s")
    outcome = cli("simulate", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert "load = '40 requests': is too long for many runs; take at most 39" in outcome.err


ENGINE = ServingConfig(kv=KvConfig(n_blocks=64), iteration_time=ConstantIterationTime(seconds=0.01))
REQUEST = Workload(arrival_s=[0.0], prompt_tokens=[100], output_tokens=[1])


@pytest.mark.parametrize("seeds", [(), (1, 1)])
def test_seeds_that_are_none_or_stand_twice_are_refused(seeds: tuple[int, ...]):
    with pytest.raises(BadInput, match="name each seed once"):
        simulate_many({"plain": ENGINE}, lambda _: REQUEST, seeds=seeds)


def test_nothing_to_simulate_is_refused():
    with pytest.raises(BadInput, match="nothing to compare"):
        simulate_many({}, lambda _: REQUEST, seeds=(0,))


def test_a_figure_that_a_seed_does_not_have_has_no_spread():
    (found,) = spread_over_seeds(simulate_many({"plain": ENGINE}, lambda _: REQUEST, seeds=(0, 1)), 90)
    assert found.figures["tpot_s"] is None
    assert found.figures["ttft_s"] == Spread(mean=0.01, lowest=0.01, highest=0.01)
    assert found.figures["tpot_gain"] is None
    assert best_of([found]) is None


def test_a_file_of_another_schema_is_refused(save):
    with pytest.raises(BadInput, match="expected specbook-serving-runs/1"):
        read_serving_runs(save("summary.json", {"schema": "specbook-serving/1"}))
