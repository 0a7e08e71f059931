"""Step times as they were measured: interpolated in a table, exact at its points, and never beyond it in silence.

Between neighbours a time is close to linear in width, batch and context, so that the interpolation is linear along
each; a staircase stays one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy.interpolate import RegularGridInterpolator

from specbook.checks import BadInput, Floats, check_non_negative, check_positive
from specbook.hardware.profile import HardwareProfile
from specbook.hardware.step_times import StepTimeTable

Axis = Literal["width", "batch", "context"]
AXES: tuple[Axis, ...] = ("width", "batch", "context")


@dataclass(frozen=True, kw_only=True)
class MeasuredSteps:
    """Seconds of one forward pass, interpolated between measured ones; a step time like the rooflines.

    Attributes
    ----------
    width : (n_width,) ndarray of float64
        Positions of each sequence that were measured, rising.
    batch : (n_batch,) ndarray of float64
        Sequences, rising.
    context : (n_context,) ndarray of float64
        Tokens in each sequence, rising; empty if nobody wrote down at which context the times were measured.
    seconds : (n_width, n_batch, max(1, n_context)) ndarray of float64
        Times, all above 0.
    nearest : tuple of "width", "batch" or "context"
        Axes along which a value outside the table takes the nearest measured one instead of being refused.

    Raises
    ------
    ValueError
        If an axis does not rise, or the times do not fit the axes.

    See Also
    --------
    MeasuredSteps.from_table : From a table of step times.

    Examples
    --------
    >>> from specbook.hardware.step_times import StepTimePoint
    >>> points = [StepTimePoint(batch=1, context=512, width=w, seconds=s) for w, s in ((1, 0.01), (5, 0.014))]
    >>> step = MeasuredSteps.from_table(StepTimeTable(source="by hand", points=points))
    >>> print(step([1, 3, 5], 1, 512))
    [0.01  0.012 0.014]
    """

    width: Floats
    batch: Floats
    context: Floats
    seconds: Floats
    nearest: tuple[Axis, ...] = ()
    kind: str = field(default="measured", init=False)
    overhead_s: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        check_positive("seconds", self.seconds)
        for name in AXES:
            axis = getattr(self, name)
            if np.any(np.diff(check_non_negative(name, axis)) <= 0.0):
                raise ValueError(f"{name} must rise; got {axis}")
        shape = (len(self.width), len(self.batch), max(1, len(self.context)))
        if self.seconds.shape != shape or 0 in shape:
            raise ValueError(f"seconds must have the shape {shape} of the axes; got {self.seconds.shape}")
        for name in self.nearest:
            if name not in AXES:
                raise ValueError(f"nearest must name some of {', '.join(AXES)}; got {name}")

    @classmethod
    def from_table(
        cls, table: StepTimeTable, *, one_pass_s: float | None = None, nearest: Sequence[Axis] = ()
    ) -> MeasuredSteps:
        """Times of passes out of a table.

        Parameters
        ----------
        table : StepTimeTable
            A full grid of passes.
        one_pass_s : float, optional
            Seconds of the pass over one position in one sequence: needed where the table is relative to it, and
            refused where the table holds seconds.
        nearest : sequence of "width", "batch" or "context"
            As the attribute.

        Raises
        ------
        BadInput
            If the table has a hole, measures rounds, or is relative and ``one_pass_s`` is missing.
        ValueError
            If ``one_pass_s`` is not wanted, or not positive.

        Examples
        --------
        >>> from specbook.hardware.step_times import StepTimePoint
        >>> points = [StepTimePoint(batch=1, width=w, seconds=s) for w, s in ((1, 1.0), (2, 1.21))]
        >>> table = StepTimeTable(source="by hand", unit="relative", points=points)
        >>> step = MeasuredSteps.from_table(table, one_pass_s=0.02, nearest=["context"])
        >>> print(step([1, 2], 1, 4096).round(4))
        [0.02   0.0242]
        """
        if table.measures != "pass":
            remedy = "MeasuredRounds takes it; a pass by itself has to be measured"
            raise BadInput("measures rounds, not passes", file=table.source, field="measures", remedy=remedy)
        hole = table.hole()
        if hole is not None:
            remedy = "measure it, or keep a full part of the table: specbook steps import --only context=…"
            raise BadInput(f"has a hole at {hole}", file=table.source, field="points", remedy=remedy)
        scale = _scale(table, one_pass_s)
        contexts = [context for context in table.contexts if context is not None]
        axes = (table.widths, table.batches, table.contexts)
        places = [{value: place for place, value in enumerate(axis)} for axis in axes]
        seconds = np.empty([len(axis) for axis in axes])
        for point in table.points:
            seconds[places[0][point.width], places[1][point.batch], places[2][point.context]] = scale * point.seconds
        return cls(
            width=np.array(table.widths, dtype=np.float64),
            batch=np.array(table.batches, dtype=np.float64),
            context=np.array(contexts, dtype=np.float64),
            seconds=seconds,
            nearest=tuple(nearest),
        )

    def __call__(self, tokens: Any, batch: Any, context: Any, xp: Any = np) -> Floats:
        """Seconds of one forward pass.

        Parameters
        ----------
        tokens, batch, context : (...) array_like
            Positions of each sequence, sequences, tokens in each; fractions are allowed, as means of trees have them.
        xp : namespace
            numpy, and no other: a table is no formula that a page could evaluate.

        Returns
        -------
        (...) ndarray of float64
            Seconds, broadcast over the arguments.

        Raises
        ------
        ValueError
            If a value lies outside the table, along an axis that ``nearest`` does not name.
        """
        if xp is not np:
            raise ValueError(f"xp must be numpy, since measured times are a table and no formula; got {xp}")
        values = zip(AXES, (tokens, batch, context), strict=True)
        inside = np.broadcast_arrays(*(self._inside(name, value) for name, value in values))
        shape = inside[0].shape
        times = self._interpolator(np.stack([value.ravel() for value in inside], axis=-1))
        return np.asarray(times, dtype=np.float64).reshape(shape)

    @cached_property
    def _interpolator(self) -> RegularGridInterpolator:
        context = self.context if self.context.size else np.zeros(1)
        return RegularGridInterpolator((self.width, self.batch, context), self.seconds)

    def _inside(self, name: Axis, value: Any) -> Floats:
        """The values of one argument, as the table can be asked for them."""
        values, axis = check_non_negative("tokens" if name == "width" else name, value), getattr(self, name)
        if not axis.size:
            if name not in self.nearest:
                first = f"{values.flat[0]:g}" if values.size else "none"
                problem = f"the table does not say at which {name} it was measured; got {first}"
                raise ValueError(f"{problem}; state it at import, or let nearest name {name}")
            return np.zeros_like(values)
        low, high = axis[0], axis[-1]
        outside = (values < low) | (values > high)
        if np.any(outside) and name not in self.nearest:
            measured = f"lie in [{low:g}, {high:g}]" if high > low else f"be {low:g}"
            raise ValueError(f"{name} must {measured}, where it was measured; got {values[outside].flat[0]:g}")
        return np.clip(values, low, high)


def _scale(table: StepTimeTable, one_pass_s: float | None) -> float:
    if table.unit == "seconds":
        if one_pass_s is not None:
            raise ValueError(f"one_pass_s must be left out, since the table holds seconds; got {one_pass_s}")
        return 1.0
    if one_pass_s is None:
        problem = "one_pass_s must be given, since the table is relative to one pass over one position"
        remedy = "give its seconds, or bring a table in seconds"
        raise BadInput(problem, file=table.source, field="unit", value=table.unit, remedy=remedy)
    return float(check_positive("one_pass_s", one_pass_s))


def measured_steps(
    profile: HardwareProfile,
    model: str,
    engine: str | None = None,
    *,
    one_pass_s: float | None = None,
    nearest: Sequence[Axis] = (),
) -> MeasuredSteps:
    """The step times of a model that a hardware profile holds.

    Parameters
    ----------
    profile : HardwareProfile
    model : str
        As the table names it, upper or lower case.
    engine : str, optional
        As the table names it; needed where the profile holds the model under several.
    one_pass_s, nearest
        As in :meth:`MeasuredSteps.from_table`.

    Raises
    ------
    BadInput
        If the profile holds no such table, or several; it says what is there.

    Examples
    --------
    >>> from specbook.hardware.profile import catalogue_device
    >>> measured_steps(catalogue_device("l4"), "Llama-3.1-8B")
    Traceback (most recent call last):
        ...
    specbook.checks.BadInput: step_times = 'Llama-3.1-8B': no measured passes of that model on l4; it holds none at all
    """
    passes = [table for table in profile.step_times if table.measures == "pass"]
    held = [table for table in passes if _is_called(table.model, model)]
    chosen = [table for table in held if engine is None or _is_called(table.engine, engine)]
    if len(chosen) == 1:
        return MeasuredSteps.from_table(chosen[0], one_pass_s=one_pass_s, nearest=nearest)
    listed = ", ".join(f"{table.model or 'unnamed'} under {table.engine or 'unnamed'}" for table in held or passes)
    value = model if engine is None else f"{model} under {engine}"
    problem = "several measured tables" if chosen else "no measured passes"
    problem += f" of that model {'under that engine ' if held and engine else ''}on {profile.name}"
    remedy = f"it holds {listed}" if listed else "it holds none at all"
    remedy += "; name one with --backend" if chosen else ""
    raise BadInput(problem, field="step_times", value=value, remedy=remedy)


def _is_called(name: str | None, wanted: str) -> bool:
    return name is not None and name.casefold() == wanted.casefold()
