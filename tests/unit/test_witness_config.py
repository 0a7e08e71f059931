"""What a witness is asked to run, and every way to ask for what it cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from specbook.acceptance.profile import profile_from_counts, write_profile
from specbook.checks import BadInput
from specbook.witness.config import Configuration, WitnessConfig
from specbook.witness.config_file import read_witness_config

GOOD: dict[str, Any] = {"drafter": "small", "draft_length": 4}
SCHEMA = "specbook-witness-config/1"


def _configuration(**changes: Any) -> Configuration:
    return Configuration(**{"name": "one", "drafter": "small", "draft_length": 4, **changes})


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": " "}, "name"),
        ({"drafter": "huge"}, "drafter"),
        ({"draft_length": 0}, "draft_length"),
        ({"draft_length": 2.5}, "draft_length"),
        ({"draft_length": None}, "draft_length"),
        ({"parents": (-1, 0)}, "draft_length"),
        ({"draft_length": None, "parents": ()}, "parents"),
        ({"draft_length": None, "parents": (3,)}, "parents"),
        ({"draft_length": None, "parents": (-1, -1), "cut": "entropy:1.5"}, "cut"),
        ({"cut": "sometimes"}, "cut"),
        ({"domains": ()}, "domains"),
        ({"domains": ("code", "code")}, "domains"),
        ({"domains": ("poetry",)}, "domains"),
        ({"temperature": -1.0}, "temperature"),
    ],
)
def test_a_configuration_that_cannot_be_run_says_where(changes: dict[str, Any], field: str):
    with pytest.raises(BadInput) as caught:
        _configuration(**changes)
    assert caught.value.field == field
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"configurations": ()}, "configurations"),
        ({"configurations": tuple(_configuration(name=str(n)) for n in range(4))}, "configurations"),
        ({"configurations": (_configuration(), _configuration())}, "configurations"),
        ({"arithmetic": "slow"}, "arithmetic"),
        ({"replication": 0}, "replication"),
        ({"n_prompts": 1}, "n_prompts"),
        ({"seed": -1}, "seed"),
        ({"new_tokens": 5}, "new_tokens"),
        ({"new_tokens": 513}, "new_tokens"),
        ({"new_tokens": "many"}, "new_tokens"),
    ],
)
def test_a_run_that_cannot_be_done_says_where(changes: dict[str, Any], field: str):
    with pytest.raises(BadInput) as caught:
        WitnessConfig(**{"configurations": (_configuration(),), **changes})
    assert caught.value.field == field


def test_a_tree_is_a_configuration():
    tree = _configuration(draft_length=None, parents=(-1, -1, 0))
    assert (tree.shape.n_nodes, tree.shape.depth, tree.is_cut) == (3, 2, False)


def test_a_file_is_read_with_the_profile_and_the_hardware_that_it_names(save: Any, tmp_path: Path):
    labels = {"target": "specbook-target", "drafter": "specbook-small", "temperature": 0.0}
    profile = profile_from_counts({4: [1, 1, 1, 1, 1]}, draft_length=4, **labels)
    write_profile(profile, tmp_path / "P.json")
    entry = {**GOOD, "acceptance": "P.json", "domains": ["chat"]}
    path = save("C.json", {"schema": SCHEMA, "configurations": [entry], "hardware": "HW.json", "seed": 3})
    config, hardware = read_witness_config(path)
    assert config.configurations[0].acceptance == profile
    assert (config.configurations[0].name, config.seed) == ("small K=4 chat", 3)
    assert hardware == str(tmp_path / "HW.json")


def test_names_of_configurations_say_what_is_drafted(save: Any):
    tree = {"drafter": "eagle", "parents": [-1, -1, 0], "domains": ["code", "chat"], "temperature": 1.0}
    cut = {**GOOD, "cut": "entropy:1.5"}
    config, hardware = read_witness_config(save("C.json", {"schema": SCHEMA, "configurations": [tree, cut]}))
    assert [each.name for each in config.configurations] == [
        "eagle tree of 3 code+chat T=1",
        "small K=4 entropy:1.5 code",
    ]
    assert hardware is None


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({"configurations": [GOOD], "schema": "specbook-witness-config/9"}, "schema"),
        ({"configurations": [{**GOOD, "draft_lenght": 4}]}, "draft_lenght"),
        ({"configurations": [{**GOOD, "temperature": "hot"}]}, "temperature"),
        ({"configurations": [GOOD, {**GOOD, "name": "two", "draft_length": 0}]}, "configurations.1.draft_length"),
        ({"configurations": [{**GOOD, "acceptance": " "}]}, "configurations.0.acceptance"),
        ({"configurations": [{**GOOD, "acceptance": "nowhere.json"}]}, "nowhere.json"),
        ({"configurations": []}, "configurations"),
        ({"configurations": [GOOD], "n_prompts": 1}, "n_prompts"),
        ({"configurations": [{"draft_length": 4}]}, "drafter"),
    ],
)
def test_a_file_that_cannot_be_run_is_refused_in_one_line(save: Any, document: dict[str, Any], told: str):
    path = save("C.json", {"schema": SCHEMA, **document})
    with pytest.raises(BadInput) as caught:
        read_witness_config(path)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)
    assert path.parent.name in str(caught.value)


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        ({"target": "Llama-3.1-8B"}, "target"),
        ({"drafter": "specbook-eagle"}, "drafter"),
        ({"temperature": 1.0}, "temperature"),
        ({"draft_length": 8}, "draft_length"),
    ],
)
def test_a_profile_of_something_else_is_refused(save: Any, tmp_path: Path, labels: dict[str, Any], told: str):
    whole = {"target": "specbook-target", "drafter": "specbook-small", "temperature": 0.0, "draft_length": 4, **labels}
    length = whole["draft_length"]
    write_profile(profile_from_counts({length: [1] * (length + 1)}, **whole), tmp_path / "P.json")
    path = save("C.json", {"schema": SCHEMA, "configurations": [{**GOOD, "acceptance": "P.json"}]})
    with pytest.raises(BadInput, match=f"configurations.0.acceptance: is a profile whose {told} is"):
        read_witness_config(path)
