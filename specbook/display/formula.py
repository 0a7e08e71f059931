"""A namespace that builds Vega expressions, so that one Python function serves numpy and the published page.

A formula written over ``xp`` gives arrays with numpy and, with :data:`VEGA` and fields of :data:`altair.datum`, the
text of an expression that the page evaluates. Python's shortest float form is read back exactly by JavaScript, and
both compute in IEEE double precision.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import altair as alt

Column = Mapping[str, "float | str | Column"]


class VegaNamespace:
    """The functions of numpy that the formulas use, as Vega expressions.

    Examples
    --------
    >>> str(VEGA.maximum(alt.datum.a, 2.0 * alt.datum.b))
    'max(datum.a,(2.0 * datum.b))'
    """

    @staticmethod
    def maximum(left: Any, right: Any) -> Any:
        """The larger of two."""
        return alt.expr.max(left, right)

    @staticmethod
    def power(base: Any, exponent: Any) -> Any:
        """``base`` to the ``exponent``."""
        return alt.expr.pow(base, exponent)

    @staticmethod
    def ceil(value: Any) -> Any:
        """The next whole number."""
        return alt.expr.ceil(value)

    @staticmethod
    def where(condition: Any, yes: Any, no: Any) -> Any:
        """``yes`` where the condition holds, else ``no``."""
        return alt.expr.if_(condition, yes, no)


VEGA = VegaNamespace()


def chosen(key: Any, options: Mapping[str, Any]) -> Any:
    """The option that ``key`` names, the last if it names none; the page evaluates no other.

    Parameters
    ----------
    key : expression
        Gives one of the names.
    options : mapping of str to number or expression
        At least one.

    Examples
    --------
    >>> str(chosen(alt.datum.method, {"eagle": alt.datum.a, "mtp": 2.0, "ngram": 0.0}))
    "if((datum.method === 'eagle'),datum.a,if((datum.method === 'mtp'),2.0,0.0))"
    """
    *names, last = options
    found = options[last]
    for name in reversed(names):
        found = VEGA.where(key == name, options[name], found)
    return found


def lookup(column: Column, *keys: str) -> str:
    """Expression for an entry of a constant table, with the row chosen by parameters of the chart or by fields.

    Names are written as JSON strings, so that no name can end the expression.

    Parameters
    ----------
    column : mapping of str to float, str or a further mapping
        As deep as there are keys.
    *keys : str
        What gives the name at each level: a parameter's name, or ``datum.`` and a field's.

    Raises
    ------
    ValueError
        If a number is not finite.

    Examples
    --------
    >>> lookup({"l4": 2.4e11, "l40s": 6.7e11}, "hardware")
    '({"l4":240000000000.0,"l40s":670000000000.0})[hardware]'
    >>> lookup({"l4": {"bf16": 2, "fp8": 1}}, "hardware", "precision")
    '({"l4":{"bf16":2.0,"fp8":1.0}})[hardware][precision]'
    """
    text = json.dumps(_entries(column), separators=(",", ":"), allow_nan=False)
    return f"({text})" + "".join(f"[{key}]" for key in keys)


def _entries(column: Column | float | str) -> Any:
    if isinstance(column, Mapping):
        return {name: _entries(value) for name, value in column.items()}
    return column if isinstance(column, str) else float(column)


class Fields:
    """Calculated fields of a chart's rows, in order: an expression that several formulas share is written once.

    Examples
    --------
    >>> fields = Fields()
    >>> width = fields.keep("width", alt.datum.K + 1)
    >>> str(fields.keep("again", alt.datum.K + 1))
    'datum.width'
    >>> _ = fields.keep("square", width * width)
    >>> fields.needed(["square"])
    {'width': '(datum.K + 1)', 'square': '(datum.width * datum.width)'}
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}  # expression → field

    def keep(self, name: str, expression: Any) -> Any:
        """The field that holds an expression: one that already does, else a new one of this name.

        Raises
        ------
        ValueError
            If another expression has the name.
        """
        text = str(expression)
        if text not in self._names:
            if name in self._names.values():
                raise ValueError(f"a field {name!r} holds another expression")
            self._names[text] = name
        return getattr(alt.datum, self._names[text])  # shorter text than an item's

    def needed(self, outputs: Iterable[str]) -> dict[str, str]:
        """Fields and their expressions: ``outputs``, and whatever those read."""
        wanted, found = set(outputs), {}
        for text, name in reversed(self._names.items()):
            if name in wanted:
                found[name] = text
                wanted |= set(re.findall(r"\bdatum\.(\w+)", text))
        return dict(reversed(found.items()))
