"""What each engine is told, read back by a parser that is not ours."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import yaml

from specbook.checks import BadInput
from specbook.deploy.deployment import ContextSchedule, Deployment, Plan
from specbook.deploy.engines import ENGINES, check_engine, deploy_to, rehearse_on
from tests.deploy_cases import MARGINAL, planned, ranges

FALLING = ((1, 7, 4), (8, 15, 2), (16, 64, 0))


def _flags(command: str) -> dict[str, str]:
    """Flags of a command line with the words behind them, as a shell splits them."""
    words = shlex.split(command)
    values = {}
    for place, word in enumerate(words):
        if word.startswith("-"):
            following = words[place + 1 : place + 2]
            values[word] = following[0] if following and not following[0].startswith("--") else ""
    return values


def _two_contexts(short: Plan, long: Plan) -> Plan:
    later = ContextSchedule(first_context=8192, ranges=long.ranges)
    return replace(short, schedules=(*short.schedules, later))


# vLLM


def test_vllm_takes_a_table_by_batch():
    made = deploy_to("vllm", planned(*FALLING))
    assert json.loads(_flags(made.command)["--speculative-config"]) == json.loads(made.file_text) == made.payload
    assert made.payload == {
        "method": "eagle3",
        "model": "my org/D",
        "num_speculative_tokens": 4,
        "num_speculative_tokens_per_batch_size": [[1, 7, 4], [8, 15, 2], [16, 64, 0]],
    }
    assert shlex.split(made.command)[:3] == ["vllm", "serve", "my org/T"]
    assert any("vllm-project/vllm#49548" in each for each in made.notes)


def test_vllm_takes_no_table_for_one_length():
    payload = deploy_to("vllm", planned((1, 64, 3))).payload
    assert payload == {"method": "eagle3", "model": "my org/D", "num_speculative_tokens": 3}


def test_vllm_without_speculation_is_the_target_alone():
    made = deploy_to("vllm", planned((1, 64, 0), drafter=None))
    assert (made.payload, made.file_format) == (None, "shell")
    assert shlex.split(made.file_text) == ["vllm", "serve", "my org/T"]


def test_vllm_by_context_is_a_rectangle_whose_first_context_is_one():
    plan = _two_contexts(planned((1, 15, 4), (16, 64, 0)), planned((1, 31, 4), (32, 64, 2)))
    made = deploy_to("vllm", plan)
    assert made.payload is not None
    assert made.payload["num_speculative_tokens_per_batch_size"] == [
        [1, 15, 1, 8191, 4], [1, 15, 8192, 2**31 - 1, 4],
        [16, 31, 1, 8191, 0], [16, 31, 8192, 2**31 - 1, 4],
        [32, 64, 1, 8191, 0], [32, 64, 8192, 2**31 - 1, 2],
    ]  # fmt: skip
    assert "vllm-project/vllm#48627" in made.notes[0]
    assert any("#48944" in source for source in made.schema_sources)


@pytest.mark.parametrize(
    ("method", "word", "has_model"),
    [
        ("draft_model", "draft_model", True), ("eagle", "eagle", True), ("eagle2", "eagle", True),
        ("eagle3", "eagle3", True), ("medusa", "medusa", True), ("mtp", "mtp", False), ("ngram", "ngram", False),
        ("prompt_lookup", "ngram", False),
    ],
)  # fmt: skip
def test_vllm_names_of_methods(method: str, word: str, has_model: bool):
    payload = deploy_to("vllm", planned((1, 64, 2), method=method)).payload
    assert payload is not None
    assert payload["method"] == word
    assert ("model" in payload) is has_model


def test_vllm_rehearses_by_position_or_by_the_mean():
    by_position = rehearse_on("vllm", planned(*FALLING))
    assert by_position.payload is not None
    rates = by_position.payload["synthetic_acceptance_rates"]
    assert by_position.payload["rejection_sample_method"] == "synthetic"
    assert rates == MARGINAL
    assert len(rates) == by_position.payload["num_speculative_tokens"]
    assert by_position.payload["num_speculative_tokens_per_batch_size"] == [list(each) for each in FALLING]
    by_mean = rehearse_on("vllm", planned((1, 64, 4), by_position=False))
    assert by_mean.payload is not None
    assert "synthetic_acceptance_rates" not in by_mean.payload
    assert by_mean.payload["synthetic_acceptance_length"] == pytest.approx(1.0 + sum(MARGINAL))
    assert by_position.is_rehearsal
    assert "never serve it" in by_mean.notes[0]
    assert not deploy_to("vllm", planned(*FALLING)).is_rehearsal


# SGLang


def test_sglang_takes_adaptive_steps_with_one_candidate_a_range():
    made = deploy_to("sglang", planned(*FALLING), "steps.json")
    assert json.loads(made.file_text) == {
        "1": {"candidate_steps": [4]}, "8": {"candidate_steps": [2]}, "16": {"candidate_steps": [0]},
    }  # fmt: skip
    flags = _flags(made.command)
    assert flags["--speculative-adaptive-config"] == "steps.json"
    assert "--speculative-adaptive" in flags
    assert (flags["--speculative-num-steps"], flags["--speculative-num-draft-tokens"]) == ("4", "5")
    assert (flags["--speculative-algorithm"], flags["--speculative-eagle-topk"]) == ("EAGLE3", "1")
    assert flags["--speculative-draft-model-path"] == "my org/D"


def test_sglang_takes_flags_alone_for_one_length():
    made = deploy_to("sglang", planned((1, 64, 3), method="mtp"))
    assert made.payload is None
    assert "--speculative-adaptive" not in made.command
    assert "--speculative-draft-model-path" not in made.command
    assert _flags(made.command)["--speculative-algorithm"] == "EAGLE"
    assert made.file_text == f"{made.command}\n"


def test_sglang_without_speculation_has_no_speculative_flag():
    assert "speculative" not in deploy_to("sglang", planned((1, 64, 0))).command


def test_sglang_refuses_several_lengths_where_steps_are_fixed():
    with pytest.raises(BadInput, match=r"STANDALONE takes one draft length.*say for how many requests"):
        deploy_to("sglang", planned(*FALLING, method="draft_model"))


def test_sglang_refuses_ngrams():
    with pytest.raises(BadInput, match=r"drafts n-grams as trees"):
        deploy_to("sglang", planned((1, 64, 2), method="ngram"))


# llama.cpp


def test_llama_cpp_takes_one_length_for_all_slots():
    made = deploy_to("llama.cpp", planned((1, 16, 4), method="draft_model"))
    flags = _flags(made.command)
    assert shlex.split(made.command)[0] == "llama-server"
    assert (flags["-m"], flags["-np"], flags["--spec-draft-model"]) == ("my org/T", "16", "my org/D")
    assert (flags["--spec-type"], flags["--spec-draft-n-max"]) == ("draft-simple", "4")
    assert (flags["--spec-draft-n-min"], flags["--spec-draft-p-min"]) == ("0", "0")
    assert any("--draft-max 4" in each for each in made.notes)
    assert any(f"{16 * 512:,} tokens were projected" in each for each in made.notes)


def test_llama_cpp_shares_no_context_among_one_slot():
    assert not any("share the context" in each for each in deploy_to("llama.cpp", planned((1, 1, 4))).notes)


def test_llama_cpp_looks_up_ngrams_without_a_drafter():
    flags = _flags(deploy_to("llama.cpp", planned((1, 4, 3), method="ngram", drafter=None)).command)
    assert (flags["--spec-type"], flags["--spec-ngram-simple-size-m"]) == ("ngram-simple", "3")
    assert "--spec-draft-model" not in flags


def test_llama_cpp_switches_speculation_off_by_name():
    made = deploy_to("llama.cpp", planned((1, 4, 0), method="draft_model"))
    assert _flags(made.command)["--spec-type"] == "none"
    assert made.notes == ()


@pytest.mark.parametrize(
    ("by_position", "flag", "value"),
    [(True, "--spec-synth-rates", "0.8,0.6,0.45,0.35"), (False, "--spec-synth-len", "3.2")],
)
def test_llama_cpp_rehearses(by_position: bool, flag: str, value: str):
    made = rehearse_on("llama.cpp", planned((1, 16, 4), method="mtp", by_position=by_position))
    assert _flags(made.command)[flag] == value
    assert made.is_rehearsal


# TensorRT-LLM


def test_tensorrt_llm_takes_yaml_whose_keys_are_last_batches():
    made = deploy_to("tensorrt-llm", planned(*FALLING, drafter="org/D: a #1"), "spec.yaml")
    assert (
        yaml.safe_load(made.file_text)
        == made.payload
        == {
            "speculative_config": {
                "decoding_type": "Eagle3",
                "max_draft_len": 4,
                "speculative_model": "org/D: a #1",
                "draft_len_schedule": {7: 4, 15: 2, 64: 0},
            }
        }
    )
    assert _flags(made.command)["--extra_llm_api_options"] == "spec.yaml"
    assert any("NVIDIA/TensorRT-LLM#16888" in each for each in made.notes)


def test_tensorrt_llm_allows_a_rise_after_the_longest():
    payload = deploy_to("tensorrt-llm", planned((1, 7, 4), (8, 15, 1), (16, 64, 2))).payload
    assert payload is not None
    assert payload["speculative_config"]["draft_len_schedule"] == {7: 4, 15: 1, 64: 2}


def test_tensorrt_llm_refuses_lengths_above_the_first():
    with pytest.raises(BadInput, match=r"batch = 8: the best length rises from 2 to 4.*--batch"):
        deploy_to("tensorrt-llm", planned((1, 7, 2), (8, 64, 4)))


def test_tensorrt_llm_without_speculation_is_the_target_alone():
    made = deploy_to("tensorrt-llm", planned((1, 64, 0)))
    assert (made.payload, shlex.split(made.command)) == (None, ["trtllm-serve", "my org/T"])


# Rehearsals by environment variables


@pytest.mark.parametrize(
    ("engine", "variable", "value"),
    [("sglang", "SGLANG_SIMULATE_ACC_LEN", 3.2), ("tensorrt-llm", "TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS", 2.2)],
)
def test_forced_means_stand_before_the_command(engine: str, variable: str, value: float):
    plan = planned((1, 64, 4))
    made = rehearse_on(engine, plan)
    words = shlex.split(made.command)
    assert words[0] == "env"
    assert dict(word.split("=") for word in words if word.startswith(variable)) == {variable: str(value)}
    assert made.command.endswith(deploy_to(engine, plan).command)
    assert made.is_rehearsal
    with pytest.raises(BadInput, match="takes one draft length"):
        rehearse_on(engine, planned(*FALLING))


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama.cpp", "tensorrt-llm"])
def test_nothing_is_rehearsed_where_nothing_is_drafted(engine: str):
    plan = planned((1, 64, 0))
    assert rehearse_on(engine, plan) == deploy_to(engine, plan)


# Simulators


def test_dynamo_takes_conditional_rates():
    made = deploy_to("dynamo", planned((1, 64, 4), method="mtp"))
    flags = _flags(made.command)
    assert flags["--aic-nextn"] == "4"
    assert [float(rate) for rate in flags["--aic-nextn-accept-rates"].split(",")] == pytest.approx(
        [0.8, 0.75, 0.75, 7 / 9], abs=1e-6
    )


def test_dynamo_has_one_rate_for_all_positions_where_only_the_mean_is_known():
    made = deploy_to("dynamo", planned((1, 64, 4), method="mtp", by_position=False))
    rates = [float(rate) for rate in _flags(made.command)["--aic-nextn-accept-rates"].split(",")]
    assert len(set(rates)) == 1
    assert sum(rates[0] ** i for i in range(5)) == pytest.approx(1.0 + sum(MARGINAL), abs=1e-4)
    assert any("only the mean length is known" in each for each in made.notes)


def test_dynamo_refuses_more_than_it_samples():
    with pytest.raises(BadInput, match=r"draft_length = 6: Dynamo samples drafts of at most 5"):
        deploy_to("dynamo", planned((1, 64, 6)))


def test_aiconfigurator_takes_the_mean_without_the_bonus_token():
    flags = _flags(deploy_to("aiconfigurator", planned((1, 64, 4), method="mtp")).command)
    assert (flags["--nextn"], float(flags["--nextn-accepted"])) == ("4", pytest.approx(2.2))


def test_aiconfigurator_once_took_rates_of_five_positions():
    notes = deploy_to("aiconfigurator", planned((1, 64, 2), method="mtp")).notes
    assert any(each.endswith("of five positions: 0.8,0.75,0.0,0.0,0.0") for each in notes)
    longer = deploy_to("aiconfigurator", planned((1, 64, 6), method="mtp", by_position=False)).notes
    assert any(each.endswith("cannot be told more than 5 drafts") for each in longer)


@pytest.mark.parametrize("engine", ["dynamo", "aiconfigurator"])
def test_simulators_cost_mtp_and_say_so_of_other_methods(engine: str):
    assert any("eagle3" in each for each in deploy_to(engine, planned((1, 64, 4))).notes)
    assert not any("not in its times" in each for each in deploy_to(engine, planned((1, 64, 4), method="mtp")).notes)


@pytest.mark.parametrize(("engine", "flag"), [("dynamo", "--aic-nextn"), ("aiconfigurator", "--nextn-accepted")])
def test_simulators_without_speculation_have_no_acceptance(engine: str, flag: str):
    assert flag not in _flags(deploy_to(engine, planned((1, 64, 0))).command)


@pytest.mark.parametrize("engine", ["dynamo", "aiconfigurator"])
def test_simulators_do_not_rehearse(engine: str):
    with pytest.raises(BadInput, match=r"samples acceptance anyway; leave --rehearsal out, or rehearse on vllm"):
        rehearse_on(engine, planned((1, 64, 4)))


# All of them


@pytest.mark.parametrize("engine", ["llama.cpp", "dynamo", "aiconfigurator"])
def test_engines_of_one_length_refuse_several(engine: str):
    with pytest.raises(BadInput, match=r"takes one draft length, and the best are 4 from batch 1, 2 from batch 8"):
        deploy_to(engine, planned(*FALLING, method="mtp"))


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama.cpp", "tensorrt-llm"])
def test_engines_refuse_methods_they_do_not_serve(engine: str):
    with pytest.raises(BadInput, match=rf"method = 'lookahead': {engine} cannot be told this method; it serves"):
        deploy_to(engine, planned((1, 64, 4), method="lookahead"))


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama.cpp", "tensorrt-llm"])
def test_a_drafter_that_nobody_named_is_asked_for(engine: str):
    with pytest.raises(BadInput, match=r"does not name the drafter.*--draft"):
        deploy_to(engine, planned((1, 64, 4), method="eagle3", drafter=None))


@pytest.mark.parametrize("engine", [name for name in ENGINES if name != "vllm"])
def test_only_vllm_has_a_table_by_context(engine: str):
    plan = _two_contexts(planned((1, 64, 4)), planned((1, 64, 2)))
    for make in (deploy_to, rehearse_on):
        with pytest.raises(BadInput, match="has no table by context"):
            make(engine, plan)


def test_an_unknown_engine_is_refused_with_those_that_are_known():
    with pytest.raises(BadInput, match=r"'tgi': is no engine that is known; one of vllm, sglang, llama\.cpp, tensorrt"):
        check_engine("tgi")


def _command_lines() -> list[Deployment]:
    plan = planned((1, 64, 4), method="mtp", drafter="D")
    return [replace(deploy_to(name, replace(plan, target="a 'b'; $(c)")), engine=name) for name in ENGINES]


@pytest.mark.parametrize("made", _command_lines(), ids=lambda made: made.engine)
def test_a_shell_takes_each_command_line_apart_again(made: Deployment):
    assert "a 'b'; $(c)" in shlex.split(made.command)
    assert all(source.count(" at ") or "#" in source for source in made.schema_sources)


def _rows(payload: Mapping[str, Any]) -> list[list[int]]:
    found: list[list[int]] = payload["num_speculative_tokens_per_batch_size"]
    return found


def test_contexts_with_other_ranges_share_all_edges():
    plan = _two_contexts(planned((1, 3, 4), (4, 64, 1)), replace(planned((1, 64, 2)), schedules=(
        ContextSchedule(first_context=512, ranges=ranges((1, 9, 3), (10, 64, 2))),
    )))  # fmt: skip
    payload = deploy_to("vllm", plan).payload
    assert payload is not None
    assert sorted({(row[0], row[1]) for row in _rows(payload)}) == [(1, 3), (4, 9), (10, 64)]
    assert len(_rows(payload)) == 6
