"""Recording the stored receipts: alone, then beside other work, on the machine that was probed and on no other."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from specbook.checks import BadInput
from specbook.engine.threads import blas_description, blas_threads, processor_name
from specbook.hardware.probe.stored import stored_probe
from specbook.hardware.profile import HardwareProfile, catalogue_device
from specbook.witness import neighbours, record_receipts
from specbook.witness.receipt import read_receipt
from tests.receipt_cases import witness_result


def _here() -> HardwareProfile:
    """A stored probe that says it is of this machine."""
    with blas_threads(1):
        kernel = blas_description()["kernel"]
    profile = stored_probe("epyc-zen4-2core")
    assert profile.probe is not None
    probe = profile.probe.model_copy(
        update={"processor": processor_name(), "blas": profile.probe.blas | {"kernel": kernel}}
    )
    return profile.model_copy(update={"probe": probe, "name": "here"})


def test_both_runs_are_stored_one_of_them_beside_two_busy_processes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    running: list[Any] = []
    during: list[int] = []

    class Spinning:
        def __init__(self, _: Any) -> None:
            running.append(self)

        def kill(self) -> None:
            running.remove(self)

        def wait(self) -> None:
            assert self not in running

    def run(*_: Any, **__: Any) -> Any:
        during.append(len(running))
        return witness_result(reason="busy" if running else None)

    monkeypatch.setattr(neighbours.subprocess, "Popen", Spinning)
    monkeypatch.setattr(record_receipts, "run_witness", run)
    monkeypatch.setattr(record_receipts, "load_hardware", lambda _: _here())
    monkeypatch.setattr(record_receipts, "FOLDER", tmp_path / "receipts")
    record_receipts.main(["here"])
    assert during == [0, 2]
    assert running == []
    assert capsys.readouterr().out == "here: pass\nhere-busy: inconclusive\n"
    receipt = read_receipt(tmp_path / "receipts" / "here.json")
    assert [each.name for each in receipt.attestation.inputs if each.role == "hardware"] == ["here"]


def test_busy_neighbours_end_with_the_block_even_if_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    processes: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen

    def remembered(command: list[str]) -> subprocess.Popen[bytes]:
        processes.append(start(command))
        return processes[-1]

    monkeypatch.setattr(neighbours.subprocess, "Popen", remembered)
    block = ExitStack()
    block.enter_context(neighbours.busy_neighbours(2))
    assert [process.poll() for process in processes] == [None, None]
    with pytest.raises(KeyboardInterrupt), block:
        raise KeyboardInterrupt
    assert all(process.poll() is not None for process in processes)


@pytest.mark.parametrize("hardware", [catalogue_device("h200-sxm"), _here().model_copy(update={"probe": None})])
def test_a_machine_that_was_not_probed_is_refused(hardware: HardwareProfile) -> None:
    with pytest.raises(BadInput, match=r"was probed on nothing, and this is .*; probe this machine first"):
        record_receipts.check_same_machine(hardware)


def test_other_kernels_on_the_same_machine_are_refused() -> None:
    here = _here()
    assert here.probe is not None
    record_receipts.check_same_machine(here)
    other = here.probe.model_copy(update={"blas": here.probe.blas | {"kernel": "Prescott"}})
    with pytest.raises(BadInput, match=r"was probed on .*, Prescott, and this is "):
        record_receipts.check_same_machine(here.model_copy(update={"probe": other}))
