"""Make the stored receipts of this machine again: ``python -m specbook.witness.record_receipts NAME``.

Two runs of the same three configurations: one alone, which has to pass, and one beside two busy processes. Both take
their forecast from the hardware profile of that name, which lies beside the receipts; it has to be of this machine.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from specbook.checks import BadInput
from specbook.engine.threads import blas_description, blas_threads, processor_name
from specbook.hardware.profile import HardwareProfile, load_hardware
from specbook.witness.config import Configuration, WitnessConfig
from specbook.witness.neighbours import busy_neighbours
from specbook.witness.receipt import receipt_of, write_receipt
from specbook.witness.receipt_parts import model_input
from specbook.witness.run import run_witness
from specbook.witness.stored import FOLDER

_N_BUSY = 2
_CONFIGURATIONS = (
    Configuration(name="code, K = 4", drafter="small", draft_length=4, domains=("code",)),
    Configuration(name="chat, K = 2", drafter="small", draft_length=2, domains=("chat",)),
    Configuration(name="mathematics, K = 6", drafter="small", draft_length=6, domains=("mathematics",)),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run both, and store them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help="what the machine is called")
    parser.add_argument("--hardware", help="a hardware profile of this machine; by default the one beside the receipts")
    options = parser.parse_args(arguments)
    hardware = load_hardware(options.hardware or str(FOLDER / "hardware" / f"{options.name}.json"))
    check_same_machine(hardware)
    for suffix, n_busy in (("", 0), ("-busy", _N_BUSY)):
        with busy_neighbours(n_busy):
            record(f"{options.name}{suffix}", hardware)


def check_same_machine(hardware: HardwareProfile) -> None:
    """Refuse the probe of another machine, or of other kernels on this one: its forecast would be of something else.

    Raises
    ------
    BadInput
        If the processor or the kernels differ, or the profile holds no probe.
    """
    with blas_threads(1):
        here = {"processor": processor_name(), "kernel": blas_description()["kernel"]}
    probe = hardware.probe
    there = {} if probe is None else {"processor": probe.processor, "kernel": probe.blas["kernel"]}
    if here != there:
        told = [", ".join(map(str, each.values())) or "nothing" for each in (there, here)]
        problem = f"was probed on {told[0]}, and this is {told[1]}"
        raise BadInput(problem, field="hardware", value=hardware.name, remedy="probe this machine first")


def record(name: str, hardware: HardwareProfile) -> None:
    """Run the witness once, and store its receipt under a name."""
    result = run_witness(WitnessConfig(configurations=_CONFIGURATIONS), hardware=hardware)
    receipt = receipt_of(result, [model_input("hardware", hardware.name, hardware)])
    FOLDER.mkdir(exist_ok=True)
    write_receipt(receipt, FOLDER / f"{name}.json")
    sys.stdout.write(f"{name}: {receipt.verdict}\n")


if __name__ == "__main__":
    main()
