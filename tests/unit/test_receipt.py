"""Receipts: what a run leaves, and what is refused of a file that says it is one."""

from __future__ import annotations

import ast
import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import specbook
from specbook.checks import BadInput
from specbook.files import dump_model
from specbook.measuring.prompts import own_prompts_file
from specbook.witness.config import Configuration, WitnessConfig
from specbook.witness.receipt import Receipt, read_receipt, receipt_of, seal_of, write_receipt
from specbook.witness.receipt_parts import file_input
from specbook.witness.run import run_witness
from tests.receipt_cases import MEASURED_S, witness_result

Document = dict[str, Any]
FIRST = "configurations.0"


def _document(*errors: float, **choices: Any) -> Document:
    document: Document = json.loads(dump_model(receipt_of(witness_result(*errors, **choices), date="2026-12-01")))
    return document


def _sealed(document: Document) -> Document:
    return document | {"receipt_sha256": seal_of(document)}


def _refused(save: Callable[..., Path], content: Any) -> str:
    path = save("R.json", content)
    with pytest.raises(BadInput) as caught:
        read_receipt(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert "\n" not in text
    return text.removeprefix(f"{path}: ")


@pytest.mark.parametrize("errors", [(0.01,), (0.2,), (0.01, -0.03, 0.2)])
def test_a_receipt_is_read_as_it_was_written(tmp_path: Path, errors: tuple[float, ...]) -> None:
    receipt = receipt_of(witness_result(*errors), date="2026-12-01")
    write_receipt(receipt, tmp_path / "R.json")
    assert read_receipt(tmp_path / "R.json") == receipt


def test_it_holds_what_was_predicted_measured_and_run() -> None:
    result = witness_result(0.01, forecast_error=-0.1)
    receipt = receipt_of(result, date="2026-12-01")
    (record,) = receipt.configurations
    assert record.measured_p90_tpot_s.value == result.results[0].replay.measured.value_s
    assert record.simulated_p90_tpot_s.low == result.results[0].replay.predicted.low_s
    assert record.error.value == pytest.approx(0.01)
    assert record.forecast is not None
    assert record.forecast.error.value == pytest.approx(-0.1)
    assert record.forecast.acceptance.measured_beforehand
    assert record.forecast.acceptance.n_rounds == 12
    assert [request.measured_tpot_s for request in record.requests] == MEASURED_S.tolist()
    attestation = receipt.attestation
    assert (attestation.execution, attestation.engine, attestation.blas_kernel) == ("native", "specbook", "Haswell")
    assert attestation.inputs == [file_input("prompts", own_prompts_file("code"))]


@pytest.mark.parametrize(
    ("choices", "verdict", "overall"),
    [
        ({}, ["pass"], "pass"),
        ({"errors": (0.079, -0.079)}, ["pass", "pass"], "pass"),
        ({"errors": (0.01, 0.2)}, ["pass", "fail"], "fail"),
        ({"errors": (0.01, 0.085)}, ["pass", "inconclusive"], "inconclusive"),
        ({"reason": "busy"}, ["inconclusive"], "inconclusive"),
        ({"reason": "busy", "equal": False}, ["fail"], "fail"),
        ({"temperature": 1.0}, ["pass"], "pass"),
        ({"forecast_error": None}, ["pass"], "pass"),
    ],
)
def test_verdicts_follow_from_the_figures(choices: dict[str, Any], verdict: list[str], overall: str) -> None:
    errors = choices.pop("errors", (0.01,))
    receipt = receipt_of(witness_result(*errors, **choices))
    assert [each.verdict for each in receipt.configurations] == verdict
    assert receipt.verdict == overall


def test_a_fail_is_answered_by_a_fresh_probe_and_stays(tmp_path: Path) -> None:
    write_receipt(receipt_of(witness_result(0.2)), tmp_path / "R.json")
    (record,) = read_receipt(tmp_path / "R.json").configurations
    assert record.fresh_probe is not None
    assert (record.verdict, record.fresh_probe.error_after) == ("fail", 0.01)
    assert "most of it in verify" in record.reasons[-1]


def test_requests_stand_in_the_order_of_the_replay() -> None:
    """Against a real run, whose requests differ in rounds: the replayed time of each follows from its own rounds."""
    small = Configuration(name="four", drafter="small", draft_length=4)
    result = run_witness(WitnessConfig(configurations=(small,), replication=1, new_tokens=16, n_prompts=4))
    (record,) = receipt_of(result).configurations
    table = result.results[0].replay.table
    assert len({request.n_rounds for request in record.requests}) > 1
    for request in record.requests:
        rounds = result.rounds.filter(pl.col("round") > 0, kind="speculative", prompt=request.prompt)
        expected_s = float(table.at(rounds["drafted"].to_numpy() + 1).sum()) / (request.n_tokens - 1)
        assert request.simulated_tpot_s == pytest.approx(expected_s, rel=1e-9)


def test_a_file_laid_out_anew_is_the_same_receipt(save: Callable[..., Path]) -> None:
    document = _document() | {"elapsed_s": 31.0}
    document = _sealed(document)
    text = json.dumps(document, indent=4, sort_keys=True).replace('"elapsed_s": 31.0', '"elapsed_s": 31')
    assert read_receipt(save("R.json", text)).elapsed_s == 31.0


def _leaves(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        return [leaf for name, inner in value.items() for leaf in _leaves(inner, (*place, name))]
    if isinstance(value, list) and value:
        return [leaf for number, inner in enumerate(value) for leaf in _leaves(inner, (*place, number))]
    return [place]


def _put(document: Document, place: tuple[Any, ...], value: Any) -> None:
    inner: Any = document
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = value


WHOLE = _document(0.01, 0.2)
VALUES = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.floats(), st.text(max_size=4), st.just([]))


@given(st.sampled_from([place for place in _leaves(WHOLE) if place != ("schema",)]), VALUES)
def test_no_figure_can_be_edited(tmp_path_factory: pytest.TempPathFactory, place: tuple[Any, ...], value: Any) -> None:
    document = copy.deepcopy(WHOLE)
    _put(document, place, value)
    if seal_of(document) == seal_of(WHOLE) and document["receipt_sha256"] == WHOLE["receipt_sha256"]:
        return  # the same value as before
    path = tmp_path_factory.mktemp("edited") / "R.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(BadInput) as caught:
        read_receipt(path)
    assert place == ("receipt_sha256",) or "was edited after it was written" in str(caught.value)


def test_an_edited_receipt_says_so(save: Callable[..., Path]) -> None:
    document = _document(0.2)
    document["configurations"][0]["verdict"] = "pass"
    assert "was edited after it was written; take the original, or run" in _refused(save, document)


NOTHING_COMPARED = dict.fromkeys(("n_requests", "n_tokens", "n_equal_tokens"), 0)
# What a person with the hash function at hand could still write, and what is said of it.
CONTRADICTIONS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a pass beyond the gate": ({"errors": (0.2,)}, {f"{FIRST}.verdict": "pass"}, "is not what follows, fail: replayed"),
    "a pass of a busy machine": ({"reason": "busy"}, {f"{FIRST}.verdict": "pass"}, "follows, inconclusive: busy"),
    "a pass of other tokens": ({"equal": False}, {f"{FIRST}.verdict": "pass"}, "follows, fail: greedy tokens differ"),
    "a pass over a fail": ({"errors": (0.01, 0.2)}, {"verdict": "pass"}, "verdict = 'pass': is not what follows from"),
    "a kinder error": ({"errors": (0.2,)}, {f"{FIRST}.error.value": 0.199}, "error.value = 0.199: is not predicted ÷"),
    "an error outside": ({}, {f"{FIRST}.error.low": 0.5}, f"{FIRST}.error = 0.01"),
    "an interval upside down": ({}, {f"{FIRST}.measured_p90_tpot_s.high": 0.001}, "lies outside of its interval"),
    "a kinder forecast": ({}, {f"{FIRST}.forecast.error.value": -0.05}, "forecast.error.value = -0.05: is not"),
    "a higher speedup": ({}, {f"{FIRST}.speedup.value": 1.36}, "speedup.value = 1.36: is not mean time without"),
    "a P90 of no requests": ({}, {f"{FIRST}.requests.3.measured_tpot_s": 0.013}, "is not the 90th percentile"),
    "a P90 of fewer requests": ({}, {f"{FIRST}.measured_p90_tpot_s.n": 3}, "n = 3: is of 3 requests, and 4 are listed"),
    "a control that says nothing": ({}, {"control.blocks.1.p90_s": 0.03}, "the control was not quiet: steps without"),
    "more processes": ({}, {"control.load_average": 3.0}, "the control was not quiet: 3.0 processes ran"),
    "more equal tokens than tokens": ({}, {f"{FIRST}.parity.n_equal_tokens": 300}, "must be at most n_tokens"),
    "greedy tokens not compared": (
        {},
        {f"{FIRST}.parity": {**NOTHING_COMPARED, "first_difference": None, "why_not": "x"}},
        "n_requests = 0: is not the number of requests whose tokens can be compared, 4",
    ),
    "fewer compared tokens": (
        {},
        {f"{FIRST}.parity.n_tokens": 200, f"{FIRST}.parity.n_equal_tokens": 200},
        "parity.n_tokens = 200: is not that of the requests, 256",
    ),
    "more compared tokens": (
        {},
        {f"{FIRST}.parity.n_tokens": 300, f"{FIRST}.parity.n_equal_tokens": 300},
        "parity.n_tokens = 300: is not that of the requests, 256",
    ),
    "one prompt twice": (
        {},
        {f"{FIRST}.requests.{number}.prompt": "code-001" for number in (0, 1)},
        "requests = 'code-001': one prompt twice",
    ),
    "a prompt of other text": ({}, {f"{FIRST}.requests.0.domain": "chat"}, "is no domain of the configuration"),
    "more rounds than tokens": ({}, {f"{FIRST}.requests.0.n_rounds": 65}, "n_rounds = 65: cannot be of 64 tokens"),
    "more tokens than rounds give": ({}, {f"{FIRST}.requests.0.n_rounds": 12}, "64 tokens, 1 to 5 a round"),
    "nothing after the first round": ({}, {f"{FIRST}.requests.0.n_rounds": 1}, "with rounds after the first"),
    "shorter requests": ({}, {"new_tokens": 63}, "new_tokens = 63: is less than the tokens of a request"),
    "neither a chain nor a tree": ({}, {f"{FIRST}.draft_length": None}, "one of a draft length and a tree"),
    "both a chain and a tree": ({}, {f"{FIRST}.parents": [-1]}, "one of a draft length and a tree"),
    "a term that took less": ({}, {f"{FIRST}.attribution.0.measured_s": 0.007}, "is not the mean seconds per token"),
    "a kinder term": ({}, {f"{FIRST}.attribution.0.predicted_s": 0.0078}, "is not the difference of the means"),
    "a term that is missing": ({}, {f"{FIRST}.attribution.1.name": "verify"}, "are not verify, draft, acceptance, ov"),
    "a forecast's term that took less": (
        {},
        {f"{FIRST}.forecast.attribution.3.measured_s": 0.0},
        "forecast.attribution.measured_s",
    ),
    "a control that ran before alone": ({}, {"control.blocks.2.when": "before"}, "are not before, amid and after"),
    "a median above its P90": ({}, {"control.blocks.1.median_s": 0.02}, "is above the 90th percentile, 0.0145"),
    "a fresh probe of a pass": (
        {},
        {f"{FIRST}.fresh_probe": {"error_before": 0.01, "error_after": 0.0, "attribution": []}},
        "stands beside a verdict that is no fail",
    ),
    "a fresh probe of another error": (
        {"errors": (0.2,)},
        {f"{FIRST}.fresh_probe.error_before": 0.1},
        "fresh_probe.error_before = 0.1: is not the error that the verdict is of, which is 0.2",
    ),
    "two of one name": ({"errors": (0.0, 0.0)}, {f"{FIRST}.name": "chain 5"}, "two of one name"),
    "no day": ({}, {"date": "2026-02-30"}, "date = '2026-02-30': is no day"),
    "execution elsewhere": ({}, {"attestation.execution": "external"}, "attestation.execution = 'external'"),
    "another engine": ({}, {"attestation.engine": "vllm"}, "attestation.engine = 'vllm'"),
    "no inputs": ({}, {"attestation.inputs": []}, "attestation.inputs = []"),
    "a folder of an input": ({}, {"attestation.inputs.0.name": "a/b.jsonl"}, "attestation.inputs.0.name"),
    "no weights": ({}, {"attestation.weights_sha256": {}}, "attestation.weights_sha256"),
    "a digest of nothing": ({}, {"attestation.weights_sha256": {"target": "abc"}}, "attestation.weights_sha256"),
    "a negative time": ({}, {f"{FIRST}.requests.0.measured_tpot_s": -0.1}, "requests.0.measured_tpot_s = -0.1"),
    "no configuration": ({}, {"configurations": []}, "configurations = []"),
    "an unknown verdict": ({}, {"verdict": "probably"}, "verdict = 'probably'"),
    "a field of somebody": ({}, {"approved": True}, "approved = True"),
    "a line break in a reason": ({}, {f"{FIRST}.reasons.0": "a\nb"}, "reasons.0 = 'a\\nb'"),
}  # fmt: skip


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_figures_that_contradict_each_other_are_refused(save: Callable[..., Path], case: str) -> None:
    choices, changes, problem = CONTRADICTIONS[case]
    document = _document(*choices.get("errors", (0.01,)), **{k: v for k, v in choices.items() if k != "errors"})
    for field, value in changes.items():
        place = [int(part) if part.isdigit() else part for part in field.split(".")]
        _put(document, tuple(place), value)
    assert problem in _refused(save, _sealed(document))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({"schema": "specbook-receipt/2"}, "'specbook-receipt/2': unknown schema; expected specbook-receipt/1"),
        ({"schema": "specbook-hardware/1"}, "unknown schema"),
        ({"schema": "specbook-receipt/1"}, "Field required"),
        ([], "is not a JSON object"),
        (b"", "is empty"),
        ("{", "is not complete JSON"),
        ('{"schema": "specbook-receipt/1", "receipt_sha256": "", "a": ' + "[" * 900 + "]" * 900 + "}", ""),
        ('{"schema": "specbook-receipt/1", "receipt_sha256": "", "a": "\\ud800"}', "was edited"),
        ('{"schema": "specbook-receipt/1", "receipt_sha256": "", "a": NaN}', "was edited"),
    ],
)
def test_what_is_no_receipt_is_refused(save: Callable[..., Path], content: Any, problem: str) -> None:
    assert problem in _refused(save, content)


def test_a_receipt_is_made_of_a_run_and_of_nothing_else() -> None:
    for other in (_document(), None, receipt_of(witness_result())):
        with pytest.raises(TypeError, match="a receipt is made of a run of a witness"):
            receipt_of(other)  # type: ignore[arg-type]


_MAKERS = ("of", "model_", "parse", "construct")


def _calls(name: str) -> list[str]:
    """Modules of specbook that call something of this name, or a class method of it that makes one."""
    root = Path(specbook.__file__).parent
    found = []
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            called = node.func
            owner = called.value if isinstance(called, ast.Attribute) else called
            makes = not isinstance(called, ast.Attribute) or called.attr.startswith(_MAKERS)
            if isinstance(owner, ast.Name) and owner.id == name and makes:
                found.append(str(path.relative_to(root)))
    return found


def test_nothing_but_a_run_leads_to_an_attestation() -> None:
    """By the source: one place makes an attestation, out of a result that one place makes, behind the engine."""
    assert _calls("Attestation") == ["witness/receipt.py"]
    assert _calls("Receipt") == ["witness/receipt.py"]
    assert _calls("WitnessResult") == ["witness/run.py"]


def test_the_schema_can_say_neither_native_baseline_nor_external_run() -> None:
    schema = Receipt.model_json_schema(by_alias=True)["$defs"]
    assert schema["Attestation"]["properties"]["execution"]["const"] == "native"
    assert schema["ExternalBaseline"]["properties"]["execution"]["const"] == "external"
