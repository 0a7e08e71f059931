"""Devices by the names that people give them: resolved, or asked about, never guessed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbook.hardware.profile import catalogue_names
from specbook.names.devices import device_name

# Every text that the shipped series use.
OF_THE_SERIES = {
    "H200 (per the chart label in the same repository; tensor-parallel size not in the file)": ("h200-sxm", None),
    "NVIDIA DGX Spark GB10": ("gb10", None),
    "AMD Strix Halo": ("strix-halo", None),
    "RTX 5060 Ti (Blackwell, sm_120)": ("rtx-5060-ti-16gb", None),
    "RTX 5060 Ti (sm_120)": ("rtx-5060-ti-16gb", None),
    "GTX 1080 Ti (Pascal, sm_61)": ("gtx-1080-ti", None),
    "H100 TP8": ("h100-sxm5", 8),
    "RTX 3060": ("rtx-3060", None),
    "Apple M4 Pro": ("m4-pro", None),
    "Apple M1 Pro": ("m1-pro", None),
}
ELSEWHERE = {
    "8xH100": ("h100-sxm5", 8),
    "H100 x8": ("h100-sxm5", 8),
    "h100x8": ("h100-sxm5", 8),
    "8 H100": ("h100-sxm5", 8),
    "NVIDIA H100 80GB HBM3": ("h100-sxm5", None),
    "DGX H100": ("h100-sxm5", None),
    "h100 PCIe": ("h100-pcie", None),
    "4×H200": ("h200-sxm", 4),
    "2x RTX 3090": ("rtx-3090", 2),
    "2x3090": ("rtx-3090", 2),
    "2x RTX 3090 24GB": ("rtx-3090", 2),
    "2x RTX 3090, 48 GB": ("rtx-3090", 2),
    "GeForce RTX 4090": ("rtx-4090", None),
    "RTX5060Ti 16GB": ("rtx-5060-ti-16gb", None),
    "A100 80GB": ("a100-sxm4-80gb", None),
    "NVIDIA A100-SXM4-80GB": ("a100-sxm4-80gb", None),
    "8xA100": ("a100-sxm4-80gb", 8),
    "B200, tensor parallel size 4": ("b200-sxm", 4),
    "Ryzen AI Max+ 395": ("strix-halo", None),
    "4 GPUs, L40S": ("l40s", 4),
    "Xeon Platinum 8480+": ("sapphire-rapids", None),
    "dual 3090": ("rtx-3090", 2),
    "Quad L4": ("l4", 4),
    "single H200": ("h200-sxm", 1),
    "H200:8": ("h200-sxm", 8),
    "1 node, 8x H200": ("h200-sxm", 8),
}
UNCLEAR = {
    "not recorded": "is not recorded: state --device",
    "": "is not recorded",
    "n/a": "is not recorded",
    "-": "is not recorded",
    "unknown": "is not recorded",
    "CPU": "does not say which one",
    "H100": r"may be h100-sxm5 \(3350 GB/s\) or h100-pcie \(2000 GB/s\): state --device h100-sxm5",
    "2x H100": "may be h100-sxm5",
    "H100 NVL": "the catalogue lacks",
    "A100": "40 or 80 GB",
    "A100-SXM4-40GB": r"lacks \(40gb\)",
    "H100 or A100": "names several devices",
    "8xH100 TP4": "states 2 numbers of devices, 4 and 8",
    "4 nodes x 8 H100": "is several servers: state --device, and with --devices",
    "H200 (MIG 1g.18gb)": "is a part of a device",
    "1/2 H200": "is a part of a device",
    "RTX 3090 80GB": "states 80 GB, where rtx-3090 has 24",
    "RTX 5060 Ti 8GB": "states 8 GB",
    "RTX 3060 8GB": "states 8 GB",
    "M3 Max 30-core": "the catalogue lacks",
    "x" * 5000: r"is too long for a name \(5000 characters\)",
}
NEAR_MISSES = ("RTX 3090 Ti", "RTX 3060 Ti", "RTX 4090 D", "RTX 4090 Laptop", "GTX 1080", "RTX 5060", "RTX 3080", "L40",
               "GH200", "GB200", "H20", "A10", "M4", "M1", "MI325X", "Tesla T4", "DGX", "RTX PRO 4000")  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), (OF_THE_SERIES | ELSEWHERE).items())
def test_device_is_resolved(text: str, expected: tuple[str, int | None]):
    name = device_name(text)
    assert name.profile is not None, name.question
    assert (name.profile.name, name.n_devices, name.question) == (*expected, None)
    assert f"({expected[0]})" in name.understood


@pytest.mark.parametrize(("text", "part"), UNCLEAR.items())
def test_device_that_is_unclear_is_asked_about(text: str, part: str):
    name = device_name(text)
    assert name.profile is None
    assert name.question is not None
    with pytest.raises(AssertionError, match=part):
        raise AssertionError(name.question)
    assert "\n" not in name.question
    assert len(name.question) < 300


@pytest.mark.parametrize("text", NEAR_MISSES)
def test_device_near_another_is_not_taken_for_it(text: str):
    name = device_name(text)
    assert name.profile is None
    assert "--device" in (name.question or "")


@pytest.mark.parametrize("text", ["GB300", "RTX 3090 Ti", "H100 NVL"])
def test_device_near_another_in_name_is_not_proposed(text: str):
    assert "hardware file of its figures" in (device_name(text).question or "")


def test_candidates_are_those_that_the_words_fit():
    assert device_name("H100").candidates == ("h100-sxm5", "h100-pcie")
    assert device_name("H100 NVL").candidates == device_name("GH200").candidates == device_name("L4").candidates == ()


@pytest.mark.parametrize("known", catalogue_names())
def test_every_device_of_the_catalogue_is_its_own_name(known: str):
    name = device_name(known)
    assert name.profile is not None
    assert name.profile.name == known


@pytest.mark.parametrize("known", catalogue_names())
def test_full_name_of_a_device_never_means_another(known: str):
    from specbook.hardware.profile import catalogue_device

    found = device_name(catalogue_device(known).device).profile
    assert found is None or found.name == known


@given(text=st.sampled_from([*OF_THE_SERIES, *ELSEWHERE, *NEAR_MISSES]), data=st.data())
def test_case_and_blanks_do_not_matter(text: str, data: st.DataObject):
    blank = data.draw(st.sampled_from(["  ", "_", "-", " \t"]))
    changed = data.draw(st.sampled_from([str.upper, str.lower, str.title]))(text).replace(" ", blank)
    one, other = device_name(text), device_name(f" {changed} ")
    assert (one.profile, one.n_devices, one.backend) == (other.profile, other.n_devices, other.backend)


@given(text=st.text(max_size=400))
def test_any_text_is_resolved_or_asked_about(text: str):
    name = device_name(text)
    assert (name.profile is None) == (name.question is not None)


@pytest.mark.parametrize(
    ("text", "backend"),
    [("RTX 3090 (CUDA)", "cuda"), ("RTX 3090 Vulkan", "vulkan"), ("CPU", "cpu"), ("RTX 3090", None)],
)
def test_backend_is_taken_from_the_text(text: str, backend: str | None):
    assert device_name(text).backend == backend


def test_escapes_in_a_name_do_not_reach_the_screen():
    assert "\x1b" not in (device_name("H100\x1b[31m or A100").question or "")
