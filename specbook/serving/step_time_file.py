"""Iteration times as a small JSON file states them, what ``specbook simulate --step-time`` reads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from specbook.checks import BadInput
from specbook.files import read_json, validated
from specbook.hardware.step_times import read_step_times
from specbook.roofline.measured_steps import Axis, MeasuredSteps
from specbook.serving.draft_time import ConstantDraft, DraftTime, NoDraft
from specbook.serving.iteration_time import AffineIterationTime, ConstantIterationTime, IterationTime
from specbook.serving.per_token_prefill import PerTokenPrefill
from specbook.serving.stepped_time import SteppedTime
from specbook.serving.vidur_tables import VidurTables

# The context no longer matters where the nearest measured one is taken.
_ANY_CONTEXT_TOKENS = 2**31
# Nobody waits that long for an iteration: the unit is another one.
_MOST_MS = 1e6

Milliseconds = Annotated[float, Field(ge=0.0, le=_MOST_MS, allow_inf_nan=False)]
SomeMilliseconds = Annotated[float, Field(gt=0.0, le=_MOST_MS, allow_inf_nan=False)]
FileName = Annotated[str, Field(min_length=1, description="Relative to this file.")]


class _TimeFile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    def iteration_time(self, path: Path) -> IterationTime:
        """The time that the file states; ``path`` is where it lies."""
        raise NotImplementedError

    def draft_time(self) -> DraftTime:
        """What drafting costs; nothing where the file does not say."""
        return NoDraft()


class _WithDraft(_TimeFile):
    draft_ms_per_pass: Milliseconds | None = Field(default=None, description="Of each draft pass; null if free.")

    def draft_time(self) -> DraftTime:
        if self.draft_ms_per_pass is None:
            return NoDraft()
        return ConstantDraft(seconds_per_pass=self.draft_ms_per_pass * 1e-3)


class AffineTimeFile(_WithDraft):
    """``{"kind": "affine", ..}``: the coefficients of :class:`AffineIterationTime`."""

    kind: Literal["affine"]
    c0_ms: Milliseconds = Field(description="Of an iteration.")
    c1_ms: Milliseconds = Field(description="Of each token in it.")
    c2_ms: Milliseconds = Field(description="Of each token of context that its decodes read.")
    c3_ms: Milliseconds = Field(description="Of each pair of tokens that its chunks attend over.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not any((self.c0_ms, self.c1_ms, self.c2_ms, self.c3_ms)):
            context = {"field": "c0_ms", "value": self.c0_ms, "remedy": "state at least one of c0_ms to c3_ms above 0"}
            raise PydanticCustomError("no_time", "an iteration would take no time", context)
        return self

    def iteration_time(self, path: Path) -> IterationTime:
        """The affine time."""
        del path
        return AffineIterationTime(c0_ms=self.c0_ms, c1_ms=self.c1_ms, c2_ms=self.c2_ms, c3_ms=self.c3_ms)


class ConstantTimeFile(_WithDraft):
    """``{"kind": "constant", "ms": 10}``."""

    kind: Literal["constant"]
    ms: SomeMilliseconds = Field(description="Of every iteration.")

    def iteration_time(self, path: Path) -> IterationTime:
        """The constant time."""
        del path
        return ConstantIterationTime(seconds=self.ms * 1e-3)


class VidurTimeFile(_TimeFile):
    """``{"kind": "vidur_tables", ..}``: three CSV files, as :meth:`VidurTables.read` takes them."""

    kind: Literal["vidur_tables"]
    linear: FileName
    decode: FileName
    prefill: FileName
    n_layers: Annotated[int, Field(ge=1, le=10_000)]

    def iteration_time(self, path: Path) -> IterationTime:
        """The tables."""
        linear, decode, prefill = (path.parent / name for name in (self.linear, self.decode, self.prefill))
        return VidurTables.read(linear=linear, decode=decode, prefill=prefill, n_layers=self.n_layers)


class TableTimeFile(_TimeFile):
    """``{"kind": "table", "file": "S.json", ..}``: measured passes, and what they do not say of prompts."""

    kind: Literal["table"]
    file: FileName = Field(description="A specbook-step-times/1 file; relative to this one.")
    prefill_ms_per_token: SomeMilliseconds = Field(description="Of each token of a prompt; passes measure none.")
    one_pass_ms: SomeMilliseconds | None = Field(
        default=None, description="Of the pass over one position in one sequence, where the table is relative to it."
    )
    nearest: list[Axis] = Field(default=[], description="Axes along which the nearest measured value stands in.")

    def iteration_time(self, path: Path) -> IterationTime:
        """The measured passes, with prompts at so much a token."""
        steps = self._steps(path)
        low, high = 0, _ANY_CONTEXT_TOKENS
        if "context" not in self.nearest:
            low, high = self._measured_contexts(steps, path)
        prefill = PerTokenPrefill(seconds_per_token=self.prefill_ms_per_token * 1e-3)
        return SteppedTime(step=steps, max_context_tokens=high, min_context_tokens=low, prefill=prefill)

    def _steps(self, path: Path) -> MeasuredSteps:
        one_pass_s = None if self.one_pass_ms is None else self.one_pass_ms * 1e-3
        table = read_step_times(path.parent / self.file)
        try:
            return MeasuredSteps.from_table(table, one_pass_s=one_pass_s, nearest=self.nearest)
        except BadInput as error:
            raise error.at(str(path.parent / self.file)) from None
        except ValueError as error:
            remedy = "leave one_pass_ms out"
            raise BadInput(str(error), file=str(path), field="one_pass_ms", remedy=remedy) from None

    def _measured_contexts(self, steps: MeasuredSteps, path: Path) -> tuple[int, int]:
        if not steps.context.size:
            problem, remedy = "the table does not say at which context it was measured", 'add "nearest": ["context"]'
            raise BadInput(problem, file=str(path), field="file", value=self.file, remedy=remedy)
        return int(steps.context[0]), int(steps.context[-1])


_KINDS: dict[str, type[_TimeFile]] = {
    "affine": AffineTimeFile, "constant": ConstantTimeFile, "vidur_tables": VidurTimeFile, "table": TableTimeFile,
}  # fmt: skip


def read_iteration_time(path: Path) -> IterationTime:
    """Read iteration times from a JSON file whose ``kind`` is affine, constant, vidur_tables or table.

    Parameters
    ----------
    path : Path
        Files that it names are relative to its folder.

    Raises
    ------
    BadInput
        If the file, or one that it names, cannot be read, is of another kind, or states something impossible.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "S.json"
    ...     _ = path.write_text('{"kind": "constant", "ms": 10}')
    ...     read_iteration_time(path)
    ConstantIterationTime(seconds=0.01, kind='constant')
    """
    return _read(path).iteration_time(path)


def read_draft_time(path: Path) -> DraftTime:
    """Read what drafting costs from the same file: ``draft_ms_per_pass``, or nothing where it is not stated.

    Parameters
    ----------
    path : Path

    Raises
    ------
    BadInput
        If the file cannot be read, is of another kind, or states something impossible.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "S.json"
    ...     _ = path.write_text('{"kind": "constant", "ms": 10, "draft_ms_per_pass": 2}')
    ...     read_draft_time(path)
    ConstantDraft(seconds_per_pass=0.002)
    """
    return _read(path).draft_time()


def _read(path: Path) -> _TimeFile:
    document = read_json(path)
    if not isinstance(document, dict):
        raise BadInput("is not a JSON object", file=str(path), remedy=f'state a "kind": {", ".join(_KINDS)}')
    kind = document.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        remedy = f"one of {', '.join(_KINDS)}"
        raise BadInput("no such kind of step time", file=str(path), field="kind", value=kind, remedy=remedy)
    return validated(document, _KINDS[kind], str(path))
