"""The hardware catalogue: every device loads, every figure has a source, arithmetic is counted dense."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from specbook.checks import BadInput
from specbook.hardware.profile import HardwareProfile, catalogue_device, catalogue_names, load_hardware

ASKED_FOR = (
    "h100-sxm5", "h200-sxm", "a100-sxm4-80gb", "l4", "l40s", "b200-sxm", "mi300x", "m3-max", "m4-max", "m3-ultra",
    "sapphire-rapids", "genoa", "graviton4",
)  # fmt: skip


def _figures(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict) and "value" in value:
        yield value
    elif isinstance(value, dict):
        for entry in value.values():
            yield from _figures(entry)


def _document(name: str = "h100-sxm5", /, **changes: Any) -> dict[str, Any]:
    return json.loads(catalogue_device(name).model_dump_json(by_alias=True)) | changes


@pytest.mark.parametrize("name", ASKED_FOR)
def test_catalogue_holds_every_device_asked_for(name: str):
    assert name in catalogue_names()


@pytest.mark.parametrize("name", catalogue_names())
def test_catalogue_device_is_called_as_its_file(name: str):
    assert catalogue_device(name).name == name


@pytest.mark.parametrize("name", catalogue_names())
def test_catalogue_figures_each_have_a_source(name: str):
    figures = list(_figures(_document(name)))
    assert len(figures) >= 4  # memory, two bandwidths, a rate
    for figure in figures:
        assert figure["source"].strip()
        assert figure["evidence"] == "catalogue"
        assert figure["url"] is None or figure["url"].startswith("http")


@pytest.mark.parametrize("name", catalogue_names())
def test_catalogue_sustained_bandwidth_is_at_most_the_peak(name: str):
    device = catalogue_device(name)
    assert 0.5 < device.mbu <= 1.0
    assert device.mbu == pytest.approx(
        device.sustained_bandwidth_bytes_per_s.value / device.peak_bandwidth_bytes_per_s.value
    )


@pytest.mark.parametrize(
    ("name", "fp16", "fp8"),
    [
        ("l4", 121e12, 242e12),
        ("h100-sxm5", 989e12, 1978e12),
        ("h200-sxm", 989e12, 1978e12),
        ("a100-sxm4-80gb", 312e12, None),
        ("l40s", 362.05e12, 733e12),
        ("b200-sxm", 2250e12, 4500e12),
        ("mi300x", 1307.4e12, 2614.9e12),
    ],
)
def test_catalogue_arithmetic_is_dense(name: str, fp16: float, fp8: float | None):
    peak = catalogue_device(name).peak_flops_per_s
    assert peak.fp16.value == fp16
    assert (peak.fp8.value if peak.fp8 else None) == fp8


@pytest.mark.parametrize(
    ("name", "bandwidth", "memory"),
    [("h100-sxm5", 3.35e12, 80e9), ("h200-sxm", 4.8e12, 141e9), ("l4", 300e9, 24e9), ("m3-max", 400e9, 128e9)],
)
def test_catalogue_peaks_are_the_vendors(name: str, bandwidth: float, memory: float):
    device = catalogue_device(name)
    assert device.peak_bandwidth_bytes_per_s.value == bandwidth
    assert device.memory_bytes.value == memory


def test_catalogue_device_any_case_is_found():
    assert catalogue_device("H100-SXM5") is not None
    assert catalogue_device("MI300X").name == "mi300x"


def test_catalogue_device_unknown_name_lists_the_known():
    with pytest.raises(BadInput, match=r"hardware = 'h9': no such device in the catalogue; one of a100.*, or a spec"):
        catalogue_device("h9")


def test_ridge_point_is_arithmetic_over_sustained_bandwidth():
    assert catalogue_device("l4").ridge_point_flops_per_byte == pytest.approx(121e12 / 240e9)


@pytest.mark.parametrize(
    ("name", "arithmetic", "rate"),
    [("h100-sxm5", "fp16", 989e12), ("h100-sxm5", "fp8", 1978e12), ("a100-sxm4-80gb", "int8", 624e12),
     ("a100-sxm4-80gb", "fp8", 312e12), ("m3-max", "int8", 14.2e12)],
)  # fmt: skip
def test_flops_per_s_absent_rate_falls_back_to_sixteen_bits(name: str, arithmetic: str, rate: float):
    assert catalogue_device(name).flops_per_s(arithmetic) == rate


def test_load_hardware_file_is_read(save):
    path = save("mine.json", _document(name="mine"))
    assert load_hardware(str(path)).name == "mine"


def test_load_hardware_name_is_looked_up():
    assert load_hardware("l4").name == "l4"


def test_load_hardware_name_is_not_hidden_by_a_folder_of_that_name(tmp_path, monkeypatch):
    (tmp_path / "l4").mkdir()
    monkeypatch.chdir(tmp_path)
    assert load_hardware("l4").name == "l4"


@pytest.mark.parametrize("name", ["no-such-file.json", "x" * 5000])
def test_load_hardware_neither_is_refused(name: str):
    with pytest.raises(BadInput, match=r"no such file|no such device|name too long"):
        load_hardware(name)


SUSTAINED = {"value": 9e15, "evidence": "measured", "source": "probe"}


@pytest.mark.parametrize(
    ("changes", "field", "problem"),
    [
        (
            {"sustained_bandwidth_bytes_per_s": SUSTAINED},
            "sustained_bandwidth_bytes_per_s.value = 9000000000000000.0",
            "is above the peak of 3.35e+12; correct either figure",
        ),
        ({"schema": "specbook-hardware/2"}, "schema = 'specbook-hardware/2'", "unknown schema"),
        ({"memory_bytes": SUSTAINED | {"value": 0}}, "memory_bytes.value = 0", "greater than 0"),
        ({"memory_bytes": SUSTAINED | {"value": -1.0}}, "memory_bytes.value = -1.0", "greater than 0"),
        ({"memory_bytes": SUSTAINED | {"value": float("inf")}}, "memory_bytes.value = inf", "finite"),
        ({"memory_bytes": SUSTAINED | {"value": "80e9"}}, "memory_bytes.value = '80e9'", "valid number"),
        ({"memory_bytes": SUSTAINED | {"source": ""}}, "memory_bytes.source = ''", "at least 1 character"),
        ({"memory_bytes": SUSTAINED | {"evidence": "memory"}}, "memory_bytes.evidence = 'memory'", "'measured'"),
        ({"memory_bytes": 80e9}, "memory_bytes = 80000000000.0", ""),
        ({"peak_flops_per_s": {}}, "peak_flops_per_s = {}", "has neither fp16 nor fp32"),
        ({"kind": "tpu"}, "kind = 'tpu'", "'gpu'"),
        ({"name": ""}, "name = ''", "at least 1 character"),
        ({"mbu": 0.9}, "mbu = 0.9", "Extra inputs are not permitted"),
    ],
)
def test_load_hardware_impossible_file_is_refused(save, changes: dict[str, Any], field: str, problem: str):
    path = save("mine.json", _document() | changes)
    with pytest.raises(BadInput) as caught:
        load_hardware(str(path))
    assert str(caught.value).startswith(f"{path}: {field}: ")
    assert problem in str(caught.value)


def test_hardware_without_overhead_is_allowed(save):
    path = save("mine.json", _document(step_overhead_s=None))
    assert load_hardware(str(path)).step_overhead_s is None


def test_hardware_profile_is_frozen():
    with pytest.raises(ValueError, match="frozen"):
        catalogue_device("l4").name = "x"


def test_hardware_profile_schema_name_is_written():
    assert HardwareProfile.model_validate(_document()).model_dump(by_alias=True)["schema"] == "specbook-hardware/1"


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"memory_bytes": 80.0}, "memory_bytes.value = 80.0: is below 1e+06"),
        ({"sustained_bandwidth_bytes_per_s": 3.0}, "sustained_bandwidth_bytes_per_s.value = 3.0: is below 1e+06"),
        ({"step_overhead_s": 15.0}, "step_overhead_s.value = 15.0: is longer than any launch"),
    ],
)
def test_load_hardware_in_the_wrong_unit_names_the_figure(save, changes: dict[str, float], part: str):
    document = catalogue_device("l4").model_dump(mode="json", by_alias=True)
    for name, value in changes.items():
        document[name] = {"value": value, "evidence": "catalogue", "source": "a typing error"}
    with pytest.raises(BadInput) as caught:
        load_hardware(str(save("mine.json", document)))
    assert part in str(caught.value)
