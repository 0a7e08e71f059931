"""The page's expressions, evaluated by Vega itself without a browser, equal numpy to 1e-12."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import vl_convert

from specbook.acceptance.library import library_profile
from specbook.acceptance.profile import profile_from_counts
from specbook.acceptance.yields import draft_acceptance_rate, tokens_for_draft_length
from specbook.checks import Floats
from specbook.display.explorer import Explorer
from specbook.display.explorer_config import MAX_DRAFT_LENGTH, STEP_TIMES, ExplorerConfig, drafting_pair, marginals
from specbook.display.explorer_formula import OUTPUTS, SETTINGS, page_fields
from specbook.display.positions_page import positions_page
from specbook.hardware.profile import catalogue_device
from specbook.roofline.model_spec import model
from specbook.roofline.speedup import memory_bytes, round_times


def _texts(node: Any, found: list[str]) -> list[str]:
    if isinstance(node, dict):
        if node.get("marktype") == "text" and node.get("role") == "mark":
            found += [item["text"] for item in node["items"]]
        for value in node.values():
            _texts(value, found)
    elif isinstance(node, list):
        for value in node:
            _texts(value, found)
    return found


def vega_values(spec: dict[str, Any], field: str, x: str) -> list[float]:
    """Print a field of every row as a text mark with all its digits, and read the drawing."""
    text = {"field": field, "type": "quantitative", "format": ".17g"}
    layer = {"mark": "text", "encoding": {"x": {"field": x, "type": "quantitative"}, "text": text}}
    bare = {key: spec[key] for key in ("$schema", "data", "datasets", "params", "transform") if key in spec}
    bare["params"] = [{"name": p["name"], "value": p["value"]} for p in spec["params"]]
    graph = vl_convert.vegalite_to_scenegraph(bare | {"layer": [layer]}, vl_version="6.4")
    return [float(text.replace("−", "-")) for text in _texts(graph, [])]


EVIDENCE = {name: library_profile(f"spec-bench-sps-vicuna-7b-{name}") for name in ("math", "rag")}
MENUS, PLACES = ("hardware", "method", "precision", "step_time"), ("batch", "context", "evidence")
LENGTHS = (0, 1, 4, MAX_DRAFT_LENGTH)


def _config(target: str, draft: str, devices: tuple[str, ...], **changes: Any) -> ExplorerConfig:
    hardware = tuple(map(catalogue_device, devices))
    return ExplorerConfig(target=model(target), draft=model(draft), hardware=hardware, evidence=EVIDENCE, **changes)


def _settings(config: ExplorerConfig) -> list[dict[str, Any]]:
    """Every method, weight format, step time and device; batch, context and evidence change along with them."""
    menus = ([profile.name for profile in config.hardware], config.methods, config.precisions, STEP_TIMES)
    places = itertools.cycle([(1, 512, "math"), (37, 4096, "rag"), (256, 128, "rag"), (8, 32768, "math")])
    return [
        dict(zip(MENUS, choice, strict=True)) | dict(zip(PLACES, place, strict=True))
        for choice, place in zip(itertools.product(*menus), places, strict=False)
    ]


def _page_rows(config: ExplorerConfig, settings: list[dict[str, Any]]) -> Floats:
    """Outputs at every setting and draft length, evaluated by Vega: (settings, lengths, outputs)."""
    rows = [
        {field: at[parameter] for field, parameter in SETTINGS.items()} | {"K": length, "id": index}
        for index, (at, length) in enumerate(itertools.product(settings, LENGTHS))
    ]
    fields = {name: text for name, text in page_fields(config).items() if name not in SETTINGS}
    printed = " + ' ' + ".join(f"format(datum.{name}, '.17g')" for name in ("id", *OUTPUTS))
    calculates = [{"calculate": text, "as": name} for name, text in (fields | {"printed": printed}).items()]
    spec = {
        "data": {"values": rows},
        "transform": calculates,
        "mark": "text",
        "encoding": {"text": {"field": "printed"}},
    }
    texts = _texts(vl_convert.vegalite_to_scenegraph(spec, vl_version="6.4"), [])
    values = np.array([text.replace("−", "-").split() for text in texts], dtype=float)
    assert values[:, 0].tolist() == list(range(len(rows)))
    return values[:, 1:].reshape(len(settings), len(LENGTHS), len(OUTPUTS))


def _numpy_rows(config: ExplorerConfig, settings: list[dict[str, Any]]) -> Floats:
    """The same by numpy, from the functions that the live Explorer calls."""
    lengths = np.array(LENGTHS, dtype=float)
    return np.array([_numpy_row(config, at, lengths) for at in settings])


def _numpy_row(config: ExplorerConfig, at: dict[str, Any], lengths: Floats) -> Floats:
    tokens = tokens_for_draft_length(lengths, marginals(config)[at["evidence"]])
    pair, batch, context = drafting_pair(config, at, lengths), float(at["batch"]), float(at["context"])
    times = round_times(lengths, lengths, batch, context, tokens, pair)
    needed = memory_bytes(lengths, batch, context, pair)
    columns = (tokens, 1e3 * times.tpot_s, 1e3 * times.baseline_tpot_s, times.speedup, needed)
    return np.stack(np.broadcast_arrays(*columns), axis=-1)


@pytest.mark.parametrize(
    ("target", "draft", "devices", "changes"),
    [
        ("Vicuna-7B-v1.3", "Llama-68M", ("h100-sxm5", "l4", "m3-max", "sapphire-rapids"), {}),
        ("Mixtral-8x7B", "Llama-3.2-1B", ("a100-sxm4-80gb", "b200-sxm", "mi300x"), {}),
        ("DeepSeek-V2-Lite", "Qwen2.5-0.5B", ("h200-sxm", "l40s", "genoa"), {"draft_precision": "fp8"}),
        ("Qwen3-30B-A3B", "Qwen3-0.6B", ("l4", "h200-sxm"), {"precisions": ("q8_0", "fp32", "q4_k")}),
        ("Llama-3.1-70B", "Llama-3.2-3B", ("m3-ultra",), {"precisions": ("q4_k",), "methods": ("draft_model",)}),
    ],
)
def test_page_fields_equal_numpy_for_every_choice(
    target: str, draft: str, devices: tuple[str, ...], changes: dict[str, Any]
) -> None:
    config = _config(target, draft, devices, **changes)
    settings = _settings(config)
    page, expected = _page_rows(config, settings), _numpy_rows(config, settings)
    assert len(settings) == len(devices) * len(config.methods) * len(config.precisions) * 2
    np.testing.assert_allclose(page, expected, rtol=1e-12)
    np.testing.assert_array_equal(page[:, 0, 3], 1.0)  # without a draft nothing changes, to the last bit


@pytest.mark.parametrize("step_time", ["calibrated", "ideal"])
@pytest.mark.parametrize("method", ["draft_model", "medusa", "lookahead"])
def test_page_with_its_controls_equals_numpy(method: str, step_time: str) -> None:
    config = _config("Mixtral-8x7B", "Llama-3.2-1B", ("mi300x", "l4"))
    start = {"batch": 37, "context": 4096, "hardware": "mi300x", "evidence": "rag", "precision": "fp8"}
    explorer = Explorer(config, **start, method=method, step_time=step_time)
    lengths = np.arange(MAX_DRAFT_LENGTH + 1)
    values = vega_values(explorer.spec(), "speedup", "K")
    np.testing.assert_allclose(values, explorer.result(lengths).speedup, rtol=1e-12)
    needed = vega_values(explorer.spec(), "needed_bytes", "K")
    np.testing.assert_allclose(needed, explorer.memory_bytes(lengths), rtol=1e-12)


@pytest.mark.parametrize("length", range(1, 9))
def test_positions_page_equals_numpy(length: int) -> None:
    profile = library_profile("vllm-48892-mtp-k8")
    spec = positions_page({"a": profile, "b": profile_from_counts({1: [1, 1]})}, length).to_dict()
    for name, formula in (("tokens", tokens_for_draft_length), ("rate", draft_acceptance_rate)):
        values = vega_values(spec, name, "position")
        np.testing.assert_allclose(values, formula(length, profile.marginal_acceptance), rtol=1e-12)
    np.testing.assert_allclose(vega_values(spec, "marginal", "position"), profile.marginal_acceptance, rtol=1e-12)


def test_positions_page_refuses_evidence_without_positions() -> None:
    with pytest.raises(ValueError, match="evidence 'a' has no acceptance by position"):
        positions_page({"a": profile_from_counts({0: [3]})})
