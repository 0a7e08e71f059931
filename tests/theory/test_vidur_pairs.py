"""Runs of Vidur itself, request by request and iteration by iteration: the difference is 0, not small."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from specbook.serving.iteration_time import IterationTime
from specbook.serving.kv_blocks import KvConfig
from specbook.serving.result import ServingResult
from specbook.serving.serving_config import ServingConfig
from specbook.serving.vidur_tables import VidurTables
from specbook.serving.workload import Workload
from tests.serving_cases import AFFINE, column, simulate

PAIRS = Path(__file__).parent / "vidur_pairs"
SHARED = Path(__file__).parents[2].parent / "shared" / "vidur_pairs"
ROOMY, TIGHT = KvConfig(n_blocks=2000, watermark_blocks=20), KvConfig(n_blocks=110, watermark_blocks=1)
ENGINES: dict[str, dict[str, Any]] = {
    "sarathi_affine": {"scheduler": "vidur-sarathi", "chunk_tokens": 256, "kv": ROOMY},
    "vllm_affine": {"scheduler": "vidur-vllm", "chunk_tokens": 4096, "kv": ROOMY},
    "sarathi_affine_tight": {"scheduler": "vidur-sarathi", "chunk_tokens": 256, "kv": TIGHT},
    "sarathi_a30_qwen2_7b": {"scheduler": "vidur-sarathi", "chunk_tokens": 256, "kv": ROOMY},
}
AFFINE_CASES = ("sarathi_affine", "vllm_affine", "sarathi_affine_tight")


def run_of(case: str, iteration_time: IterationTime = AFFINE, *, one_by_one: bool = False) -> ServingResult:
    trace = pl.read_csv(PAIRS / "trace_small.csv")
    workload = Workload(
        arrival_s=column(trace, "arrived_at"),
        prompt_tokens=column(trace, "num_prefill_tokens"),
        output_tokens=column(trace, "num_decode_tokens"),
    )
    config = ServingConfig(max_batch=16, iteration_time=iteration_time, one_by_one=one_by_one, **ENGINES[case])
    return simulate(config, workload)


def recorded(folder: Path, case: str, what: str) -> pl.DataFrame:
    return pl.read_csv(folder / f"{case}.{what}.csv")


def our_requests(result: ServingResult) -> dict[str, np.ndarray]:
    frame = result.requests
    arrival_s = column(frame, "arrival_s")
    return {
        "prefill_e2e_time": column(frame, "first_token_s") - arrival_s,
        "request_e2e_time": column(frame, "end_s") - arrival_s,
        "request_scheduling_delay": column(frame, "scheduled_s") - arrival_s,
    }


def waiting_after(result: ServingResult) -> np.ndarray:
    """Requests that wait when an iteration ends: those left by its plan, and those that arrived meanwhile."""
    arrival_s, frame = column(result.requests, "arrival_s"), result.iterations
    until_start, until_end = (np.searchsorted(arrival_s, column(frame, at), "right") for at in ("start_s", "end_s"))
    return column(frame, "waiting") + until_end - until_start


def our_batches(result: ServingResult) -> dict[str, np.ndarray]:
    names = {
        "batch_size": "batch_size",
        "num_prefill_tokens": "prefill_tokens",
        "num_decode_requests": "n_decodes",
        "sum_decode_context": "decode_context_tokens",
        "kv_blocks_used_during": "kv_blocks_used",
    }
    ours = {theirs: column(result.iterations, name) for theirs, name in names.items()}
    return ours | {"waiting_after": waiting_after(result)}


@pytest.mark.parametrize("one_by_one", [False, True])
@pytest.mark.parametrize("case", AFFINE_CASES)
def test_vidur_latencies_differ_by_nothing(case: str, one_by_one: bool):
    result, theirs = run_of(case, one_by_one=one_by_one), recorded(PAIRS, case, "request_metrics")
    for name, ours in our_requests(result).items():
        assert ours.tolist() == theirs[name].to_list()
    assert result.requests["preemptions"].to_list() == theirs["request_num_restarts"].to_list()


@pytest.mark.parametrize("one_by_one", [False, True])
@pytest.mark.parametrize("case", AFFINE_CASES)
def test_vidur_iterations_differ_by_nothing(case: str, one_by_one: bool):
    result, theirs = run_of(case, one_by_one=one_by_one), recorded(PAIRS, case, "batches")
    assert len(result.iterations) == len(theirs)
    assert result.iterations["start_s"].to_list() == theirs["scheduled_at"].to_list()
    assert result.iterations["end_s"].to_list() == theirs["completed_at"].to_list()
    for name, ours in our_batches(result).items():
        assert ours.tolist() == theirs[name].to_list()


@pytest.mark.parametrize("case", AFFINE_CASES)
def test_vidur_execution_is_the_time_in_iterations_that_a_request_is_part_of(case: str):
    result, theirs = run_of(case), recorded(PAIRS, case, "request_metrics")
    whole = result.requests["preemptions"].to_numpy() == 0
    without_decodes = result.iterations.filter(pl.col("n_decodes") == 0)
    start_s, end_s = column(without_decodes, "start_s"), column(without_decodes, "end_s")
    for row, ran_s, stood_s in zip(
        result.requests.filter(whole).iter_rows(named=True),
        theirs.filter(whole)["request_execution_time"],
        theirs.filter(whole)["request_preemption_time"],
        strict=True,
    ):
        inside = (start_s >= row["first_token_s"]) & (end_s <= row["end_s"])
        paused_s = float((end_s - start_s)[inside].sum())
        assert paused_s == pytest.approx(stood_s, abs=1e-12)
        assert row["end_s"] - row["scheduled_s"] - paused_s == pytest.approx(ran_s, abs=1e-12)


def test_vidur_small_pool_makes_requests_start_again():
    assert run_of("sarathi_affine").summary.n_preemptions == 0
    assert run_of("sarathi_affine_tight").summary.n_preemptions == 11


@pytest.mark.skipif(not SHARED.is_dir(), reason="the folder of shared data is not here")
def test_vidur_measured_tables_differ_by_rounding():
    case = "sarathi_a30_qwen2_7b"
    names = {"linear": "linear", "decode": "attn_decode", "prefill": "attn_prefill"}
    paths: dict[str, Any] = {name: SHARED / f"a30_qwen2_7b_{theirs}_ms.csv" for name, theirs in names.items()}
    result = run_of(case, VidurTables.read(n_layers=28, **paths))
    metrics, batches = recorded(SHARED, case, "request_metrics"), recorded(SHARED, case, "batches")
    for name, ours in our_requests(result).items():
        np.testing.assert_allclose(ours, metrics[name].to_numpy(), rtol=0.0, atol=1e-12)
    for name, ours in our_batches(result).items():
        assert ours.tolist() == batches[name].to_list()
    for name, theirs in (("start_s", "scheduled_at"), ("end_s", "completed_at")):
        np.testing.assert_allclose(column(result.iterations, name), batches[theirs].to_numpy(), rtol=0.0, atol=1e-12)
