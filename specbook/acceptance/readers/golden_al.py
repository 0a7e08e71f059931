"""InferenceX's golden acceptance lengths: YAML of model → thinking mode → draft length → mean length (inferencex2026).

A length is 1 + accepted tokens ÷ drafts over one benchmark run for each draft length, the bonus token included, rounded
to two digits; it need not rise with the draft length. Sampling, data set, method and draft model stand in comments
alone, so the comments are read; what they do not say stays unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import yaml

from specbook.acceptance.readers.observation import Observation
from specbook.acceptance.readers.values import LONGEST_DRAFT, number, numeral, whole
from specbook.checks import BadInput

NAME = "inferencex-golden-al"
WARNINGS = ("published lengths are rounded to two digits",)
CUMULATIVE = False

T = TypeVar("T")

_LARGEST_BYTES = 2**20
_DEEPEST = 8

_MODE_LINE = re.compile(r"""(?:^|[\s{,])["']?thinking_(?:on|off)["']?\s*:\s*(?:\{\s*["']?\d|\{?\s*(?:\#.*)?$)""")
_TEMPERATURE = re.compile(r"\btemp(?:erature)?\b\s*[:=]?\s*(\d{1,3}(?:\.\d{1,6})?)(?![\d.])", re.IGNORECASE)
_MODE = re.compile(r"#\s*(thinking_\w+)\b", re.IGNORECASE)
_DATASET = re.compile(r"\bdataset\s*[:=]\s*([^\s|,;]+)", re.IGNORECASE)
_METHOD = re.compile(
    r"\([^()]*\bvLLM\s+([A-Za-z][\w-]*)|\bmethod\s*=\s*([A-Za-z][\w-]*)|\(([A-Za-z][\w-]*) level\)", re.IGNORECASE
)
_DRAFTER = re.compile(r"\bdraft(?:\s+model)?\s*:\s*([^\s,()|]+)", re.IGNORECASE)
_SAMPLING = re.compile(r"\b(?:draft|rejection)_sample_method\s*=\s*[\w-]+")
_METHODS = {"nextn": "mtp", "eagle-3": "eagle3"}


def recognises_line(line: str) -> bool:
    """Whether the line opens the lengths of a thinking mode; a comment does not."""
    return "thinking_o" in line and not line.lstrip().startswith("#") and _MODE_LINE.search(line) is not None


def read_lines(lines: Iterable[str], where: str) -> Iterator[Observation]:
    """Yield one run for each model, thinking mode and draft length."""
    document = _text_of(lines, where)
    comments = [line.strip() for line in document.splitlines() if line.lstrip().startswith("#")]
    models = _mapping(_parsed(document, where), where, "the document")
    stated = _labels(comments, _mapping(models.pop("_metadata", {}), where, "_metadata"))
    temperatures, notes = _temperatures(comments), _notes(comments)
    rejection = next((note.rpartition("=")[2] for note in notes if note.startswith("rejection")), None)
    if rejection is not None and "method" in stated:  # another law of acceptance, so another thing measured
        stated["method"] += f", {rejection} rejection"
    for model, modes in models.items():
        for mode, lengths in _mapping(modes, where, model).items():
            labels = stated | {"target": model, "run": mode.replace("_", "-")}
            temperature = temperatures.get(mode.casefold(), temperatures.get(""))
            if temperature is not None:
                labels["temperature"] = temperature
            yield from _lengths(lengths, where, f"{model}.{mode}", labels, notes)


def _text_of(lines: Iterable[str], where: str) -> str:
    kept, size = [], 0
    for line in lines:
        kept.append(line)
        size += len(line) + 1
        if size > _LARGEST_BYTES:
            raise BadInput("more than 1 MiB of YAML", file=where, remedy="a table of lengths has a few kilobytes")
    return "\n".join(kept)


def _parsed(document: str, where: str) -> Any:
    """The document as mappings and words; nothing is made into objects, and what is no small table is refused."""
    levels: list[list[Any]] = [[]]
    try:
        for event in yaml.parse(document, Loader=yaml.SafeLoader):
            if getattr(event, "anchor", None) is not None:
                raise _no_table("has anchors or aliases", event.start_mark, where)
            if isinstance(event, yaml.ScalarEvent):
                levels[-1].append(event.value)
            elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
                levels.append([])
                if len(levels) > _DEEPEST:
                    raise _no_table("is nested too deeply", event.start_mark, where)
            elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
                items = levels.pop()
                mapping = isinstance(event, yaml.MappingEndEvent)
                levels[-1].append(_paired(items, event.start_mark, where) if mapping else items)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise _no_table(f"is no YAML ({str(error).splitlines()[0]})", mark, where) from None
    if len(levels[0]) != 1:
        raise _no_table("holds more than one document", None, where)
    return levels[0][0]


def _paired(items: list[Any], mark: Any, where: str) -> dict[str, Any]:
    """A mapping from its keys and values as they alternate; each key is a word, and stands once."""
    keys = items[::2]
    if not all(isinstance(key, str) for key in keys) or len({*keys}) < len(keys):
        raise _no_table("has a key twice, or one that is no word, before the end", mark, where)
    return dict(zip(keys, items[1::2], strict=True))


def _no_table(problem: str, mark: Any, where: str) -> BadInput:
    place = where if mark is None else f"{where} line {mark.line + 1}"
    return BadInput(problem, file=place, remedy="write a plain table: model → thinking mode → draft length → length")


def _mapping(value: Any, where: str, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        remedy = "write a plain table: model → thinking mode → draft length → length"
        raise BadInput("must be a mapping", file=where, field=name, value=value, remedy=remedy)
    return value


def _lengths(node: Any, where: str, name: str, labels: dict[str, Any], notes: tuple[str, ...]) -> Iterator[Observation]:
    for spelled, value in _mapping(node, where, name).items():
        field = f"{name}.{spelled}"
        draft_length = whole(numeral(spelled, where, field), where, field, minimum=1)
        if draft_length > LONGEST_DRAFT:
            raise BadInput("is no draft length", file=where, field=field, remedy="export it again")
        if not isinstance(value, str):
            raise BadInput("must be a number", file=where, field=field, value=value, remedy="one length for each K")
        if value.casefold() not in ("", "~", "null"):  # such a length was not measured
            length = numeral(value, where, field)
            yield Observation(
                labels=labels | {"draft_length": draft_length},
                is_request=False,
                mean_acceptance_length=number(length, where, field, minimum=1.0, maximum=draft_length + 1.0),
                notes=notes,
            )


def _labels(comments: list[str], metadata: dict[str, Any]) -> dict[str, Any]:
    """What comments say of the whole file; the draft model may also stand under ``_metadata``."""
    methods = [next(filter(None, match.groups())).casefold() for line in comments for match in _METHOD.finditer(line)]
    drafters = {*_found(_DRAFTER, comments), metadata.get("draft-model")}
    labels = {
        "domain": _only({*_found(_DATASET, comments)}),
        "method": _only({_METHODS.get(method, method) for method in methods}),
        "drafter": _only({name for name in drafters if isinstance(name, str) and name}),
    }
    return {name: value for name, value in labels.items() if value is not None}


def _found(pattern: re.Pattern[str], comments: list[str]) -> list[str]:
    return [match[1] for line in comments for match in pattern.finditer(line)]


def _temperatures(comments: list[str]) -> dict[str, float | None]:
    """Temperature by thinking mode, from comments that begin with one; under "" what is said of all."""
    stated: dict[str, set[float]] = {}
    for line in comments:
        about = _MODE.match(line)
        mode = "" if about is None else about[1].casefold()
        for spelled in _found(_TEMPERATURE, [line]):
            stated.setdefault(mode, set()).add(float(spelled))
    return {mode: _only(values) for mode, values in stated.items()}


def _only(values: set[T]) -> T | None:
    """The value that all comments agree on; None where they say nothing, or two things."""
    return next(iter(values)) if len(values) == 1 else None


def _notes(comments: list[str]) -> tuple[str, ...]:
    """How drafts were sampled and rejected, which moves acceptance as much as temperature does."""
    found = {re.sub(r"\s*", "", match[0]): None for line in comments for match in _SAMPLING.finditer(line)}
    return tuple(found)
