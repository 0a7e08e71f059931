"""Receipts that ship with specbook: of a quiet machine and of a busy one, without a trace of whose it was."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from specbook.checks import BadInput
from specbook.engine.library import SHA256
from specbook.files import dump_model
from specbook.witness.control import MOST_RUNNING
from specbook.witness.stored import stored_receipt, stored_receipts

NAMES = stored_receipts()
ALONE = [name for name in NAMES if not name.endswith("-busy")]


def test_each_machine_has_a_quiet_run_and_a_busy_one() -> None:
    assert ALONE
    assert sorted(NAMES) == sorted([*ALONE, *(f"{name}-busy" for name in ALONE)])


@pytest.mark.parametrize("name", ALONE)
def test_the_quiet_run_passed_with_its_forecast_beside_it(name: str) -> None:
    receipt = stored_receipt(name)
    assert receipt.control.as_control().is_quiet
    assert [each.verdict for each in receipt.configurations] == ["pass"] * 3
    assert all(each.forecast is not None for each in receipt.configurations)


@pytest.mark.parametrize("name", ALONE)
def test_the_busy_run_did_not_pass_and_says_why(name: str) -> None:
    receipt = stored_receipt(f"{name}-busy")
    assert receipt.verdict == "inconclusive"
    assert receipt.control.load_average is not None
    assert receipt.control.load_average > MOST_RUNNING


@pytest.mark.parametrize("name", ALONE)
def test_both_are_of_the_same_machine_and_the_same_choices(name: str) -> None:
    quiet, busy = stored_receipt(name), stored_receipt(f"{name}-busy")
    assert quiet.attestation == busy.attestation
    for one, other in zip(quiet.configurations, busy.configurations, strict=True):
        assert [each.prompt for each in one.requests] == [each.prompt for each in other.requests]
        assert (one.name, one.draft_length, one.domains) == (other.name, other.draft_length, other.domains)


@pytest.mark.parametrize("name", NAMES)
def test_they_are_of_the_weights_that_ship_and_every_token_was_equal(name: str) -> None:
    receipt = stored_receipt(name)
    for model, sha256 in receipt.attestation.weights_sha256.items():
        assert SHA256[f"{model}.safetensors"] == sha256
    for each in receipt.configurations:
        assert each.parity.n_tokens == len(each.requests) * receipt.new_tokens
        assert each.parity.n_equal_tokens == each.parity.n_tokens


@pytest.mark.parametrize("name", NAMES)
def test_they_name_no_folder_and_nobody(name: str) -> None:
    text = dump_model(stored_receipt(name))
    assert not re.search(r"/(?:home|root|work|tmp|Users)/", text)
    host = set(stored_receipt(name).attestation.host)
    assert host == {"system", "machine", "processor", "cores", "memory", "python"}


def test_a_receipt_of_another_name_is_refused() -> None:
    with pytest.raises(BadInput, match=r"receipt = 'abacus': no such receipt; one of "):
        stored_receipt("abacus")


def test_the_command_line_lists_the_names_there_are(cli: Callable[..., Any]) -> None:
    outcome = cli("receipt", "show", "abacus")
    assert (outcome.code, outcome.out) == (2, "")
    assert f"no such receipt; one of {', '.join(NAMES)}" in outcome.err
    assert "abacus.json: no such file" in cli("receipt", "show", "abacus.json").err
