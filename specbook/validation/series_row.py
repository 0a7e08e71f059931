"""One row of a measured series, what is wrong with one, and a file of them."""

from __future__ import annotations

from dataclasses import dataclass

from specbook.checks import printable

_SHOWN_CHARACTERS = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class SeriesRow:
    """One measured setting, in the units of this package; None and "" where the file says nothing.

    Attributes
    ----------
    line : int
        Where it stands in the file; the first line is 1.
    series, source, hardware, engine, target, drafter, workload, unit, note : str
        As written.
    draft_length : float or None
        K. Where the file states none: drafted tokens ÷ rounds, else (tokens per round − 1) ÷ acceptance rate.
    n_devices, batch : int or None
        Devices that share the model, and streams.
    context_tokens, prompt_tokens, output_tokens : float or None
        The three lengths that the file states; none is worked out from the others.
    tokens_per_round : float or None
        At least 1, the bonus token counted.
    draft_acceptance_rate : float or None
        Accepted ÷ drafted tokens, in [0, 1].
    n_rounds : int or None
        Verify passes that the acceptance was counted over.
    tokens_per_s, baseline_tokens_per_s : float or None
        With and without speculation, generated tokens over all streams.
    stated_speedup : float or None
        The ratio, where the source gives it.
    derived : tuple of str
        How each figure that is not in the file as such was worked out.

    Examples
    --------
    >>> SeriesRow(line=2, batch=1, tokens_per_s=180.0, baseline_tokens_per_s=120.0).speedup
    1.5
    """

    line: int
    series: str = ""
    source: str = ""
    hardware: str = ""
    engine: str = ""
    target: str = ""
    drafter: str = ""
    workload: str = ""
    unit: str = ""
    note: str = ""
    draft_length: float | None = None
    n_devices: int | None = None
    batch: int | None = None
    context_tokens: float | None = None
    prompt_tokens: float | None = None
    output_tokens: float | None = None
    tokens_per_round: float | None = None
    draft_acceptance_rate: float | None = None
    n_rounds: int | None = None
    tokens_per_s: float | None = None
    baseline_tokens_per_s: float | None = None
    stated_speedup: float | None = None
    derived: tuple[str, ...] = ()

    @property
    def speedup(self) -> float | None:
        """Measured: tokens per second with speculation ÷ without, else what the source gives; None if neither."""
        if self.tokens_per_s is None or self.baseline_tokens_per_s is None:
            return self.stated_speedup
        return self.tokens_per_s / self.baseline_tokens_per_s


@dataclass(frozen=True, kw_only=True, slots=True)
class RowProblem:
    r"""What is wrong with a cell or a row, and what to do about it; its text is one line.

    Attributes
    ----------
    line : int
    column : str
        As the file names it; "" if it is the whole row.
    value : str
        The cell, as written.
    problem, remedy : str
        In a few words.
    is_fatal : bool
        Whether the row cannot be evaluated; if not, it is among the rows.

    Examples
    --------
    >>> print(RowProblem(line=3, column="K", value="\x1b[1m", problem="is not a number", remedy="x", is_fatal=True))
    line 3, column K: \x1b[1m is not a number; x
    """

    line: int
    column: str
    value: str
    problem: str
    remedy: str
    is_fatal: bool

    def __str__(self) -> str:
        value = self.value if len(self.value) <= _SHOWN_CHARACTERS else f"{self.value[: _SHOWN_CHARACTERS - 1]}…"
        place = f"line {self.line}, column {self.column}" if self.column else f"line {self.line}"
        said = " ".join(part for part in (value, self.problem) if part)
        return printable(f"{place}: {said}; {self.remedy}")


@dataclass(frozen=True, kw_only=True, slots=True)
class SeriesFile:
    """A file of measured settings.

    Attributes
    ----------
    rows : tuple of SeriesRow
        Those without a fatal problem, in the order of the file.
    problems : tuple of RowProblem
        In the order of the file.
    name, sha256 : str
        Of the file and of its bytes.
    encoding, separator : str
        How it was read.
    ignored_columns : tuple of str
        Names in its header that are no column of a series.
    """

    rows: tuple[SeriesRow, ...]
    problems: tuple[RowProblem, ...]
    name: str
    sha256: str
    encoding: str
    separator: str
    ignored_columns: tuple[str, ...]
