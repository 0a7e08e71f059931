"""The native engine as a witness: tiny runs, of which structure and tokens are held, and no time is."""

from __future__ import annotations

import gc
from dataclasses import replace

import polars as pl
import pytest

from specbook.engine.library import SHA256
from specbook.engine.threads import blas_description
from specbook.hardware.probe.stored import stored_probe
from specbook.witness.config import Configuration, WitnessConfig
from specbook.witness.execution import no_garbage_collection, run_job
from specbook.witness.frames import REQUESTS, ROUNDS
from specbook.witness.jobs import Job, n_steps, plan_jobs, prompts_of
from specbook.witness.run import run_witness
from specbook.witness.subject import NativeEngine
from tests.fake_witness import FakeClock

FOUR = Configuration(name="four", drafter="small", draft_length=4)
WARM = Configuration(name="warm", drafter="eagle", draft_length=2, temperature=1.0)
TINY = WitnessConfig(configurations=(FOUR, WARM), arithmetic="exact", replication=1, new_tokens=10, n_prompts=3)


def test_a_run_with_a_forecast_holds_all_that_a_receipt_needs():
    done: list[int] = []
    result = run_witness(TINY, hardware=stored_probe("epyc-zen4-2core"), progress=done.append)
    assert sum(done) == n_steps(TINY, forecast=True)
    assert (result.requests.schema, result.rounds.schema) == (pl.Schema(REQUESTS), pl.Schema(ROUNDS))
    assert result.requests.height == 3 * (2 + 2 + 2)
    greedy, warm = result.results
    assert (greedy.parity.n_requests, greedy.parity.n_tokens, greedy.parity.is_equal) == (3, 30, True)
    assert warm.parity.n_requests == 0
    for each in result.results:
        assert each.forecast is not None
        assert each.forecast.acceptance.measurement is not None
        assert each.forecast.acceptance.measurement.n_prompts == 24
        assert each.forecast.acceptance.measurement.max_new_tokens == TINY.new_tokens
        assert (each.replay.measured.n, each.autoregressive.n) == (3, 3)
        assert [term.name for term in each.terms] == ["verify", "draft", "acceptance", "overhead"]
    engine = result.engine
    assert (engine.arithmetic, engine.replication, engine.n_threads) == ("exact", 1, 1)
    assert engine.weights_sha256 == {name: SHA256[f"{name}.safetensors"] for name in ("target", "draft", "eagle")}
    assert engine.blas_kernel == blas_description()["kernel"]
    assert "node" not in engine.host


def test_acceptance_that_is_given_is_not_measured_again():
    first = run_witness(replace(TINY, configurations=(FOUR,)), hardware=stored_probe("epyc-zen4-2core"))
    assert first.results[0].forecast is not None
    given = replace(FOUR, acceptance=first.results[0].forecast.acceptance)
    config = replace(TINY, configurations=(given,))
    assert n_steps(config, forecast=True) == n_steps(config, forecast=False)
    again = run_witness(config, hardware=stored_probe("epyc-zen4-2core"))
    assert again.results[0].forecast is not None
    assert again.results[0].forecast.acceptance == given.acceptance


def test_tokens_do_not_depend_on_the_order_or_the_dial():
    config = replace(TINY, configurations=(WARM,))
    jobs = [job for job in plan_jobs(config, prompts_of(config)) if job.kind == "speculative"]
    decoded = [_tokens(NativeEngine(config, replication), job) for replication in (1, 2) for job in jobs]
    assert decoded[: len(jobs)] == decoded[len(jobs) :]
    assert decoded[0] == _tokens(NativeEngine(config, 1), jobs[0])


def _tokens(engine: NativeEngine, job: Job) -> tuple[int, ...]:
    return run_job(job, engine.rounds(job), 0, FakeClock()).tokens


def test_no_token_ends_a_text():
    result = run_witness(replace(TINY, configurations=(FOUR,), new_tokens=40, n_prompts=2))
    assert result.requests.filter(pl.col("kind") != "probe")["n_tokens"].unique().to_list() == [40]


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_rests_while_the_clock_runs_and_is_left_as_it_was(enabled: bool):
    was_enabled = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with no_garbage_collection():
            assert not gc.isenabled()
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()
