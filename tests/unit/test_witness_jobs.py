"""Which jobs are run, on which prompts, and in which order."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from specbook.checks import BadInput
from specbook.measuring.prompts import domains, own_prompts
from specbook.witness.config import Configuration, WitnessConfig
from specbook.witness.jobs import PROBE_ROUNDS, Job, control_job, n_steps, plan_jobs, prompts_of, warm_up_jobs
from specbook.witness.observation import observe
from specbook.witness.prompts import choose_prompts
from tests.fake_witness import CONFIG, FOUR, FakeClock, FakeDecoder, fake_witness

TWO = WitnessConfig(
    configurations=(
        FOUR,
        Configuration(name="mixed", drafter="eagle", draft_length=2, domains=("chat", "mathematics")),
    ),
    n_prompts=5,
    new_tokens=24,
)


def _jobs(config: WitnessConfig) -> list[Job]:
    return plan_jobs(config, prompts_of(config))


def test_no_prompt_is_in_the_run_and_among_the_others():
    for names in (["code"], ["code", "chat"], domains()):
        for seed in range(20):
            chosen = choose_prompts(names, 10, seed)
            run, others = ({prompt.identifier for prompt in part} for part in (chosen.run, chosen.others))
            assert not run & others
            assert (len(run), len(others)) == (10, 24)


def test_seeds_take_other_prompts():
    assert choose_prompts(["code"], 10, 0) == choose_prompts(["code"], 10, 0)
    assert choose_prompts(["code"], 10, 0) != choose_prompts(["code"], 10, 1)


def test_as_many_prompts_as_leave_others_can_be_run():
    n_prompts = len(own_prompts("code"))
    assert len(choose_prompts(["code"], n_prompts - 8, 0).others) == 8
    with pytest.raises(BadInput, match=f"n_prompts = {n_prompts - 7}: are more than {n_prompts - 8}"):
        choose_prompts(["code"], n_prompts - 7, 0)


def test_jobs_are_shuffled_by_the_seed_alone():
    assert _jobs(TWO) == _jobs(TWO)
    again = _jobs(replace(TWO, seed=1))
    assert [job.kind for job in again] != [job.kind for job in _jobs(TWO)]


def test_every_request_is_decoded_with_and_without_drafts_and_probes_are_of_other_prompts():
    jobs = _jobs(TWO)
    for configuration in TWO.configurations:
        own = [job for job in jobs if job.configuration == configuration]
        run = {job.prompt.identifier for job in own if job.kind == "speculative"}
        probed = {job.prompt.identifier for job in own if job.kind == "probe"}
        alone = {job.prompt.identifier for job in jobs if job.kind == "autoregressive"}
        assert (len(run), len(probed)) == (5, 5)
        assert not run & probed
        assert run <= alone
    assert len(jobs) == 2 * (5 + 5 + 5)


def test_configurations_of_the_same_prompts_share_those_without_drafts():
    config = WitnessConfig(configurations=(FOUR, replace(FOUR, name="two", draft_length=2)), n_prompts=4)
    assert sum(job.kind == "autoregressive" for job in _jobs(config)) == 4
    warm = WitnessConfig(configurations=(FOUR, replace(FOUR, name="warm", temperature=1.0)), n_prompts=4)
    assert sum(job.kind == "autoregressive" for job in _jobs(warm)) == 8


def test_every_block_holds_one_of_each_so_that_a_drift_meets_all_alike():
    jobs = _jobs(CONFIG)
    blocks = [jobs[start : start + 3] for start in range(0, len(jobs), 3)]
    assert len(blocks) == CONFIG.n_prompts
    assert all({job.kind for job in block} == {"autoregressive", "speculative", "probe"} for block in blocks)
    assert len({tuple(job.kind for job in block) for block in blocks}) > 1


def test_few_probes_are_spread_over_the_run():
    """Of 46 prompts on code 36 are run, and 10 are left for probes."""
    n_prompts = len(own_prompts("code")) - 10
    jobs = _jobs(replace(CONFIG, n_prompts=n_prompts))
    places = [place for place, job in enumerate(jobs) if job.kind == "probe"]
    ends = [0, *places, len(jobs)]
    assert len(places) == 10
    assert max(later - place for place, later in pairwise(ends)) < 2 * len(jobs) / 10


def test_the_machine_is_watched_before_amid_and_after_and_the_warm_up_is_not_in_the_rows():
    decoder = FakeDecoder(FakeClock())
    result = fake_witness(decoder, TWO)
    jobs = _jobs(TWO)
    warm_up, control, half = warm_up_jobs(jobs), control_job(jobs), len(jobs) // 2
    assert decoder.done == [*warm_up, control, *jobs[:half], control, *jobs[half:], control]
    assert {(job.kind, job.configuration) for job in warm_up} == {
        ("autoregressive", None),
        *(("speculative", each) for each in TWO.configurations),
    }
    assert result.requests["order"].to_list() == list(range(len(jobs)))
    assert [block.when for block in result.control.blocks] == ["before", "middle", "after"]


def test_progress_counts_every_job():
    done: list[int] = []
    decoder = FakeDecoder(FakeClock())
    observe(decoder, _jobs(TWO), decoder.clock, done.append)
    assert sum(done) == n_steps(TWO, forecast=False)
    assert n_steps(TWO, forecast=True) == n_steps(TWO, forecast=False) + 2 * 24


def test_probes_stop_after_their_rounds():
    result = fake_witness(FakeDecoder(FakeClock()))
    probes = result.requests.filter(kind="probe")
    assert probes["n_rounds"].unique().to_list() == [PROBE_ROUNDS]
