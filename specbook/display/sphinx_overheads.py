"""What engines spend beside their passes, as a table of the book."""

from __future__ import annotations

from docutils import nodes

from specbook.display.sphinx_nodes import Cell, table
from specbook.roofline.engine_overheads import EngineOverheads, engine_names, engine_overheads

_HEADINGS = ("engine", ">ms a draft pass", ">ms a round", ">of a step, a further position", "evidence")


def overheads_table() -> list[nodes.Element]:
    """Every engine of ``--engine-overheads``, with intervals where the figures were fitted.

    Examples
    --------
    >>> len(overheads_table())
    1
    """
    return [table(_HEADINGS, [_cells(engine_overheads(name)) for name in engine_names()])]


def _cells(found: EngineOverheads) -> tuple[Cell, ...]:
    evidence = found.source if found.evidence == "assumed" else f"{found.n_rows} rows of {found.n_series} series"
    return (
        found.engine,
        _fitted(found, "draft_pass_s", 1e3),
        _fitted(found, "round_s", 1e3),
        _fitted(found, "row_share", 1.0),
        f"{found.evidence}: {evidence}",
    )


def _fitted(found: EngineOverheads, name: str, scale: float) -> str:
    """A constant with its interval if it was fitted; a dash for one that is 0."""
    value = scale * getattr(found, name)
    bounds = {each: (scale * low, scale * high) for each, low, high in found.intervals}.get(name)
    if bounds is not None:
        return f"{value:.2g} ({bounds[0]:.2g} to {bounds[1]:.2g})"
    return f"{value:.2g}" if value else "–"
