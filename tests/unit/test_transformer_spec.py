"""Shapes of a transformer, and sizes that are none."""

from __future__ import annotations

import pytest

from specbook.engine.transformer_spec import TransformerSpec
from tests.tiny_models import SIZES, tiny_spec


def test_parameters_are_the_sum_over_shapes():
    total = sum(shape[0] * (shape[1] if len(shape) > 1 else 1) for shape in tiny_spec().shapes().values())
    assert tiny_spec().n_parameters == total


def test_query_key_value_holds_all_heads_as_rows():
    assert tiny_spec().shapes()["layers.1.query_key_value"] == ((6 + 2 * 2) * 4, 24)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        *(({name: 0}, rf"{name} must be whole and at least 1; got 0\.0") for name in SIZES),
        ({"n_kv_heads": 4}, r"n_kv_heads must divide n_heads = 6; got 4"),
        ({"head_size": 3}, r"head_size must be even, for rotary positions; got 3"),
        ({"n_layers": 2.0}, r"n_layers must be a number of type int; got 2\.0"),
        ({"n_layers": "2"}, r"n_layers must be a number of type int; got '2'"),
        ({"n_layers": True}, r"n_layers must be a number of type int; got True"),
        ({"rope_theta": "10000"}, r"rope_theta must be a number of type int \| float; got '10000'"),
        ({"rope_theta": 0.0}, r"rope_theta must be greater than 0; got 0\.0"),
        ({"norm_epsilon": float("nan")}, r"norm_epsilon must be finite; got nan"),
    ],
)
def test_impossible_size_is_refused(changes: dict[str, object], message: str):
    with pytest.raises(ValueError, match=rf"^{message}$"):
        TransformerSpec(**(SIZES | changes))
