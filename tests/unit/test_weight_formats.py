"""Mixed weight formats against the block layouts that they are made of, and against sizes of published files."""

from __future__ import annotations

import pytest

from specbook.roofline.model_spec import PRECISIONS, model, precision

Q4_K, Q5_K, Q6_K = 8 * 144 / 256, 8 * 176 / 256, 8 * 210 / 256


def test_medium_four_bits_are_what_llama_cpp_mixes():
    """Half of the layers keep values and down-projections in Q6_K; the rest is Q4_K (Llama-3.1-8B, one layer)."""
    values, down, layer = 4096 * 1024, 4096 * 14336, 2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336
    mixed = Q4_K + 0.5 * (values + down) / layer * (Q6_K - Q4_K)
    assert 8 * precision("q4_k_m").layer_bytes == pytest.approx(mixed, rel=2e-3)


@pytest.mark.parametrize(
    ("name", "gib"),
    [("q4_k_s", 4.36), ("q4_k_m", 4.58), ("q5_k_m", 5.33), ("q6_k", 6.14), ("q8_0", 7.95), ("iq4_xs", 4.17)],
)
def test_file_of_llama_8b_has_its_published_size(name: str, gib: float):
    spec, embedding = model("Llama-3.1-8B"), {"q4_k_s": Q4_K, "q4_k_m": Q4_K, "q5_k_m": Q5_K, "iq4_xs": 8 * 136 / 256}
    narrower = spec.head_parameters * (
        8 * precision(name).head_bytes - embedding.get(name, 8 * precision(name).head_bytes)
    )
    assert (spec.weight_bytes(name) - narrower / 8) / 2**30 == pytest.approx(gib, abs=0.01)


@pytest.mark.parametrize(("name", "bits"), [("nvfp4", 4.5), ("mxfp4", 4.25), ("q4_0", 4.5), ("q6_k", Q6_K)])
def test_blocks_are_counted_with_their_scales(name: str, bits: float):
    assert 8 * precision(name).layer_bytes == bits


def test_formats_are_ordered_by_their_bits():
    kinds = ["q4_k", "q4_k_s", "q4_k_m", "q5_k_s", "q5_k_m", "q6_k", "q8_0"]
    widths = [PRECISIONS[kind].layer_bytes for kind in kinds]
    assert widths == sorted(widths)
