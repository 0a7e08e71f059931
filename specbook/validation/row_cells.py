"""The cells of one row as numbers, with what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from specbook.checks import BadInput
from specbook.validation.cells import is_missing, number, share, whole
from specbook.validation.columns import Header
from specbook.validation.context_cells import ContextTokens, context_figure, context_tokens, is_figure
from specbook.validation.series_row import RowProblem
from specbook.validation.units import SpeedUnit, speed_unit

# More of either has no batch and no server.
_MOST_STREAMS = 1e9
_MOST_DRAFTED = 1e6
_LEAST = {"k": 0, "devices": 1, "batch": 1, "n_rounds": 1, "n_drafted": 0, "n_accepted": 0}
_MOST = {"k": _MOST_DRAFTED, "devices": _MOST_STREAMS, "batch": _MOST_STREAMS}


@dataclass(kw_only=True, slots=True)
class RowCells:
    """One row while it is read: its cells by column, and what was noticed.

    Attributes
    ----------
    line : int
    cells : dict of str to str
        Column → text without blanks around it.
    header : Header
    decimal_comma : bool
        Whether "54,7" may be a number.
    problems : list of RowProblem
    derived : list of str
    """

    line: int
    cells: dict[str, str]
    header: Header
    decimal_comma: bool
    problems: list[RowProblem] = field(default_factory=list)
    derived: list[str] = field(default_factory=list)

    def text(self, column: str) -> str:
        """The cell as written, "" where there is none."""
        return self.cells.get(column, "")

    def refuse(self, column: str, problem: str, remedy: str) -> None:
        """Note why the row cannot be evaluated."""
        self._note(column, problem, remedy, is_fatal=True)

    def warn(self, column: str, problem: str, remedy: str) -> None:
        """Note what is odd about a row that can be evaluated."""
        self._note(column, problem, remedy, is_fatal=False)

    def _note(self, column: str, problem: str, remedy: str, *, is_fatal: bool) -> None:
        self.problems.append(
            RowProblem(
                line=self.line,
                column=self.header.written.get(column, column),
                value=self.text(column),
                problem=problem,
                remedy=remedy,
                is_fatal=is_fatal,
            )
        )

    def _read(self, column: str, read: Callable[[str], float]) -> float | None:
        text = self.cells.get(column, "")
        if is_missing(text):
            return None
        try:
            return read(text)
        except BadInput as error:
            self.refuse(column, error.problem, error.remedy)
            return None

    def counted(self, column: str) -> int | None:
        """A whole number; None if there is none that can be used."""
        least, most = _LEAST[column], _MOST.get(column)

        def read(text: str) -> float:
            value = number(text, decimal_comma=self.decimal_comma)
            return whole(value, least=least) if most is None else whole(value, least=least, most=most)

        value = self._read(column, read)
        return None if value is None else int(value)

    def positive(self, column: str, *, is_below_1000: bool = False) -> float | None:
        """A number above 0."""

        def read(text: str) -> float:
            value = number(text, decimal_comma=self.decimal_comma, is_below_1000=is_below_1000)
            if value <= 0.0:
                raise BadInput("is not above 0", remedy="leave the cell empty if nothing was measured")
            return value

        return self._read(column, read)

    def tokens_per_round(self) -> float | None:
        """The stated length, at least 1."""

        def read(text: str) -> float:
            value = number(text, decimal_comma=self.decimal_comma, is_below_1000=True)
            if value < 1.0:
                raise BadInput("is below 1", remedy="count the bonus token, which every round yields")
            return value

        return self._read("acc_len_incl_bonus", read)

    def acceptance_rate(self, *, in_percent: bool) -> float | None:
        """The stated share of drafted tokens that were accepted."""
        in_percent = in_percent or self.header.acceptance_in_percent

        def read(text: str) -> float:
            return share(text, in_percent=in_percent, decimal_comma=self.decimal_comma)

        value = self._read("acc_rate", read)
        if in_percent and value is not None and 0.0 < value <= 0.01 and "%" not in self.text("acc_rate"):
            self.warn("acc_rate", "is taken as a percentage, as the file says", "is it a fraction?")
        return value

    def lengths(self) -> ContextTokens:
        """Lengths of context, prompt and output.

        A number that cannot be true is refused; words that say no length are noted and left out.
        """
        lengths = self._context()
        self.derived += lengths.derived
        prompt, output = self.positive("prompt_tokens"), self.positive("output_tokens")
        return ContextTokens(
            context=lengths.context,
            prompt=lengths.prompt if prompt is None else prompt,
            output=lengths.output if output is None else output,
        )

    def _context(self) -> ContextTokens:
        text = self.text("context")
        if is_missing(text):
            return ContextTokens()
        if is_figure(text):
            figure = self._read("context", lambda cell: context_figure(cell, decimal_comma=self.decimal_comma))
            return ContextTokens(context=figure)
        try:
            return context_tokens(text)
        except BadInput as error:
            self.warn("context", error.problem, error.remedy)
            return ContextTokens()

    def unit(self) -> SpeedUnit | None:
        """What the speeds are in; None if that cannot be told."""
        try:
            return speed_unit("" if is_missing(self.text("unit")) else self.text("unit"))
        except BadInput as error:
            if self.text("tok_s") or self.text("baseline_tok_s"):
                self.refuse("unit", error.problem, error.remedy)
            return None
