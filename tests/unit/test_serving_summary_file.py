"""``specbook-serving/1``: what is written is what the schema says, and comes back."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from specbook.checks import BadInput
from specbook.files import dump_model
from specbook.serving.percentiles import LatencySummary
from specbook.serving.summary import ServingSummary, Waste
from specbook.serving.summary_file import (
    LatencyRecord,
    ServingFigures,
    ServingSummaryFile,
    WasteRecord,
    read_serving_summary,
)

MODELS = ("--hardware", "h100-sxm5", "--target", "Llama-3.1-8B", "--draft", "Llama-3.2-1B")
LOAD = ("--rate", 4, "--requests", 20, "--output-tokens", "geometric:8")
DRAFTED = ("--conditional-acceptance", 0.8, "--draft-length", 2)


def _written(cli: Callable[..., object], folder: Path, *arguments: object) -> Path:
    cli("simulate", *arguments, "--out", folder)
    return folder / "summary.json"


@pytest.fixture
def written(cli, save, tmp_path: Path) -> Path:
    """With everything that may be null."""
    trace = save("trace.csv", "arrival_s,prompt_tokens,output_tokens\n0,100,3\n1,0,4\n2,100,1\n")
    limits = ("--slo-ttft", 1, "--compare", "--acceptance", "soup-843", "--assume", "truncation")
    return _written(cli, tmp_path / "whole", *MODELS, "--trace", trace, "--lenient", *limits)


@pytest.fixture
def sparse(cli, save, tmp_path: Path) -> Path:
    times = save("S.json", {"kind": "constant", "ms": 10})
    return _written(cli, tmp_path / "sparse", "--step-time", times, "--kv-blocks", 100, *LOAD)


@pytest.mark.parametrize("name", ["written", "sparse"])
def test_written_summary_validates_and_comes_back(request, name: str):
    path: Path = request.getfixturevalue(name)
    text = path.read_text(encoding="utf-8")
    summary = read_serving_summary(path)
    assert json.loads(dump_model(summary)) == json.loads(text)
    assert list(json.loads(text))[:2] == ["schema", "specbook_version"]
    assert (summary.comparison is None) == (name == "sparse")


def test_schedule_and_models_stand_in_the_parameters(cli, tmp_path: Path):
    schedule = ("--conditional-acceptance", 0.8, "--schedule", "1:2,4:0", "--method", "ngram")
    summary = read_serving_summary(_written(cli, tmp_path / "s", *MODELS[:4], *LOAD, *schedule))
    assert summary.parameters.schedule == {"1@0": 2, "4@0": 0}
    assert summary.parameters.models is not None
    assert summary.parameters.models["method"] == "ngram"


@pytest.mark.parametrize(
    ("of", "file_model"),
    [(ServingSummary, ServingFigures), (LatencySummary, LatencyRecord), (Waste, WasteRecord)],
)
def test_file_has_every_figure_and_no_other(of: type, file_model: type[ServingFigures]):
    assert {each.name for each in fields(of)} == set(file_model.model_fields)


DAMAGE: dict[str, tuple[Callable[[dict[str, object]], object], str]] = {
    "another schema": (lambda document: document.update(schema="specbook-serving/2"), "unknown schema"),
    "a figure more": (lambda document: document.update(joy=1), "joy"),
    "a figure less": (lambda document: document.pop("ttft_s"), "ttft_s"),
    "a count below 0": (lambda document: document.update(n_requests=-1), "n_requests = -1"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damaged_summary_is_refused(sparse: Path, case: str):
    damage, problem = DAMAGE[case]
    document = json.loads(sparse.read_text(encoding="utf-8"))
    damage(document)
    sparse.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(BadInput, match=problem):
        read_serving_summary(sparse)


def test_schema_names_itself_and_needs_what_is_written():
    schema = ServingSummaryFile.model_json_schema(by_alias=True)
    assert schema["properties"]["schema"]["const"] == "specbook-serving/1"
    assert {"ttft_s", "inputs", "parameters", "comparison"} <= set(schema["required"])
