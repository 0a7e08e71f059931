"""llama.cpp ``GGML_BATCH_COSTS``: the cost of one token in a batch of n, relative to a batch of one.

As the environment variable, a pasted C or Python array, a JSON list, or numbers between blanks. The pass over n
positions takes n × cost times the pass over one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile
from typing import Any, Literal

from specbook.checks import BadInput
from specbook.hardware.readers.rows import Document, Readout, StepTimeRow
from specbook.hardware.readers.values import numeral, positive
from specbook.hardware.step_times import Cell

NAME = "llama-batch-costs"
ENGINE: str | None = "llama.cpp"
MEASURES: Literal["pass", "round"] = "pass"

# A batch in which a token costs this much more than alone would never be made of one.
_HIGHEST = 2.0
_LONGEST = 4096
_NAMED = re.compile(r"(?is)\b(?:ggml_)?batch_costs\b\s*+(?:\[[^\]\n]{0,40}\]\s*+)?+=\s*+(?P<array>.*)")
_LINE_COMMENT = re.compile(r"//[^\n]*|#[^\n]*")
_ONLY_NUMBERS = re.compile(r"(?:[\d\s.,;ef+{}()\[\]-]|nan|inf|null)*+", re.ASCII | re.IGNORECASE)
_CLOSING = {'"': '"', "'": "'", "{": "}", "[": "]", "(": ")"}
_NOTES = [
    "the array does not say at which context it was measured",
    "costs are relative: multiply by the time of one pass over one position",
]


def recognises(document: Document) -> bool:
    """Whether the document is a list of numbers, or names the array."""
    if document.records:
        return isinstance(document.records[0].value, int | float) and not isinstance(document.records[0].value, bool)
    text = _joined(document)
    if _NAMED.search(text) is not None:
        return True
    bare = _without_comments(text)
    return _ONLY_NUMBERS.fullmatch(bare) is not None and re.search(r"\d", bare) is not None


def read(document: Document) -> Readout:
    """One relative time for each width."""
    where = document.name
    costs = [_cost(value, where, n) for n, value in enumerate(_values(document), start=1)]
    _check(costs, where)
    rows = [
        StepTimeRow(where=f"{where}: n = {n}", cell=Cell(None, 1, n), seconds=n * cost, unit="relative")
        for n, cost in enumerate(costs, start=1)
    ]
    return Readout(rows=rows, notes=list(_NOTES))


def _values(document: Document) -> Iterator[Any]:
    if document.records:
        yield from (record.value for record in document.records)
        return
    for n, word in enumerate(_words(_joined(document), document.name), start=1):
        yield numeral(re.sub(r"(?<=[\d.])[fF]$", "", word), document.name, f"cost of n = {n}")


def _joined(document: Document) -> str:
    """The text, with the lines that a shell continues in one."""
    return "\n".join(document.lines).replace("\\\n", " ")


def _without_comments(text: str) -> str:
    pieces = _LINE_COMMENT.sub("", text).split("/*")
    return pieces[0] + "".join(piece.partition("*/")[2] for piece in pieces[1:])


def _words(text: str, where: str) -> list[str]:
    """What stands between the brackets or quotes, in words."""
    named = _NAMED.search(text)
    array = _without_comments(text if named is None else named["array"]).strip()
    opening = array[:1]
    if opening in _CLOSING:
        array, closing, _ = array[1:].partition(_CLOSING[opening])
        if not closing:
            raise BadInput(f"the array that {opening} opens is not closed", file=where, remedy="copy it again")
    elif named is not None:
        array = "".join(takewhile(lambda character: not character.isspace(), array))
    return [word for word in re.split(r"[\s,;]+", array) if word]


def _cost(value: Any, where: str, n: int) -> float:
    name = f"cost of n = {n}"
    cost = positive(value, where, name)
    if cost > _HIGHEST:
        raise BadInput(
            "is the cost of one token in a batch of n, relative to a batch of one, and never so high",
            file=where,
            field=name,
            value=value,
            remedy="divide times of whole passes by n; a table of times needs a header: batch,context,width,seconds",
        )
    if n > _LONGEST:
        raise BadInput(f"more than {_LONGEST} costs", file=where, field=name, remedy="this is another kind of file")
    return cost


def _check(costs: list[float], where: str) -> None:
    """Raise unless the first is 1 and some batch pays."""
    if not costs or abs(costs[0] - 1.0) > 1e-3:
        problem, remedy = "must be 1, the cost of one token by itself", "divide all costs by the first"
        raise BadInput(problem, file=where, field="cost of n = 1", value=costs[0] if costs else None, remedy=remedy)
    if len(costs) < 2:
        problem, remedy = "holds one cost, and a curve needs at least two", "export the array again"
        raise BadInput(problem, file=where, remedy=remedy)
    if min(costs[1:]) > 1.0:
        problem = "no batch makes a token cheaper: these are times of whole passes"
        raise BadInput(problem, file=where, field="cost of n = 2", value=costs[1], remedy="divide each by its n")
