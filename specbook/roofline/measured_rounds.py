"""Times of whole rounds as a serving engine reported them: drafting and verifying together, which no pass is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from specbook.checks import BadInput, Floats, check_positive
from specbook.hardware.step_times import StepTimePoint, StepTimeTable


@dataclass(frozen=True, kw_only=True)
class MeasuredRounds:
    """Seconds of a whole round, drafting and verifying together, as a serving engine reported them.

    Attributes
    ----------
    curves : dict of int to (2, n_batch) ndarray of float64
        For each width, the batches that were measured, rising, and their seconds.

    Raises
    ------
    ValueError
        If there is no curve, or one is not of rising batches and positive times.

    Examples
    --------
    >>> times = {1: 0.011, 8: 0.018}
    >>> points = [StepTimePoint(batch=b, width=4, seconds=s, draft_steps=3, top_k=1) for b, s in times.items()]
    >>> rounds = MeasuredRounds.from_table(StepTimeTable(source="by hand", measures="round", points=points))
    >>> print(rounds(4, [1, 4.5]))
    [0.011  0.0145]
    """

    curves: dict[int, Floats]

    def __post_init__(self) -> None:
        if not self.curves:
            raise ValueError("curves must not be empty")
        for width, (batches, seconds) in self.curves.items():
            check_positive(f"seconds of width {width}", seconds)
            if np.any(np.diff(check_positive("batch", batches)) <= 0.0):
                raise ValueError(f"batch of width {width} must rise; got {batches}")

    @property
    def widths(self) -> list[int]:
        """Widths that were measured, in order; 1 is a pass without drafts."""
        return sorted(self.curves)

    @classmethod
    def from_table(
        cls, table: StepTimeTable, *, draft_steps: int | None = None, top_k: int | None = None
    ) -> MeasuredRounds:
        """Times of rounds out of a table; rounds without drafts are kept whatever is chosen.

        Parameters
        ----------
        table : StepTimeTable
            Of rounds in seconds, at one context.
        draft_steps, top_k : int, optional
            Keep rounds of this setting alone; needed where a width was measured with several.

        Raises
        ------
        BadInput
            If the table measures passes, or several contexts, or two settings of one width remain.

        Examples
        --------
        >>> point = StepTimePoint(batch=1, width=1, seconds=0.01)
        >>> MeasuredRounds.from_table(StepTimeTable(source="by hand", points=[point]))
        Traceback (most recent call last):
            ...
        specbook.checks.BadInput: by hand: measures = 'pass': measures no rounds in seconds; MeasuredSteps takes it
        """
        if table.measures != "round" or table.unit != "seconds":
            problem, remedy = "measures no rounds in seconds", "MeasuredSteps takes it"
            raise BadInput(problem, file=table.source, field="measures", value=table.measures, remedy=remedy)
        if len(table.contexts) > 1:
            problem, remedy = "rounds at several contexts", "keep one: specbook steps import --only context=…"
            raise BadInput(problem, file=table.source, field="context", value=table.contexts, remedy=remedy)
        kept = [point for point in table.points if _is_wanted(point, draft_steps, top_k)]
        if not kept:
            problem, remedy = "no round of that setting", "specbook steps show prints what was measured"
            raise BadInput(problem, file=table.source, field="draft_steps", value=draft_steps, remedy=remedy)
        by_width = {width: [point for point in kept if point.width == width] for width in {p.width for p in kept}}
        return cls(curves={width: _curve(points, table.source) for width, points in by_width.items()})

    def __call__(self, width: Any, batch: Any) -> Floats:
        """Seconds of one round, linear between the batches that were measured.

        Parameters
        ----------
        width : (...) array_like of int
            Width of the verify pass: one that was measured, never one beside it.
        batch : (...) array_like
            Sequences, within what was measured at that width.

        Returns
        -------
        (...) ndarray of float64
            Seconds, broadcast over the arguments.

        Raises
        ------
        ValueError
            If a width was not measured, or a batch lies outside the batches of its width.
        """
        widths, batches = np.broadcast_arrays(check_positive("width", width), check_positive("batch", batch))
        seconds = np.empty(widths.shape)
        for wanted in np.unique(widths):
            here = widths == wanted
            seconds[here] = self._at(float(wanted), batches[here])
        return seconds

    def _at(self, width: float, batches: Floats) -> Floats:
        if width not in self.curves:
            measured = ", ".join(map(str, self.widths))
            raise ValueError(f"width must be one of {measured}, which were measured; got {width:g}")
        known, seconds = self.curves[int(width)]
        outside = (batches < known[0]) | (batches > known[-1])
        if np.any(outside):
            span = f"lie in [{known[0]:g}, {known[-1]:g}]" if len(known) > 1 else f"be {known[0]:g}"
            got = batches[outside].flat[0]
            raise ValueError(f"batch must {span}, where width {width:g} was measured; got {got:g}")
        return np.asarray(np.interp(batches, known, seconds), dtype=np.float64)


def _is_wanted(point: StepTimePoint, draft_steps: int | None, top_k: int | None) -> bool:
    if point.width == 1:
        return True
    return (draft_steps is None or point.draft_steps == draft_steps) and (top_k is None or point.top_k == top_k)


def _curve(points: list[StepTimePoint], source: str) -> Floats:
    """Batches and seconds of one width."""
    settings = sorted({(point.draft_steps or 0, point.top_k or 0) for point in points})
    if len(settings) > 1:
        problem = f"width {points[0].width} was measured with several draft settings (steps, top-k)"
        remedy = "choose one with draft_steps and top_k"
        raise BadInput(problem, file=source, field="points", value=settings, remedy=remedy)
    points = sorted(points, key=lambda point: point.batch)
    return np.array([[point.batch for point in points], [point.seconds for point in points]], dtype=np.float64)
