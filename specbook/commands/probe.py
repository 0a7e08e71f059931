"""The command ``specbook probe``: measure this machine and write its hardware profile."""

from __future__ import annotations

import math
import re
from enum import StrEnum
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from specbook.checks import BadInput
from specbook.commands.output import INTERRUPTED, JsonFlag, check_out, emit, note, note_kernels, working

if TYPE_CHECKING:
    from specbook.hardware.probe.backend import Backend
    from specbook.hardware.probe.plan import ProbePlan
    from specbook.hardware.profile import Figure, HardwareProfile


class DeviceName(StrEnum):
    """What is probed."""

    cpu = "cpu"
    cuda = "cuda"
    mps = "mps"


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("probe")(probe)


def probe(
    out: Annotated[Path, typer.Option("--out", help="The hardware profile to write.")],
    seconds: Annotated[float, typer.Option(help="Wall time for everything, 5 to 3600.")] = 60.0,
    device: Annotated[DeviceName, typer.Option(help="cuda and mps need torch.")] = DeviceName.cpu,
    name: Annotated[str | None, typer.Option(help="Short id of the machine; by default from its processor.")] = None,
    threads: Annotated[int, typer.Option(min=1, help="Threads of BLAS and of the bandwidth kernels.")] = 1,
    peak_bandwidth: Annotated[
        float | None, typer.Option(metavar="GB/S", help="Theoretical peak, for the memory bandwidth utilisation.")
    ] = None,
    catalogue: Annotated[
        str | None, typer.Option(metavar="NAME", help="Take the theoretical peak from this device of the catalogue.")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Measure bandwidth, arithmetic, attention and forward passes on this machine; scratch memory only."""
    start_s = perf_counter()
    try:
        peak = _peak(peak_bandwidth, catalogue)
        _probe(out, seconds, start_s, device, name, threads, peak, json)
    except KeyboardInterrupt:
        note("interrupted; nothing was written")
        raise typer.Exit(INTERRUPTED) from None


def _probe(
    out: Path,
    seconds: float,
    start_s: float,
    device: DeviceName,
    name: str | None,
    threads: int,
    peak: Figure | None,
    json: bool,
) -> None:
    from specbook.display.probe_terminal import show_probe
    from specbook.display.tables import say
    from specbook.engine.threads import blas_threads
    from specbook.files import dump_model, write_text
    from specbook.hardware.probe.run import ProbeConfig, run_probe

    check_out(out)
    if device is DeviceName.cpu:
        note_kernels()
    with blas_threads(threads):
        backend = _backend(device, threads)
        config = ProbeConfig(
            name=name or _slug(backend.facts.device),
            budget_s=seconds,
            peak=peak,
            spent_s=perf_counter() - start_s + _FITTING_S,
        )
        with working("probing", _bar_ms(seconds)) as progress:
            profile = _calibrated(run_probe(config, backend, announce=_announce, progress=progress))
    write_text(out, dump_model(profile))
    _note_warnings(profile)
    if json:
        emit(profile.model_dump(mode="json", by_alias=True))
    else:
        show_probe(profile)
        say(f"wrote {out}")


# What fitting a calibrated model takes, which the budget holds too.
_FITTING_S = 1.5


def _calibrated(profile: HardwareProfile) -> HardwareProfile:
    """The profile with a calibrated model of each arithmetic; as it is, with a note, if it is too short for one."""
    from specbook.roofline.fit import with_calibrations

    try:
        return with_calibrations(profile)
    except BadInput as error:
        note(f"note: no calibrated model was fitted: {error.problem}; {error.remedy}")
        return profile


def _bar_ms(seconds: float) -> int:
    return round(1e3 * seconds) if math.isfinite(seconds) else 1


def _announce(plan: ProbePlan) -> None:
    note(f"note: takes at most {plan.scratch_bytes / 1e6:,.0f} MB of memory, and gives it back")


def _note_warnings(profile: HardwareProfile) -> None:
    for warning in profile.probe.warnings if profile.probe else []:
        note(f"warning: {warning}")


def _peak(gigabytes_per_s: float | None, catalogue: str | None) -> Figure | None:
    """The theoretical peak, from whoever stated it."""
    from specbook.hardware.profile import Figure, catalogue_device

    if gigabytes_per_s is not None and catalogue is not None:
        problem, remedy = "states a peak that --catalogue states too", "leave one of them out"
        raise BadInput(problem, field="--peak-bandwidth", value=gigabytes_per_s, remedy=remedy)
    if catalogue is not None:
        peak = catalogue_device(catalogue).peak_bandwidth_bytes_per_s
        return None if peak is None else peak.model_copy(update={"source": f"catalogue {catalogue.casefold()}"})
    if gigabytes_per_s is None:
        return None
    if not _LEAST_GB_PER_S <= gigabytes_per_s <= _MOST_GB_PER_S:
        remedy = f"give {_LEAST_GB_PER_S:g} to {_MOST_GB_PER_S:g} GB/s"
        raise BadInput("is no bandwidth", field="--peak-bandwidth", value=gigabytes_per_s, remedy=remedy)
    return Figure(value=1e9 * gigabytes_per_s, evidence="catalogue", source="stated by the user")


_LEAST_GB_PER_S, _MOST_GB_PER_S = 0.1, 1e6


def _backend(device: DeviceName, threads: int) -> Backend:
    from specbook.hardware.probe.machine import n_processors
    from specbook.hardware.probe.numpy_backend import NumpyBackend

    if device is not DeviceName.cpu:
        from specbook.hardware.probe.torch_device import TorchBackend, import_torch

        return TorchBackend(import_torch(device.value), device.value)
    if threads > n_processors():
        remedy = f"give at most {n_processors()}, or none for 1"
        raise BadInput("is more than this process may use", field="--threads", value=threads, remedy=remedy)
    return NumpyBackend(threads)


def _slug(device: str) -> str:
    """A name for the command line: lower case, digits, hyphens."""
    words = re.sub(r"\([^)]*\)|@.*", " ", device).casefold()
    return re.sub(r"[^a-z0-9]+", "-", words).strip("-") or "this-machine"
