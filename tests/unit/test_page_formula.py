"""The page's expressions, evaluated by Vega itself without a browser, equal numpy to 1e-12."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import vl_convert

from specbook.acceptance.library import library_profile
from specbook.acceptance.profile import profile_from_counts
from specbook.acceptance.yields import draft_acceptance_rate, tokens_for_draft_length
from specbook.display.explorer import Explorer
from specbook.display.explorer_page import MAX_DRAFT_LENGTH, ExplorerConfig
from specbook.display.positions_page import positions_page
from specbook.hardware.profile import catalogue_device
from specbook.roofline.model_spec import model


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


def _vega_values(spec: dict[str, Any], field: str, x: str) -> list[float]:
    """Print a field of every row as a text mark with all its digits, and read the drawing."""
    text = {"field": field, "type": "quantitative", "format": ".17g"}
    layer = {"mark": "text", "encoding": {"x": {"field": x, "type": "quantitative"}, "text": text}}
    bare = {key: spec[key] for key in ("$schema", "data", "datasets", "params", "transform") if key in spec}
    bare["params"] = [{"name": p["name"], "value": p["value"]} for p in spec["params"]]
    graph = vl_convert.vegalite_to_scenegraph(bare | {"layer": [layer]}, vl_version="6.4")
    return [float(text.replace("−", "-")) for text in _texts(graph, [])]


@pytest.mark.parametrize(
    ("target", "draft", "precision", "device"),
    [
        ("Vicuna-7B-v1.3", "Llama-68M", "bf16", "h100-sxm5"),
        ("Mixtral-8x7B", "Llama-3.2-1B", "fp8", "mi300x"),
        ("Qwen3-30B-A3B", "Qwen3-0.6B", "int4", "genoa"),
        ("Llama-3.1-70B", "Llama-3.2-3B", "q4_k", "m3-ultra"),
    ],
)
@pytest.mark.parametrize(("batch", "context"), [(1, 512), (37, 4096), (256, 32768)])
def test_page_formula_equals_numpy(
    target: str, draft: str, precision: str, device: str, batch: int, context: int
) -> None:
    evidence = {name: library_profile(f"spec-bench-sps-vicuna-7b-{name}") for name in ("math", "rag")}
    pair = {"target": model(target), "draft": model(draft), "precision": precision}
    hardware = (catalogue_device(device), catalogue_device("l4"))
    config = ExplorerConfig(**pair, hardware=hardware, evidence=evidence)
    explorer = Explorer(config, batch=batch, context=context, hardware=device, evidence="rag")
    expected = explorer.result(np.arange(MAX_DRAFT_LENGTH + 1)).speedup
    np.testing.assert_allclose(_vega_values(explorer.spec(), "speedup", "K"), expected, rtol=1e-12)


@pytest.mark.parametrize("length", range(1, 9))
def test_positions_page_equals_numpy(length: int) -> None:
    profile = library_profile("vllm-48892-mtp-k8")
    spec = positions_page({"a": profile, "b": profile_from_counts({1: [1, 1]})}, length).to_dict()
    for name, formula in (("tokens", tokens_for_draft_length), ("rate", draft_acceptance_rate)):
        values = _vega_values(spec, name, "position")
        np.testing.assert_allclose(values, formula(length, profile.marginal_acceptance), rtol=1e-12)
    np.testing.assert_allclose(_vega_values(spec, "marginal", "position"), profile.marginal_acceptance, rtol=1e-12)


def test_positions_page_refuses_evidence_without_positions() -> None:
    with pytest.raises(ValueError, match="evidence 'a' has no acceptance by position"):
        positions_page({"a": profile_from_counts({0: [3]})})
