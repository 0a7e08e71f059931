"""A stated size against the models of the library, which the rule was made from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbook.checks import BadInput
from specbook.names.stated_size import spec_of_size
from specbook.roofline.model_spec import model, model_names
from specbook.roofline.pass_cost import step_cost

DENSE = [
    name
    for name in model_names()
    if not (model(name).is_mixture or model(name).n_linear_layers) and model(name).n_parameters > 1.5e9
]


@pytest.mark.parametrize("name", DENSE)
def test_dense_models_of_the_library_are_as_near_as_documented(name: str):
    spec = model(name)
    plain = spec_of_size(f"{spec.n_parameters / 1e9:.4f}B")
    assert plain.n_parameters == pytest.approx(spec.n_parameters, rel=1e-3)
    assert 0.65 < spec.hidden_size / plain.hidden_size < 1.1
    assert 0.9 <= spec.n_layers / plain.n_layers < 1.6
    read = [step_cost(each, "bf16").dense_weight_bytes for each in (spec, plain)]
    assert read[0] / read[1] == pytest.approx(1.0, abs=0.06)
    cache = spec.kv_bytes_per_token() / plain.kv_bytes_per_token()
    assert (0.38 < cache < 1.5) if spec.n_kv_heads < spec.n_heads else (4.0 < cache < 8.0)


@given(size=st.floats(0.3, 3000.0))
def test_dense_size_is_met(size: float):
    spec = spec_of_size(f"{size:.3f}B")
    assert spec.n_parameters == pytest.approx(1e9 * float(f"{size:.3f}"), rel=5e-3)


@given(active=st.floats(1.0, 60.0), ratio=st.floats(1.5, 40.0))
def test_mixture_holds_what_is_stated_and_uses_what_is_stated(active: float, ratio: float):
    spec = spec_of_size(f"{active * ratio:.2f}B-A{active:.2f}B")
    used = spec.n_parameters - spec.expert_parameters * (1 - spec.n_experts_per_token / spec.n_experts)
    assert spec.n_parameters == pytest.approx(1e9 * active * ratio, rel=0.06)
    assert used == pytest.approx(1e9 * active, rel=0.02)


def test_stated_size_says_so_in_its_name():
    assert spec_of_size("13b").name == "13B (stated size)"


@pytest.mark.parametrize("text", ["", "big", "13", "13M", "0.01B", "9999B", "3B-A30B", "13B-A0B", "-13B", "1e3B"])
def test_what_is_no_size_is_refused(text: str):
    with pytest.raises(BadInput, match=r"target = .*is no size"):
        spec_of_size(text)
