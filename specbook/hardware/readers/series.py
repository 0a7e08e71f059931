"""Several tables in one file: what each is called, and the one that was chosen."""

from __future__ import annotations

from collections.abc import Sequence

from specbook.checks import BadInput
from specbook.hardware.readers.rows import StepTimeRow

Labels = tuple[tuple[str, str], ...]

# Their values are names by themselves; others say what they are.
_PLAIN = {"series", "model", "hardware", "engine"}
_MOST_LISTED = 20


def one_series(rows: Sequence[StepTimeRow], wanted: str | None, where: str) -> list[StepTimeRow]:
    """Rows of the only series, or of the chosen one.

    Parameters
    ----------
    rows : sequence of StepTimeRow
        At least one.
    wanted : str or None
        A name of :func:`series_names`, upper or lower case, or a part of one that only one has.
    where : str
        The file, for error messages.

    Raises
    ------
    BadInput
        If there are several and none or no single one was chosen.

    Examples
    --------
    >>> from specbook.hardware.step_times import Cell
    >>> rows = [
    ...     StepTimeRow(where="a.csv line 2", cell=Cell(None, 1, 1), seconds=seconds, labels={"model": model})
    ...     for model, seconds in (("7B", 0.012), ("1B", 0.004))
    ... ]
    >>> [row.seconds for row in one_series(rows, "1b", "a.csv")]
    [0.004]
    """
    by_labels: dict[Labels, list[StepTimeRow]] = {}
    for row in rows:
        by_labels.setdefault(tuple(row.labels.items()), []).append(row)
    names = series_names(list(by_labels))
    if wanted is None:
        chosen = list(names)
    else:
        chosen = [name for name in names if name.casefold() == wanted.casefold()] or [
            name for name in names if wanted.casefold() in name.casefold() or _has(names[name], wanted)
        ]
    if len(chosen) == 1:
        return by_labels[names[chosen[0]]]
    listed = ", ".join(f"'{name}'" for name in (chosen or list(names))[:_MOST_LISTED])
    problem = f"holds {len(chosen)} series" if chosen else "no such series"
    field, value = (None, ...) if wanted is None else ("--series", wanted)
    remedy = f"choose one with --series: {listed}" + (", …" if len(chosen or names) > _MOST_LISTED else "")
    raise BadInput(problem, file=where, field=field, value=value, remedy=remedy)


def _has(labels: Labels, wanted: str) -> bool:
    return any(value.casefold() == wanted.casefold() for _, value in labels)


def series_names(keys: Sequence[Labels]) -> dict[str, Labels]:
    """A short name for each set of labels: the first of those that differ, as many as tell it apart.

    Examples
    --------
    >>> keys = [(("model", "7B"), ("n_threads", "4")), (("model", "7B"), ("n_threads", "8")), (("model", "1B"),)]
    >>> list(series_names(keys))
    ['7B, n_threads 4', '7B, n_threads 8', '1B']
    """
    if len(keys) == 1:
        return {next((value for _, value in keys[0]), "the only series"): keys[0]}
    differing = [[part for part in key if not all(part in other for other in keys)] for key in keys]
    named: dict[str, Labels] = {}
    for key, parts in zip(keys, differing, strict=True):
        lengths = (n for n in range(1, len(parts)) if sum(other[:n] == parts[:n] for other in differing) == 1)
        name = ", ".join(map(_said, parts[: next(lengths, len(parts))])) or "no labels"
        while name in named:
            name += " (another)"
        named[name] = key
    return named


def _said(part: tuple[str, str]) -> str:
    return part[1] if part[0] in _PLAIN else " ".join(part)
