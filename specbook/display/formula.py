"""A namespace that builds Vega expressions, so that one Python function serves numpy and the published page.

A formula written over ``xp`` gives arrays with numpy and, with :data:`VEGA` and fields of :data:`altair.datum`, the
text of an expression that the page evaluates. Python's shortest float form is read back exactly by JavaScript, and
both compute in IEEE double precision.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import altair as alt


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


def lookup(column: Mapping[str, float], parameter: str) -> str:
    """Expression for an entry of a constant table, with the row chosen by a parameter of the chart.

    Names are written as JSON strings, so that no name can end the expression.

    Examples
    --------
    >>> lookup({"l4": 2.4e11, "l40s": 6.7e11}, "hardware")
    '({"l4":240000000000.0,"l40s":670000000000.0})[hardware]'
    """
    numbers = {name: float(value) for name, value in column.items()}
    return f"({json.dumps(numbers, separators=(',', ':'), allow_nan=False)})[{parameter}]"
