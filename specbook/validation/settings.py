"""What a row of a series means: a device, a target, a drafter and an engine, or what is missing to say so."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from specbook.hardware.profile import HardwareProfile
from specbook.roofline.drafting import MethodName
from specbook.roofline.model_spec import ModelSpec
from specbook.validation.row_names import (
    Overrides,
    RowNames,
    check_overrides,
    row_names,
    target_precision,
    what_is_missing,
)
from specbook.validation.series import SeriesFile, SeriesRow

__all__ = ["MissingRow", "Overrides", "Setting", "settings"]

ASSUMED_CONTEXT_TOKENS = 512.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """One row that can be predicted.

    Attributes
    ----------
    row : SeriesRow
    device : HardwareProfile
    n_devices : int or None
        None where the row does not tell, and nobody stated it.
    devices_from : str
        ``stated``; ``single``, where no other number can be meant; ``inferred``; "" before that is known.
    target, draft : ModelSpec
        A drafter without a model of its own has no ``draft``.
    precision, draft_precision : str
    method : str
        What drafting costs like.
    depth, n_nodes : float
        Draft passes and drafted tokens of a round; the same for a chain.
    tokens_per_round : float
    batch : int
    context_tokens : float
    engine : str
        As the overheads know it; the word of the row where they do not.
    assumptions : tuple of str
        What was worked out or taken as usual, one clause each.
    """

    row: SeriesRow
    device: HardwareProfile
    n_devices: int | None
    target: ModelSpec
    draft: ModelSpec | None
    precision: str
    draft_precision: str
    method: MethodName
    depth: float
    n_nodes: float
    tokens_per_round: float
    batch: int
    context_tokens: float
    engine: str
    assumptions: tuple[str, ...]
    devices_from: str = ""

    @property
    def baseline_tpot_s(self) -> float | None:
        """Measured seconds a token of one stream without speculation."""
        speed = self.row.baseline_tokens_per_s
        return None if speed is None else self.batch / speed


@dataclass(frozen=True, kw_only=True, slots=True)
class MissingRow:
    """A row that cannot be predicted, or not be compared, and what it lacks.

    Attributes
    ----------
    row : SeriesRow
    missing : tuple of str
        One clause each, with the option that would answer where there is one.
    """

    row: SeriesRow
    missing: tuple[str, ...]


def settings(rows: Iterable[SeriesRow], overrides: Overrides | None = None) -> list[Setting | MissingRow]:
    """What each row means, in order.

    Parameters
    ----------
    rows : iterable of SeriesRow
    overrides : Overrides, optional

    Returns
    -------
    list of Setting or MissingRow
        One for each row.

    Raises
    ------
    BadInput
        If an override names nothing that is known.

    Examples
    --------
    >>> from specbook.validation.published_series import published_series
    >>> from specbook.validation.settings import settings
    >>> found = settings(published_series().rows)
    >>> sum(isinstance(each, Setting) for each in found) > 150
    True
    """
    stated = overrides or Overrides()
    check_overrides(stated)
    looked_up: dict[tuple[str, ...], RowNames] = {}
    return [_setting(row, _names(row, stated, looked_up), stated) for row in rows]


def _names(row: SeriesRow, stated: Overrides, looked_up: dict[tuple[str, ...], RowNames]) -> RowNames:
    """The names of a row; rows of a series have the same, which are looked up once."""
    texts = (row.hardware, row.target, row.drafter, row.engine)
    if texts not in looked_up:
        looked_up[texts] = row_names(row, stated)
    return looked_up[texts]


def _setting(row: SeriesRow, named: RowNames, stated: Overrides) -> Setting | MissingRow:
    missing = tuple(what_is_missing(row, named, stated))
    if missing:
        return MissingRow(row=row, missing=missing)
    return _known(row, named, stated)


def _known(row: SeriesRow, named: RowNames, stated: Overrides) -> Setting:
    target, profile, method = named.target.spec, named.device.profile, named.drafter.method
    if target is None or profile is None or method is None:
        raise AssertionError("rows that lack these are listed as missing")
    precision = target_precision(named, stated) or "bf16"
    draft_precision, notes = _draft_precision(named, stated, precision)
    context, context_notes = _context(row, stated)
    if named.target.precision is None:
        how = "as published" if stated.precision is None else "as stated"
        notes = (f"weights in {precision}, {how}", *notes)
    n_devices = row.n_devices or named.device.n_devices
    if n_devices is None and stated.n_devices is not None:
        notes = (*notes, f"{stated.n_devices} devices, as stated")
    length = float(row.draft_length if row.draft_length is not None else named.drafter.depth or 0)
    return Setting(
        row=row,
        device=profile,
        n_devices=n_devices or stated.n_devices,
        target=target,
        draft=named.drafter.draft if method == "draft_model" else None,
        precision=precision,
        draft_precision=draft_precision,
        method=method,
        depth=float(named.drafter.depth or length),
        n_nodes=_drafted(named, length),
        tokens_per_round=float(row.tokens_per_round or 1.0),
        batch=int(row.batch or 1),
        context_tokens=context,
        engine=named.engine.engine or row.engine,
        assumptions=(*row.derived, *named.answers, *notes, *context_notes),
    )


def _drafted(named: RowNames, length: float) -> float:
    """Drafted tokens of a round; SGLang counts the token that a tree grows from among its draft tokens."""
    if named.drafter.n_nodes is None:
        return length
    return float(named.drafter.n_nodes - (named.engine.engine == "sglang"))


def _draft_precision(named: RowNames, stated: Overrides, precision: str) -> tuple[str, tuple[str, ...]]:
    """The drafter's weight format: what is said; a head in 16 bits, a model as its target."""
    found = named.drafter.precision or stated.draft_precision
    if found is not None:
        return found, ()
    if named.drafter.method == "draft_model":
        return precision, (f"draft in {precision}, as the target",)
    return (precision if precision in ("bf16", "fp16", "fp32") else "bf16"), ()


def _context(row: SeriesRow, stated: Overrides) -> tuple[float, tuple[str, ...]]:
    """Tokens of context in the mean over an answer."""
    if row.prompt_tokens is not None:
        return row.prompt_tokens + 0.5 * (row.output_tokens or 0.0), ()
    if row.context_tokens is not None:
        return row.context_tokens, ()
    if stated.context_tokens is not None:
        return stated.context_tokens, (f"context of {stated.context_tokens:.0f} tokens, as stated",)
    return ASSUMED_CONTEXT_TOKENS, (f"context of {ASSUMED_CONTEXT_TOKENS:.0f} tokens, as none is stated",)


def example_series() -> SeriesFile:
    """Three draft lengths of one target on one device, for examples.

    Examples
    --------
    >>> len(example_series().rows)
    3
    """
    rows = [
        SeriesRow(
            line=line,
            series="example",
            hardware="H200",
            engine="SGLang",
            target="Llama-3.1-8B-Instruct",
            drafter="EAGLE-3",
            workload="chat",
            draft_length=float(length),
            batch=1,
            tokens_per_round=tokens,
            tokens_per_s=speed,
            baseline_tokens_per_s=190.0,
        )
        for line, length, tokens, speed in ((2, 3, 2.90, 404.0), (3, 5, 3.52, 447.0), (4, 7, 3.86, 450.0))
    ]
    return SeriesFile(
        rows=tuple(rows), problems=(), name="example", sha256="", encoding="utf-8", separator=",", ignored_columns=()
    )


def example_setting() -> Setting:
    """The first row of :func:`example_series`, for examples.

    Examples
    --------
    >>> example_setting().target.name
    'Llama-3.1-8B'
    """
    return next(each for each in settings(example_series().rows) if isinstance(each, Setting))
