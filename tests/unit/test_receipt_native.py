"""No flag, no content and no fallback makes a native receipt of another engine's file."""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specbook.checks import BadInput
from specbook.commands import receipt as receipt_command
from specbook.commands.witness import witness
from specbook.files import dump_model
from specbook.witness import run
from specbook.witness.external import read_external
from specbook.witness.receipt import Receipt, read_receipt, receipt_of, seal_of
from tests.receipt_cases import witness_result
from tests.unit.test_receipt_external import BENCH, RESPONSE, SGLANG, TIMINGS, VLLM

EXTERNAL = (VLLM, SGLANG, BENCH, RESPONSE, TIMINGS)
NATIVE: dict[str, Any] = json.loads(dump_model(receipt_of(witness_result(), date="2026-12-01")))
# Words that a file could use to pass for what it is not: all of a true receipt, and what a person might try.
CLAIMS: dict[str, Any] = NATIVE | {
    "execution": "native",
    "native": True,
    "external": False,
    "engine": "specbook",
    "format": "specbook-receipt/1",
    "schema_": "specbook-receipt/1",
    "baseline": None,
    "receipt": NATIVE,
}


@pytest.fixture(autouse=True)
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Runs that the command asked for; each takes no time and gives the same result."""
    asked: list[Any] = []

    def quick(config: Any, **_: Any) -> Any:
        asked.append(config)
        return witness_result()

    monkeypatch.setattr(run, "run_witness", quick)
    return asked


@st.composite
def _claiming(draw: st.DrawFn) -> Any:
    """A benchmark file that says of itself, anywhere, that it is native; some are hashed as a receipt is."""
    run_ = copy.deepcopy(draw(st.sampled_from(EXTERNAL)))
    names = draw(st.lists(st.sampled_from(sorted(CLAIMS)), unique=True))
    claims = {name: CLAIMS[name] for name in names}
    place = draw(st.sampled_from(["beside", "inside", "around", "list"]))
    document: Any = run_ | claims
    if place == "inside":
        document = run_ | {draw(st.sampled_from(["timings", "extra", "attestation"])): claims}
    elif place == "around":
        document = claims | {draw(st.sampled_from(["result", "runs", "baselines"])): [run_]}
    if draw(st.booleans()):
        document = document | {"receipt_sha256": seal_of(document)}
    return [document, run_] if place == "list" else document


@settings(max_examples=150)
@given(_claiming(), st.sampled_from(["json", "jsonl"]))
def test_whatever_a_benchmark_says_it_stays_external(
    tmp_path_factory: pytest.TempPathFactory, content: Any, suffix: str
) -> None:
    path = tmp_path_factory.mktemp("claim") / f"b.{suffix}"
    records = content if isinstance(content, list) else [content]
    text = "".join(f"{json.dumps(record)}\n" for record in records) if suffix == "jsonl" else json.dumps(content)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadInput):
        read_receipt(path)
    try:
        baseline = read_external(path)
    except BadInput:
        return
    receipt = receipt_of(witness_result(), (), [baseline], date="2026-12-01")
    assert receipt.baselines[0].execution == "external"
    assert "native" not in baseline.model_dump_json()
    _same_but_for_baselines(json.loads(dump_model(receipt)))


def _same_but_for_baselines(document: dict[str, Any]) -> None:
    """Everything of a receipt but its baselines is what the run alone gives."""
    ignored = {"baselines", "receipt_sha256"}
    assert {name: value for name, value in document.items() if name not in ignored} == {
        name: value for name, value in NATIVE.items() if name not in ignored
    }


# Every place of the commands that takes a file, and a file of another engine in it.
PLACES = ("--config", "--hardware", "--acceptance", "--baseline")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("content", [VLLM, VLLM | CLAIMS, VLLM | {"schema": "specbook-receipt/1"}, NATIVE])
def test_no_option_takes_a_file_for_a_run(
    cli: Callable[..., Any], save: Callable[..., Path], tmp_path: Path, ran: list[Any], place: str, content: Any
) -> None:
    out, file = tmp_path / "R.json", save("b.json", content)
    drafter = () if place == "--config" else ("--drafter", "small")
    outcome = cli("witness", *drafter, place, file, "--out", out)
    if (place, content) == ("--baseline", VLLM):
        assert len(ran) == 1
        document = json.loads(out.read_text(encoding="utf-8"))
        assert [each["execution"] for each in document["baselines"]] == ["external"]
        document["attestation"]["inputs"] = NATIVE["attestation"]["inputs"]  # those of the options come in
        _same_but_for_baselines(document | {"date": NATIVE["date"]})
        return
    assert outcome.code == 2
    assert len(outcome.err.splitlines()) == 1
    assert ran == []
    assert not out.exists()


@pytest.mark.parametrize("content", [VLLM, [SGLANG], [BENCH], RESPONSE, VLLM | CLAIMS])
@pytest.mark.parametrize("verb", ["show", "check"])
def test_the_receipt_commands_refuse_what_no_witness_wrote(
    cli: Callable[..., Any], save: Callable[..., Path], ran: list[Any], verb: str, content: Any
) -> None:
    outcome = cli("receipt", verb, save("b.json", content))
    assert (outcome.code, outcome.out) == (2, "")
    assert len(outcome.err.splitlines()) == 1
    assert ran == []


def test_a_receipt_is_not_a_baseline(cli: Callable[..., Any], save: Callable[..., Path], tmp_path: Path) -> None:
    file = save("b.json", NATIVE)
    outcome = cli("witness", "--drafter", "small", "--baseline", file, "--out", tmp_path / "R.json")
    assert outcome.code == 2
    assert "is a specbook-receipt/1 file; attach what another engine's benchmark wrote" in outcome.err


def test_without_a_run_there_is_no_receipt(
    cli: Callable[..., Any], save: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise BadInput("cannot be run", remedy="try another")

    monkeypatch.setattr(run, "run_witness", fail)
    out = tmp_path / "R.json"
    outcome = cli("witness", "--drafter", "small", "--baseline", save("b.json", VLLM), "--out", out)
    assert outcome.code == 2
    assert not out.exists()


def test_no_command_of_receipts_makes_one_and_no_option_names_an_execution() -> None:
    """What a person can say on the command line: were there a flag to make something native, it would stand here."""
    options = set(inspect.signature(witness).parameters)
    assert options == {
        "out", "config", "drafter", "draft_length", "tree", "cut", "domain", "temperature", "acceptance", "arithmetic",
        "replication", "new_tokens", "prompts", "seed", "hardware", "baseline", "rounds", "requests", "json",
    }  # fmt: skip
    verbs = {name for name in vars(receipt_command) if name.startswith("receipt_")}
    assert verbs == {"receipt_show", "receipt_check"}
    assert set(inspect.signature(receipt_of).parameters) == {"result", "inputs", "baselines", "date"}


def test_a_baseline_in_a_receipt_cannot_be_turned(save: Callable[..., Path]) -> None:
    document = copy.deepcopy(NATIVE)
    baseline = read_external(save("v.json", VLLM)).model_dump(mode="json")
    document["baselines"] = [baseline | {"execution": "native"}]
    with pytest.raises(BadInput, match=r"baselines\.0\.execution = 'native'"):
        read_receipt(save("R.json", document | {"receipt_sha256": seal_of(document)}))
    assert Receipt.model_fields["baselines"].annotation is not None
