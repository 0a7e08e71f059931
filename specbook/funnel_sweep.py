"""The sweep between files: evidence and hardware in, a folder of fronts, roles and break-even surfaces out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from specbook import __version__
from specbook.checks import BadInput
from specbook.files import to_json, write_text
from specbook.funnel import evidence_of
from specbook.funnel_config import FunnelConfig
from specbook.funnel_notes import funnel_notes
from specbook.parquet import write_parquet
from specbook.roofline.sweep import SweepConfig, SweepResult


def sweep_config(configs: Sequence[FunnelConfig]) -> SweepConfig:
    """The grids of several configurations, one for each target and precision.

    Raises
    ------
    BadInput
        If a profile cannot be projected, or two configurations have one target and precision.

    Examples
    --------
    >>> from specbook.funnel import example_funnel
    >>> sweep_config([example_funnel()]).n_configurations
    16
    """
    places = [f"{config.target.name} {config.precision}" for config in configs]
    for place in places:
        if places.count(place) > 1:
            remedy = "name each target and each weight format once"
            raise BadInput("swept twice", field="target and precision", value=place, remedy=remedy)
    return SweepConfig(grids=tuple(grid for config in configs for grid in config.grids()))


def sweep_notes(configs: Sequence[FunnelConfig]) -> list[str]:
    """What the figures assume, each sentence once."""
    return list(dict.fromkeys(text for config in configs for text in funnel_notes(config, _candidates(config))))


def _candidates(config: FunnelConfig) -> list[Any]:
    return [grid.candidates for grid in config.grids()]


def sweep_summary(configs: Sequence[FunnelConfig], result: SweepResult) -> dict[str, Any]:
    """The result as one JSON object: what was swept, the top three by role, break-even surfaces, notes.

    Examples
    --------
    >>> from specbook.funnel import example_funnel
    >>> from specbook.roofline.sweep import sweep
    >>> config = example_funnel()
    >>> sorted(sweep_summary([config], sweep(sweep_config([config]))))
    ['break_even', 'config', 'n_configurations', 'n_on_front', 'notes', 'paying_context', 'schema',
    'specbook_version', 'top']
    """
    first = configs[0]
    return {
        "schema": "specbook-sweep/1",
        "specbook_version": __version__,
        "config": {
            "targets": list(dict.fromkeys(config.target.name for config in configs)),
            "precisions": list(dict.fromkeys(config.precision for config in configs)),
            "draft": None if first.draft is None else first.draft.name,
            "method": first.method,
            "hardware": [profile.name for profile in first.hardware],
            "batches": list(first.batches),
            "contexts": list(first.contexts),
            "step_time": first.step_time,
            "engine_overheads": None if first.overheads is None else first.overheads.label,
            "assume": first.assume,
            "evidence": [evidence_of(profile) for profile in first.profiles],
        },
        "n_configurations": result.n_configurations,
        "n_on_front": result.front.height,
        "top": result.top.to_dicts(),
        "break_even": result.break_even.to_dicts(),
        "paying_context": result.paying_context.to_dicts(),
        "notes": sweep_notes(configs),
    }


def write_sweep(configs: Sequence[FunnelConfig], result: SweepResult, folder: Path) -> None:
    """Write ``front``, ``top``, ``break_even`` and ``paying_context`` as Parquet, and ``summary.json``, atomically.

    Raises
    ------
    BadInput
        If the folder cannot be written.
    """
    metadata = {
        "specbook.schema": "specbook-sweep/1",
        "specbook.version": __version__,
        "specbook.notes": json.dumps(sweep_notes(configs)),
    }
    for name in ("front", "top", "break_even", "paying_context"):
        frame: pl.DataFrame = getattr(result, name)
        write_parquet(folder / f"{name}.parquet", frame, metadata)
    write_text(folder / "summary.json", to_json(sweep_summary(configs, result)))
