"""The metrics page of a vLLM server (``/metrics``), in Prometheus text: counters since the server started.

``vllm:spec_decode_num_accepted_tokens_per_pos{position="i"}`` counts rounds that accepted draft positions up to
``i``, from 0, so shares of it are marginal. Engines of one model are summed (vllm24049); models stay apart.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from specbook.acceptance.readers import vllm_counters
from specbook.acceptance.readers.observation import Observation
from specbook.acceptance.readers.values import length_key, text, whole
from specbook.acceptance.readers.vllm_counters import Counters
from specbook.checks import BadInput

NAME = "vllm-prometheus"
WARNINGS = (
    *vllm_counters.WARNINGS,
    "the counters run since the server started: warm-up and all clients are in them",
)
CUMULATIVE = True

_ROUNDS, _DRAFTED, _ACCEPTED, _BY_POSITION = _COUNTERS = (
    "num_drafts",
    "num_draft_tokens",
    "num_accepted_tokens",
    "num_accepted_tokens_per_pos",
)
# Ray, which allows no colon in a name, writes ray_vllm_.
_BEGINNINGS = ("vllm:spec_decode_num_", "ray_vllm_spec_decode_num_", "ray_vllm:spec_decode_num_")
_NAME = re.compile(rf"(?:ray_)?vllm[:_]spec_decode_({'|'.join(_COUNTERS)})(?:_total)?(?=[{{\s])")
# Behind the value may stand a time and an example.
_SAMPLE = re.compile(r"""(?:\{(?P<labels>(?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?\s+(?P<value>\S+)(?:\s.*)?""")
_NUMBER = re.compile(r"-?\d+(?:\.\d*)?(?:[eE][+-]?\d{1,3})?")
_LABEL = re.compile(r"""(?<!\w)([a-zA-Z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)\"""")
_ESCAPED = {r"\\": "\\", r"\"": '"', r"\n": "\n"}
_MOST_SERIES = 100_000


@dataclass
class _Model:
    """Sums over the engines of one model."""

    totals: Counter[str] = field(default_factory=Counter)
    by_position: Counter[int] = field(default_factory=Counter)


def recognises_line(line: str) -> bool:
    """Whether the line is a sample of vLLM's counters of speculation."""
    return line.lstrip().startswith(_BEGINNINGS) and _NAME.match(line.lstrip()) is not None


def read_lines(lines: Iterable[str], where: str) -> Iterator[Observation]:
    """Yield the totals of each model."""
    models: dict[str | None, _Model] = {}
    seen: set[tuple[str, str]] = set()
    for number, line in enumerate(lines, start=1):
        counter = _NAME.match(line.lstrip()) if line.lstrip().startswith(_BEGINNINGS) else None
        if counter is not None:
            _add(models, seen, counter[1], line.strip()[counter.end() :], f"{where} line {number}")
    for name, model in models.items():
        yield _observation(name, model, where)


def _add(models: dict[str | None, _Model], seen: set[tuple[str, str]], counter: str, rest: str, where: str) -> None:
    sample = _SAMPLE.fullmatch(rest)
    if sample is None:
        raise BadInput("is no sample", file=where, field=counter, value=rest, remedy="save the page as it is")
    labels = {key: _unescaped(value) for key, value in _LABEL.findall(sample["labels"] or "")}
    series = (counter, repr(sorted(labels.items())))
    if series in seen or len(seen) >= _MOST_SERIES:
        problem = "stands twice" if series in seen else f"more than {_MOST_SERIES} series"
        remedy = "two pages in one file count the same rounds; keep the last"
        raise BadInput(problem, file=where, field=counter, value=rest, remedy=remedy)
    seen.add(series)
    model = models.setdefault(text(labels.get("model_name"), where, "model_name"), _Model())
    value = _value(sample["value"], where, counter)
    if counter == _BY_POSITION:
        model.by_position[length_key(labels.get("position", ""), where, f"{counter} position")] += value
    else:
        model.totals[counter] += value


def _unescaped(value: str) -> str:
    return re.sub(r"""\\[\\"n]""", lambda found: _ESCAPED[found[0]], value)


def _value(written: str, where: str, counter: str) -> int:
    """A count, which the page prints as a float."""
    value = float(written) if _NUMBER.fullmatch(written) else math.nan
    return whole(int(value) if value.is_integer() else written, where, counter)


def _observation(name: str | None, model: _Model, where: str) -> Observation:
    positions = sorted(model.by_position)
    if positions != list(range(len(positions))):
        missing = next(i for i, position in enumerate(positions) if position != i)
        problem = f"position {missing} is missing, counting from 0"
        raise BadInput(problem, file=where, field=_BY_POSITION, value=positions, remedy="save the whole page")
    return Counters(
        n_rounds=model.totals.get(_ROUNDS),
        n_drafted=model.totals.get(_DRAFTED),
        n_accepted=model.totals.get(_ACCEPTED),
        by_position=[float(model.by_position[position]) for position in positions],
        names=_COUNTERS,
        where=where,
    ).observation({} if name is None else {"target": name})
