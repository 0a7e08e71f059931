"""Vega expressions: built by the formulas themselves, with names that stay data."""

from __future__ import annotations

import json

import altair as alt
import pytest

from specbook.display.formula import VEGA, Fields, chosen, lookup

HOSTILE = [
    'a"b',
    "a'b",
    "a\\",
    'a\\"b',
    "</script><script>alert(1)</script>",
    '"})[0];alert(1);({"',
    "a\nb",
    "a\u2028b",
    "a\u202eb",
    "模型",
    "datum.K",
    "",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_lookup_hostile_name_stays_one_key(name: str):
    text = lookup({name: 1.5, "other": 2.0}, "hardware")
    assert text.startswith("(")
    assert text.endswith(")[hardware]")
    assert json.loads(text[1 : -len(")[hardware]")]) == {name: 1.5, "other": 2.0}
    assert text.isascii()
    assert len(text.splitlines()) == 1


def test_lookup_floats_are_read_back_exactly():
    values = {"a": 0.1 + 0.2, "b": 1e-320, "c": 1.7976931348623157e308, "d": 3}
    assert json.loads(lookup(values, "x")[1:-4]) == values


@pytest.mark.parametrize("name", HOSTILE)
def test_lookup_hostile_name_and_text_stay_data_at_every_level(name: str):
    column = {"a": {name: name, "other": "text"}, name: {name: "", "other": name}}
    text = lookup(column, "datum.hardware", "datum.precision")
    assert json.loads(text.removeprefix("(").removesuffix(")[datum.hardware][datum.precision]")) == column
    assert text.isascii()
    assert len(text.splitlines()) == 1


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_lookup_not_finite_is_refused(value: float):
    with pytest.raises(ValueError, match="not JSON compliant"):
        lookup({"a": value}, "x")
    with pytest.raises(ValueError, match="not JSON compliant"):
        lookup({"a": {"b": value}}, "x", "y")


def test_vega_namespace_writes_the_functions_of_the_page():
    a, b = alt.datum.a, alt.datum.b
    assert str(VEGA.maximum(a, b)) == "max(datum.a,datum.b)"
    assert str(VEGA.power(a, 2.0)) == "pow(datum.a,2.0)"
    assert str(VEGA.where(a >= 1, b, 0.0)) == "if((datum.a >= 1),datum.b,0.0)"


def test_chosen_of_one_option_is_that_option():
    assert chosen(alt.datum.method, {"ngram": 2.0}) == 2.0


def test_fields_hold_an_expression_once_and_a_name_once():
    fields = Fields()
    first = fields.keep("a", alt.datum.K * 2)
    assert str(fields.keep("b", alt.datum.K * 2)) == str(first) == "datum.a"
    with pytest.raises(ValueError, match="a field 'a' holds another expression"):
        fields.keep("a", alt.datum.K * 3)


def test_fields_needed_come_in_order_and_without_the_rest():
    fields = Fields()
    a = fields.keep("a", "batch")
    fields.keep("unused", alt.datum.a * 2)
    b = fields.keep("b", a + 1)
    fields.keep("ab", "context")
    fields.keep("c", b * a)
    assert list(fields.needed(["c"])) == ["a", "b", "c"]
    assert list(fields.needed(["ab"])) == ["ab"]
