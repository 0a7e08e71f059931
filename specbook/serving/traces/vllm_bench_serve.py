"""What ``vllm bench serve --save-result --save-detailed`` writes: one JSON document with a list for each quantity.

Requests are listed as they were made; they are put in order of when the client sent them. A request that failed has an
error, no output, or both. ``total_output_tokens`` is the sum of all outputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from specbook.checks import BadInput
from specbook.serving.lengths import MAX_TOKENS
from specbook.serving.traces.values import Row, refusal, ticks, tokens, tokens_back

NAME = "vllm-bench-serve"
SYNTAX = "document"
FIELDS = ("start_times", "input_lens", "output_lens")
TICKS_PER_S = 1

_ERRORS, _TOTAL = "errors", "total_output_tokens"
_SUMMARY = frozenset({"num_prompts", "completed", "duration"})


def recognises(names: frozenset[str]) -> bool:
    """Whether a document of these keys is a result of that benchmark, with details or without."""
    return names >= _SUMMARY or names >= frozenset(FIELDS)


def requests(document: dict[str, Any]) -> list[tuple[int, Sequence[Any]]]:
    """The values of each request, in order of their start, with its number from 1 in the file.

    Raises
    ------
    BadInput
        If the document has no details, or they contradict each other.

    Examples
    --------
    >>> requests({"start_times": [10.5, 10.0], "input_lens": [90, 33], "output_lens": [5, 4]})
    [(2, (10.0, 33, 4, '')), (1, (10.5, 90, 5, ''))]
    """
    starts, prompts, outputs = (_list(document, field) for field in FIELDS)
    errors = _list(document, _ERRORS) if document.get(_ERRORS) is not None else [""] * len(starts)
    lengths = {len(values) for values in (starts, prompts, outputs, errors)}
    if len(lengths) > 1:
        problem = f"lists {len(starts)} starts, {len(prompts)} prompts, {len(outputs)} outputs, {len(errors)} errors"
        raise BadInput(problem, remedy="the file was edited or damaged; run the benchmark again")
    _check_total(document.get(_TOTAL), outputs)
    rows = enumerate(zip(starts, prompts, outputs, errors, strict=True), start=1)
    return sorted(rows, key=lambda numbered: _order(numbered[1][0]))


def row(values: Sequence[Any]) -> Row:
    """One request."""
    start, prompt, output, error = values
    if error not in ("", None):
        raise refusal("says that the request failed", _ERRORS, error)
    return ticks(start, FIELDS[0]), tokens(prompt, FIELDS[1]), tokens_back(output, FIELDS[2])


def _list(document: dict[str, Any], field: str) -> list[Any]:
    if field not in document:
        raise BadInput("is missing", field=field, remedy="run vllm bench serve --save-result with --save-detailed")
    if not isinstance(document[field], list):
        raise BadInput("is no list", field=field, value=document[field], remedy="run the benchmark again")
    return list(document[field])


def _order(start: Any) -> int | float:
    """What is no time comes first, where it is refused as such."""
    is_number = isinstance(start, int | float) and not (isinstance(start, float) and math.isnan(start))
    return start if is_number else -math.inf


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and 0 <= value <= MAX_TOKENS


def _check_total(stated: Any, outputs: list[Any]) -> None:
    if isinstance(stated, int) and all(map(_is_count, outputs)) and stated != sum(outputs):
        problem = f"is not the sum of output_lens, {sum(outputs)}"
        remedy = "the file was edited or damaged; run the benchmark again"
        raise BadInput(problem, field=_TOTAL, value=stated, remedy=remedy)
