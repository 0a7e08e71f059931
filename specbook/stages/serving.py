"""Stage 4: every device under the load, with the drafts of its roles and without; at most three of all go on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl

from specbook import __version__
from specbook.files import read_json, to_json, write_bytes, write_text
from specbook.parquet import parquet_bytes
from specbook.roofline.frontier import EVIDENCE
from specbook.roofline.roles import ROLES
from specbook.scale.in_order import in_order
from specbook.stage_folder import Gate, Stage
from specbook.stages.device_run import NO_SPECULATION, DeviceTask, device_tasks, run_device
from specbook.stages.plan import MOST_HANDED_ON, STAGE_NAMES, FunnelPlan, Working, plain
from specbook.stages.roofline import handed_on, read_roofline

NAME = STAGE_NAMES[3]
NOT_OF_THE_BEST = "not among the three that are handed on"
# Beginnings and parts of a gate's sentences → the reason without its figures, so that reasons can be counted.
_REASONS = (
    ("unstable", "unstable under the load"),
    (" > ", "misses an objective"),
    ("waiting", "waits longer than without speculation"),
    ("without speculation", "longer TPOT tail than without speculation"),
)


def serving_stage(plan: FunnelPlan, working: Working, executor: Executor | None = None) -> Stage:
    """``comparison.parquet``, ``schedule.parquet`` and ``handed_on.json``."""

    def run(folder: Path) -> Gate:
        config, tables = handed_on(plan, folder.parent), read_roofline(folder.parent)
        tasks = device_tasks(plan, config, tables)
        comparison = _chosen(_simulated(tasks, working, executor))
        write_bytes(folder / "comparison.parquet", _parquet(comparison))
        write_bytes(folder / "schedule.parquet", _parquet(_schedules(tasks)))
        write_text(folder / "handed_on.json", to_json(_handed_on(comparison)))
        return _gate(comparison)

    return Stage(name=NAME, inputs=_inputs(plan), run=run)


def _inputs(plan: FunnelPlan) -> dict[str, Any]:
    return {
        **plan.model_inputs,
        **plan.evidence_inputs,
        "load": plan.load.inputs,
        "slo": asdict(plan.slo),
        "engine": plain(plan.limits),
        "seed": plan.seed,
    }


def _simulated(tasks: Sequence[DeviceTask], working: Working, executor: Executor | None) -> list[dict[str, Any]]:
    """Rows of all devices in their order, wherever they were simulated."""
    rows: list[dict[str, Any]] = []
    with working("simulating", len(tasks)) as progress:
        for found in in_order(run_device, tasks, executor):
            rows += found
            progress(1)
    return rows


def _chosen(rows: Sequence[dict[str, Any]]) -> pl.DataFrame:
    """All rows, with what was handed on: of the drafts that stay, the one with the greatest gain of each role first."""
    if not rows:
        return pl.DataFrame(schema={"kind": pl.String, "viable": pl.Boolean, "handed_on": pl.Boolean})
    frame = pl.DataFrame(rows, infer_schema_length=None).with_row_index("row")
    left = frame.filter((pl.col("kind") == "draft") & pl.col("viable")).sort(
        "tail_gain", descending=True, nulls_last=True, maintain_order=True
    )
    chosen: list[int] = []
    for role in _roles_of(left):
        with_role = left.filter(pl.col("roles").str.contains(role, literal=True) & ~pl.col("row").is_in(chosen))
        chosen += with_role["row"].head(1).to_list()
    rest = left.filter(~pl.col("row").is_in(chosen))["row"].to_list()
    kept = [*chosen, *rest][:MOST_HANDED_ON]
    return frame.with_columns(handed_on=pl.col("row").is_in(kept)).drop("row")


def _roles_of(left: pl.DataFrame) -> list[str]:
    present = ", ".join(left["roles"].drop_nulls().to_list())
    return [role for role in ROLES if role in present]


def _gate(comparison: pl.DataFrame) -> Gate:
    drafts = comparison.filter(pl.col("kind") == "draft")
    if drafts.is_empty():
        return Gate(entered=0, left=0, dropped={})
    reasons = [reason_in_short(text) for text in drafts.filter(~pl.col("viable"))["reason"]]
    n_left = drafts.filter("handed_on").height
    beyond = drafts.filter("viable").height - n_left
    dropped = dict(Counter(reasons).most_common()) | ({NOT_OF_THE_BEST: beyond} if beyond else {})
    return Gate(entered=drafts.height, left=n_left, dropped=dropped)


def reason_in_short(text: str) -> str:
    """The first sentence of the gate without its figures.

    Examples
    --------
    >>> reason_in_short("p90 TPOT 31.0 ms, without speculation 22.1 ms; p90 waiting 3.0 s, without speculation 1.0 s")
    'longer TPOT tail than without speculation'
    >>> reason_in_short("the cost of this method is not modelled")
    'cannot be simulated: the cost of this method is not modelled'
    """
    first = text.split("; ", maxsplit=1)[0]
    found = next((short for part, short in _REASONS if part in first), None)
    return f"cannot be simulated: {first}" if found is None else found


def _handed_on(comparison: pl.DataFrame) -> list[dict[str, Any]]:
    """What stage 5 needs of the drafts that go on."""
    if comparison.is_empty():
        return []
    names = ("name", "hardware", "target", "drafter", *EVIDENCE, "draft_length", "tree_nodes", "roles")
    return comparison.filter("handed_on").select(names).to_dicts()


def _schedules(tasks: Sequence[DeviceTask]) -> pl.DataFrame:
    """Draft length by batch of every device and evidence, at the context of the load."""
    rows = [row for task in tasks for schedule in task.schedules for row in schedule.rows]
    return pl.DataFrame(rows, infer_schema_length=None) if rows else pl.DataFrame(schema={"hardware": pl.String})


def _parquet(frame: pl.DataFrame) -> bytes:
    return parquet_bytes(frame, {"specbook.schema": "specbook-comparison/1", "specbook.version": __version__})


def read_handed_on(root: Path) -> list[dict[str, Any]]:
    """The configurations that go on to stage 5.

    Raises
    ------
    BadInput
        If the file cannot be read.
    """
    rows: list[dict[str, Any]] = read_json(root / NAME / "handed_on.json")
    return rows


def read_schedules(root: Path) -> pl.DataFrame:
    """Draft length by batch; without columns but the device's where every batch wants the same."""
    return pl.read_parquet(root / NAME / "schedule.parquet")


def read_comparison(root: Path) -> pl.DataFrame:
    """The table of stage 4."""
    return pl.read_parquet(root / NAME / "comparison.parquet")


def baseline_of(comparison: pl.DataFrame, row: Mapping[str, Any]) -> dict[str, Any] | None:
    """The row without speculation of the same device."""
    found = comparison.filter((pl.col("kind") == NO_SPECULATION) & (pl.col("hardware") == row["hardware"]))
    return found.row(0, named=True) if found.height else None
