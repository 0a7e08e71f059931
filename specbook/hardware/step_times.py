"""A table of measured step times: batch × context × width → seconds, as a probe or somebody's benchmark gives it."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from specbook.files import dump_model, read_model, write_text

# Below this no device launches a kernel, and beyond that nobody waits for a token: the unit is another one.
SHORTEST_S, LONGEST_S = 1e-7, 1e3

Count = Annotated[int, Field(ge=1, le=2**31)]
WholeNumber = Annotated[int, Field(ge=0, le=2**31)]


_AXES = ("width", "batch", "context")


class Cell(NamedTuple):
    """What a time was measured at; two times of one table never share it."""

    context: int | None
    batch: int
    width: int
    draft_steps: int | None = None
    top_k: int | None = None

    def __str__(self) -> str:
        """In words, as messages name it."""
        names = ("context", "batch", "width", "draft steps", "top-k")
        order = (1, 0, 2, 3, 4)
        return ", ".join(f"{names[place]} {self[place]:,}" for place in order if self[place] is not None)


class StepTimePoint(BaseModel):
    """One measured time."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    batch: Count
    context: WholeNumber | None = Field(
        default=None, description="Tokens in each sequence before the pass; null if the source does not say."
    )
    width: Count = Field(description="Positions of each sequence in the pass; K + 1 in a verify pass.")
    seconds: Annotated[float, Field(gt=0.0, le=1e6, allow_inf_nan=False)]
    draft_steps: WholeNumber | None = Field(default=None, description="Drafting passes of a round; null for a pass.")
    top_k: Count | None = Field(
        default=None, description="Branches of each draft step; 1 drafts a chain, null for a pass."
    )

    @property
    def cell(self) -> Cell:
        """What it was measured at."""
        return Cell(self.context, self.batch, self.width, self.draft_steps, self.top_k)


def _impossible(problem: str, field: str, value: object, remedy: str) -> PydanticCustomError:
    context = {"problem": problem, "field": field, "value": value, "remedy": remedy}
    return PydanticCustomError("impossible_step_times", "{problem}", context)


class StepTimeTable(BaseModel):
    """Measured times of one model on one machine under one engine.

    Examples
    --------
    >>> points = [StepTimePoint(batch=1, context=512, width=width, seconds=0.01 * width) for width in (1, 2)]
    >>> StepTimeTable(source="by hand", points=points).hole() is None
    True
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    schema_: Literal["specbook-step-times/1"] = Field(default="specbook-step-times/1", alias="schema")
    model: str | None = Field(default=None, description="As the source names it, or a name of the model library.")
    hardware: str | None = None
    engine: str | None = Field(default=None, description="Engine and backend, such as llama.cpp or specbook fast.")
    measures: Literal["pass", "round"] = Field(
        default="pass", description="pass: one forward pass; round: drafting and verifying together."
    )
    unit: Literal["seconds", "relative"] = Field(
        default="seconds", description="relative: multiples of the pass over one position in one sequence."
    )
    source: Annotated[str, Field(min_length=1)]
    format: str | None = Field(default=None, description="The reader that understood the source.")
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = Field(
        default=None, description="Of the file it was read from."
    )
    warnings: list[str] = []
    points: list[StepTimePoint] = Field(min_length=1)

    @model_validator(mode="after")
    def _check(self) -> Self:
        places: dict[Cell, int] = {}
        for index, point in enumerate(self.points):
            first = places.setdefault(point.cell, index)
            if first != index:
                problem = f"the same cell as points.{first} ({point.cell})"
                raise _impossible(problem, f"points.{index}", point.seconds, "keep one of the two")
            self._check_point(point, f"points.{index}")
        if len({point.context is None for point in self.points}) > 1:
            index = next(index for index, point in enumerate(self.points) if point.context is None)
            problem, remedy = "is null where other points say it", "state it for all points or for none"
            raise _impossible(problem, f"points.{index}.context", None, remedy)
        return self

    def _check_point(self, point: StepTimePoint, place: str) -> None:
        is_drafted = point.draft_steps is not None or point.top_k is not None
        if self.measures == "pass" and is_drafted:
            problem, remedy = "a pass drafts nothing", "a table with draft_steps or top_k measures rounds"
            raise _impossible(problem, f"{place}.draft_steps", point.draft_steps, remedy)
        if self.unit == "seconds" and not SHORTEST_S <= point.seconds <= LONGEST_S:
            problem = f"must lie in [{SHORTEST_S:g}, {LONGEST_S:g}] seconds"
            raise _impossible(problem, f"{place}.seconds", point.seconds, "check the unit: it is in seconds")

    @property
    def batches(self) -> list[int]:
        """Numbers of sequences that were measured, in order."""
        return sorted({point.batch for point in self.points})

    @property
    def contexts(self) -> list[int | None]:
        """Contexts that were measured, in order; one None if the source does not say."""
        return sorted({point.context for point in self.points}, key=lambda context: context or 0)

    @property
    def widths(self) -> list[int]:
        """Widths that were measured, in order."""
        return sorted({point.width for point in self.points})

    def hole(self) -> Cell | None:
        """The first cell of the grid batch × context × width that holds no time; None if the grid is full.

        Examples
        --------
        >>> points = [StepTimePoint(batch=b, context=512, width=w, seconds=0.01) for b, w in ((1, 1), (1, 2), (4, 1))]
        >>> print(StepTimeTable(source="by hand", points=points).hole())
        batch 4, context 512, width 2
        """
        held = {(point.context, point.batch, point.width) for point in self.points}
        grid = product(self.contexts, self.batches, self.widths)
        return next((Cell(*cell) for cell in grid if cell not in held), None)

    def full_part(self) -> StepTimeTable:
        """The table without the batches, contexts or widths that leave holes; each hole takes what loses least.

        A table with one time always has a full part. What was left out stands in the warnings.

        Examples
        --------
        >>> cells = [(1, 1), (1, 5), (1, 9), (4, 1), (4, 5)]
        >>> points = [StepTimePoint(batch=b, context=512, width=w, seconds=0.01) for b, w in cells]
        >>> part = StepTimeTable(source="by hand", points=points).full_part()
        >>> part.widths, part.batches, part.warnings
        ([1, 5], [1, 4], ['left out, where cells were not measured: width 9'])
        """
        points, dropped = list(self.points), []
        while (hole := self.model_copy(update={"points": points}).hole()) is not None:
            name = min(_AXES, key=lambda axis: sum(_at(point, axis) == getattr(hole, axis) for point in points))
            value = getattr(hole, name)
            points = [point for point in points if _at(point, name) != value]
            dropped.append(f"{name} {value:,}")
        notes = [f"left out, where cells were not measured: {', '.join(dropped)}"] if dropped else []
        return self.model_copy(update={"points": points, "warnings": [*self.warnings, *notes]})


def _at(point: StepTimePoint, axis: str) -> int | None:
    value: int | None = getattr(point, axis)
    return value


def read_step_times(path: Path) -> StepTimeTable:
    """Read a ``specbook-step-times/1`` file.

    Raises
    ------
    BadInput
        If it is none, or says something impossible.

    Examples
    --------
    >>> read_step_times(Path("none.json"))
    Traceback (most recent call last):
        ...
    specbook.checks.BadInput: none.json: no such file or directory; check the path and its permissions
    """
    return read_model(path, StepTimeTable)


def write_step_times(table: StepTimeTable, path: Path) -> None:
    """Write a table atomically.

    Raises
    ------
    BadInput
        If the folder cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> table = StepTimeTable(source="by hand", points=[StepTimePoint(batch=1, width=1, seconds=0.01)])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_step_times(table, Path(folder) / "s.json")
    ...     read_step_times(Path(folder) / "s.json") == table
    True
    """
    write_text(path, dump_model(table))
