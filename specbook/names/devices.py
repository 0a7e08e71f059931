"""Devices as people write them: "NVIDIA DGX Spark GB10", "8xH100", "RTX 5060 Ti (sm_120)"."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from specbook.hardware.profile import HardwareProfile, catalogue_device, catalogue_names
from specbook.names.device_families import FAMILIES, Family
from specbook.names.text import loosened, nearest, question, unreadable

_BACKENDS = ("cuda", "vulkan", "metal", "rocm", "cpu")
_BEFORE = re.compile(r"(?<![\w.])(\d{1,3})(?: ?[x×*])? ?(?:nvidia |amd |geforce |apple )*$")  # 8xH100, 8 H100
_AFTER = re.compile(r"(?<![a-z])[x×*] ?(\d{1,3})(?![\w.])")  # H100 x8
_ANYWHERE = (
    re.compile(r"(?<!\w)tp ?(\d{1,4})(?!\w)"),
    re.compile(r"tensor parallel(?: size)? (\d{1,4})(?!\w)"),
    re.compile(r"(?<![\w.])(\d{1,4}) ?(?:gpus?|cards?|devices?)(?!\w)"),
)
_MARKED_COUNT = re.compile(r"(?<=\w):(\d{1,3})\s*$")  # H100:8
_COUNT_WORDS = {
    "single": 1, "one": 1, "dual": 2, "two": 2, "three": 3, "triple": 3, "four": 4, "quad": 4, "eight": 8,
}  # fmt: skip
_COUNT_WORD = re.compile(rf"(?<!\w)(?:{'|'.join(_COUNT_WORDS)})(?!\w)")
_PART = re.compile(r"(?<!\w)(?:mig|vgpu|fractional)(?!\w)")
_FRACTION = re.compile(r"(?<![\w./])\d+/\d+(?![\w./])")
_SERVERS = re.compile(r"(?<!\w)(?:(?!1 )\d+ ?(?:x )?|multi |multiple )(?:nodes?|servers?|hosts?)(?!\w)")
_OWN_FIGURES = "state --device with a hardware file of its figures, or with a device of the same bandwidth"
_SHARED = "state --device, and with --devices how many shared each product"
# Servers of so many of these carry modules, not cards.
_SERVER_DEVICES = 4
_MEMORY_TOLERANCE = 0.1


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceName:
    """What a text says about the device that something ran on.

    Attributes
    ----------
    text : str
        As written.
    profile : HardwareProfile or None
        Of the catalogue; None if the text does not settle on one.
    n_devices : int or None
        Devices that shared the work; None where the text states none.
    backend : str or None
        ``cuda``, ``vulkan``, ``metal``, ``rocm`` or ``cpu``, where the text says so.
    understood : str
        What was understood, in one line.
    question : str or None
        Why it is unclear, and how to state it; None if it is clear.
    candidates : tuple of str
        Where the words fit several devices of the catalogue, which; empty where it may be any.
    """

    text: str
    profile: HardwareProfile | None
    n_devices: int | None
    backend: str | None
    understood: str
    question: str | None
    candidates: tuple[str, ...] = ()


def device_name(text: str) -> DeviceName:
    """Resolve a device's name to the catalogue, or ask.

    A text is clear if its words fit one device of the catalogue alone, or several whose bandwidths are within a tenth
    of each other. Four or more H100, A100 and the like are taken to be modules of a server.

    Parameters
    ----------
    text : str
        A name, with remarks.

    Returns
    -------
    DeviceName

    Examples
    --------
    >>> device_name("2x RTX 3090").understood
    '2 × NVIDIA GeForce RTX 3090 24 GB GDDR6X (rtx-3090)'
    >>> print(device_name("H100").question)
    'H100' may be h100-sxm5 (3350 GB/s) or h100-pcie (2000 GB/s): state --device h100-sxm5
    """
    loose = _counts_apart(loosened(_MARKED_COUNT.sub(r" x\1", text)))
    backend = next((each for each in _BACKENDS if re.search(rf"\b{each}\b", loose)), None)
    name = DeviceName(text=text, profile=None, n_devices=None, backend=backend, understood="no device", question=None)
    if (problem := unreadable(text)) is not None:
        return _asked(name, problem)
    by_id = {loosened(known): known for known in catalogue_names()}
    if loose in by_id:
        known = by_id[loose]
        return _settled(name, known, next((family.remark for family in FAMILIES if family.default == known), ""))
    return _of_families(name, loose)


def _counts_apart(loose: str) -> str:
    """A name whose number of devices is in digits, and not glued to it."""
    loose = _COUNT_WORD.sub(lambda word: f"{_COUNT_WORDS[word.group()]}x", loose)
    loose = re.sub(r"(?<![\w.])(\d{1,3}) ?[x×*] ?(?=[a-z]|\d{4})", r"\1x ", loose)
    return re.sub(r"(?<=[a-z0-9]\d)[x×*](?=\d{1,3}(?!\w))", " x", loose)


def _of_families(name: DeviceName, loose: str) -> DeviceName:
    found = [family for family in FAMILIES if family.pattern.search(loose)]
    if not found:
        return _unknown(name, loose)
    if len(found) > 1:
        known = list(dict.fromkeys(each for family in found for each in family.candidates))
        return _of_several(name, "names several devices", known)
    if _PART.search(loose) or _FRACTION.search(name.text):
        return _asked(name, "is a part of a device", _OWN_FIGURES)
    if _SERVERS.search(loose):
        return _asked(name, "is several servers", _SHARED)
    counts = _counts(loose, found[0])
    if len(counts) > 1:
        stated = " and ".join(str(count) for count in sorted(counts))
        why = f"states {len(counts)} numbers of devices, {stated}"
        return replace(name, question=question(name.text, why, _SHARED))
    counted = replace(name, n_devices=counts.pop() if counts else None)
    return _of_family(counted, loose, found[0])


def _of_family(name: DeviceName, loose: str, family: Family) -> DeviceName:
    if family.absent is not None and (variant := family.absent.search(loose)) is not None:
        return _asked(name, f"is a variant that the catalogue lacks ({variant.group()})", _OWN_FIGURES)
    for hint, known in family.hints:
        if hint.search(loose):
            return _checked(name, loose, known, "")
    if family.default is not None:
        return _checked(name, loose, family.default, family.remark)
    if family.server is not None and (name.n_devices or 0) >= _SERVER_DEVICES:
        return _checked(name, loose, family.server, "; so many in one server are modules")
    return _of_several(name, family.why, list(family.candidates))


def _checked(name: DeviceName, loose: str, known: str, remark: str) -> DeviceName:
    """The device, unless the text states a memory that it has not."""
    profile = catalogue_device(known)
    has_gb = profile.memory_bytes.value / 1e9
    stated = [float(size) for size in re.findall(r"(?<![\w.])(\d{1,4}) ?gi?b(?!\w)", loose)]
    shares = {1, name.n_devices or 1}
    fits = [abs(size / has_gb / share - 1.0) <= _MEMORY_TOLERANCE for size in stated for share in shares]
    if profile.kind == "gpu" and stated and not any(fits):
        return _asked(name, f"states {stated[0]:g} GB, where {known} has {has_gb:g}", _OWN_FIGURES)
    return _settled(name, known, remark)


def _counts(loose: str, family: Family) -> set[int]:
    """Numbers of devices that a text states."""
    place = family.pattern.search(loose)
    stated = [count for pattern in _ANYWHERE for count in pattern.findall(loose)]
    if place is not None:
        stated += _BEFORE.findall(loose[: place.start()]) + _AFTER.findall(loose[place.end() :])
    return {int(count) for count in stated} - {0}


def _settled(name: DeviceName, known: str, remark: str) -> DeviceName:
    profile = catalogue_device(known)
    counted = f"{name.n_devices} × " if name.n_devices is not None else ""
    return replace(name, profile=profile, understood=f"{counted}{profile.device} ({known}){remark}")


def _unknown(name: DeviceName, loose: str) -> DeviceName:
    if loose in ("cpu", "processor", "gpu", "accelerator"):
        return _asked(name, "does not say which one")
    near = nearest(loose, catalogue_names())
    named = f"; near it in name: {', '.join(near)}" if near else ""
    return _asked(name, f"is not in the catalogue{named}", _OWN_FIGURES)


def _of_several(name: DeviceName, why: str, candidates: list[str]) -> DeviceName:
    """A name that fits several devices of the catalogue."""
    name = replace(name, candidates=tuple(candidates))
    if why == "may be":
        why = f"may be {' or '.join(f'{each} ({_gb_per_s(each):.0f} GB/s)' for each in candidates)}"
        return _asked(name, why, f"state --device {candidates[0]}")
    others = f", or one of {', '.join(candidates[1:])}" if len(candidates) > 1 else ""
    return _asked(name, why, f"state --device {candidates[0]}{others}")


def _asked(
    name: DeviceName,
    why: str,
    remedy: str = "state --device with a name of the catalogue, or a file of `specbook probe`",
) -> DeviceName:
    return replace(name, question=question(name.text, why, remedy))


def _gb_per_s(known: str) -> float:
    profile = catalogue_device(known)
    peak = profile.peak_bandwidth_bytes_per_s or profile.sustained_bandwidth_bytes_per_s
    return peak.value / 1e9
