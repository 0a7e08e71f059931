"""The columns of a series, by the names that people give them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from specbook.checks import BadInput

TEXTS = ("series", "source", "hardware", "engine", "target", "drafter", "workload", "unit", "note")
HEADER = (
    "series,source,hardware,engine,target,drafter,K,batch,context,workload,acc_len_incl_bonus,acc_rate,n_rounds,"
    "n_drafted,n_accepted,tok_s,baseline_tok_s,unit,note"
)
# Beside the names of the header: names that say the same, in the form that _plain gives them.
_ALIASES: dict[str, tuple[str, ...]] = {
    "hardware": ("device", "gpu"),
    "engine": ("framework", "backend"),
    "target": ("model", "target_model"),
    "drafter": ("draft", "draft_model", "method"),
    "workload": ("dataset", "task", "domain"),
    "unit": ("units",),
    "note": ("notes", "comment"),
    "k": ("draft_length", "num_speculative_tokens", "speculative_num_steps", "n_draft", "gamma"),
    "devices": ("n_devices", "tp", "tp_size", "tensor_parallel", "tensor_parallel_size", "n_gpus"),
    "batch": ("batch_size", "concurrency", "max_concurrency"),
    "context": ("context_tokens", "context_length", "ctx"),
    "prompt_tokens": ("input_tokens", "input_len", "isl"),
    "output_tokens": ("output_len", "osl"),
    "acc_len_incl_bonus": (
        "mean_acceptance_length", "tokens_per_round", "acceptance_length", "accept_length", "acc_len", "acc_length",
    ),
    "acc_rate": ("draft_acceptance_rate", "acceptance_rate", "accept_rate"),
    "n_rounds": ("rounds",),
    "n_drafted": ("n_drafted_tokens", "drafted_tokens"),
    "n_accepted": ("n_accepted_tokens", "accepted_tokens", "n_accept"),
    "tok_s": ("tokens_per_s", "tokens_per_second", "tok_per_s", "tokens_s", "t_s", "tps", "output_throughput"),
    "baseline_tok_s": ("baseline_tokens_per_s", "baseline_tokens_s", "baseline_tok_per_s", "baseline_tps", "baseline"),
    "speedup": ("measured_speedup",),
}  # fmt: skip
_CANONICAL = {alias: column for column, aliases in _ALIASES.items() for alias in (column, *aliases)} | {
    name: name for name in TEXTS
}
# Names that leave open what is counted; what they are taken for is said once a file.
_OPEN = {
    **dict.fromkeys(("acceptance_rate", "accept_rate"), "is taken as accepted ÷ drafted tokens"),
    **dict.fromkeys(
        ("acceptance_length", "accept_length", "acc_len", "acc_length"), "is taken to count the bonus token"
    ),
}
_PERCENT = re.compile(r"_(?:percent|pct|%)$")
_SEPARATORS = re.compile(r"[\s\-./()\[\]_]+")


def _plain(name: str) -> str:
    return _SEPARATORS.sub("_", name.replace("\0", "").casefold()).strip("_")


def _column(name: str) -> tuple[str | None, bool]:
    """The column that a name stands for, None if it is not one of ours, and whether it says percent."""
    plain = _plain(name)
    stem = _PERCENT.sub("", plain)
    if stem != plain and _CANONICAL.get(stem) == "acc_rate":
        return "acc_rate", True
    return _CANONICAL.get(plain), False


def n_known(names: list[str]) -> int:
    """How many of the names are columns of a series; what tells the separator of a table.

    Examples
    --------
    >>> n_known(["Series", "Batch size", "colour"])
    2
    """
    return sum(_column(name)[0] is not None for name in names)


@dataclass(frozen=True, kw_only=True, slots=True)
class Header:
    """The first line of a series.

    Attributes
    ----------
    places : dict of str to int
        Column → index of its cell.
    written : dict of str to str
        Column → its name in the file.
    n_cells : int
        Names in the header.
    acceptance_in_percent : bool
        Whether the name of the acceptance rate says percent.
    ignored : tuple of str
        Names that are no column of a series.
    open_names : tuple of (str, str)
        Names that leave open what is counted, and what they are taken for.
    """

    places: dict[str, int]
    written: dict[str, str]
    n_cells: int
    acceptance_in_percent: bool
    ignored: tuple[str, ...]
    open_names: tuple[tuple[str, str], ...]


def read_header(names: list[str]) -> Header:
    """The columns that the names of a header stand for.

    Parameters
    ----------
    names : list of str
        Case, blanks and hyphens do not matter. Where a column is there under its own name and another, the other is
        ignored.

    Raises
    ------
    BadInput
        If two names stand for one column, or the least that a series has is not there: a target or hardware, and a
        speed or a speedup.

    Examples
    --------
    >>> header = read_header(["Target", "Batch size", "tok/s", "colour"])
    >>> header.places, header.ignored
    ({'target': 0, 'batch': 1, 'tok_s': 2}, ('colour',))
    """
    places: dict[str, int] = {}
    ignored: list[str] = []
    for place, name in enumerate(names):
        column, _ = _column(name)
        if column is None:
            ignored += [name] if name else []
        elif column not in places:
            places[column] = place
        elif _is_own(name, column) == _is_own(names[places[column]], column):
            raise BadInput(f"names the column {column} twice", field="header", value=name, remedy="rename one of them")
        elif _is_own(name, column):
            ignored.append(names[places[column]])
            places[column] = place
        else:
            ignored.append(name)
    _check_least(places, names)
    rate = places.get("acc_rate")
    return Header(
        places=places,
        written={column: names[place] for column, place in places.items()},
        n_cells=len(names),
        acceptance_in_percent=rate is not None and _column(names[rate])[1],
        ignored=tuple(ignored),
        open_names=tuple((name, _OPEN[_stem(name)]) for name in names if _stem(name) in _OPEN and name not in ignored),
    )


def _stem(name: str) -> str:
    return _PERCENT.sub("", _plain(name))


def _is_own(name: str, column: str) -> bool:
    return _stem(name) == column


def _check_least(places: dict[str, int], names: list[str]) -> None:
    if places.keys() & {"target", "hardware"} and places.keys() & {"tok_s", "speedup"}:
        return
    raise BadInput(
        "is no header of a series, which has a target or hardware, and tok_s or speedup",
        field="header",
        value=names if len(names) > 1 else "".join(names),
        remedy=f"the columns are {HEADER}",
    )
