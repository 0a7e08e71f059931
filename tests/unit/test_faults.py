"""Faults are planted and removed, and the small table of gates sees what the large gates see."""

from __future__ import annotations

import pytest

from specbook.engine import decoding, verification
from specbook.engine.kv_cache import KVCache
from specbook.engine.library import tokenizer
from specbook.parity.fault_table import NO_FAULT, fault_table
from specbook.parity.faults import FAULTS, fault_names, planted

PROMPTS = [[1023, *tokenizer().encode(text)] for text in ("def area(width, height):", "User: What is a list?")]


@pytest.mark.parametrize("name", fault_names())
def test_planted_fault_is_gone_afterwards(name: str) -> None:
    before = [vars(owner).copy() for owner in (decoding, verification, KVCache)]
    with planted(name):
        pass
    after = [vars(owner) for owner in (decoding, verification, KVCache)]
    for was, now in zip(before, after, strict=True):
        assert {key: value for key, value in now.items() if was.get(key) is not value} == {}


def test_planted_fault_is_gone_after_an_error() -> None:
    honest = decoding.verify
    with pytest.raises(ZeroDivisionError), planted("accept one too many"):
        _ = 1 / int(decoding.verify is honest)
    assert decoding.verify is honest


def test_unknown_fault_is_refused() -> None:
    with pytest.raises(ValueError, match="fault must be one of accept one too many"), planted("gremlins"):
        pass


def test_fault_table_without_a_fault_passes_and_with_one_falls() -> None:
    names = ["stand one position off", "forget the residual", "leave a stale row", "quantise the logits"]
    table = fault_table([NO_FAULT, *names], PROMPTS)
    caught = {
        name: set(table.filter(fault=name, verdict="caught")["gate"].to_list())
        for name in table["fault"].unique(maintain_order=True)
    }
    declared = {fault.name: fault.gates for fault in FAULTS}
    assert caught[NO_FAULT] == set()
    assert {name: caught[name] for name in names} == {name: declared[name] for name in names}
