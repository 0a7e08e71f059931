"""``summary.json`` of a funnel: what went in, what passed each gate, and what came out, out of the stages' files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from specbook.funnel import FunnelResult, summary
from specbook.funnel_notes import funnel_notes
from specbook.stage_folder import Gate
from specbook.stages.plan import STAGE_NAMES, THINGS, FunnelPlan, plain
from specbook.stages.roofline import RooflineTables, handed_on, read_roofline
from specbook.stages.serving import baseline_of, read_comparison, read_handed_on
from specbook.stages.witness import name_in_receipt, read_outcomes, read_own_receipt
from specbook.witness.receipt_configuration import ConfigurationRecord

# What is said of a configuration that was handed on, beside what it is: columns of ``comparison.parquet``.
_SERVED = (
    "requests_per_s", "projected_speedup", "tail_gain", "ttft_p90_s", "tpot_p90_s", "throughput_tokens_per_s",
    "goodput_requests_per_s",
)  # fmt: skip


def funnel_document(plan: FunnelPlan, root: Path, gates: Mapping[str, Gate]) -> dict[str, Any]:
    """All of a funnel as one JSON object; nothing in it depends on when or how fast it ran.

    Parameters
    ----------
    plan : FunnelPlan
    root : Path
        The folder of the stages' folders.
    gates : mapping of str to Gate
        Of the stages that ran, in order.

    Raises
    ------
    BadInput
        If a file of a stage cannot be read.
    """
    document = summary(_projected(plan, root, gates))
    document["config"] |= {
        "load": plan.load.inputs,
        "slo": asdict(plan.slo),
        "engine": plain(plan.limits),
        "seed": plan.seed,
    }
    if plan.choices.hardware:  # those that were asked for, not those that are left
        document["config"]["hardware"] = [device.name for device in plan.choices.hardware]
    for gate, stage in zip(document["gates"], gates, strict=True):
        gate["of"] = THINGS[stage]
    document["notes"] += plan.load.notes
    document["handed_on"] = _handed_on(root) if STAGE_NAMES[3] in gates else []
    document["witness"] = _witnessed(root) if STAGE_NAMES[4] in gates else None
    return document


def stage_label(name: str) -> str:
    """A stage as people call it, without the number of its folder.

    Examples
    --------
    >>> stage_label("3-roofline")
    'roofline'
    """
    return name.partition("-")[2]


def _projected(plan: FunnelPlan, root: Path, gates: Mapping[str, Gate]) -> FunnelResult:
    """Stage 3 as ``specbook project`` knows it; without rows where it did not run or nothing came so far."""
    has_hardware, is_projected = STAGE_NAMES[1] in gates, STAGE_NAMES[2] in gates
    config = handed_on(plan, root, has_hardware=has_hardware)
    grids = config.grids() if config.profiles and config.hardware else []
    tables = read_roofline(root) if is_projected else RooflineTables.empty()
    return FunnelResult(
        config=config,
        grids=tuple(grids),
        ranking=tables.ranking,
        break_even=tables.break_even,
        gates={stage_label(name): gate for name, gate in gates.items()},
        notes=funnel_notes(config, [grid.candidates for grid in grids]) if grids else (),
    )


def _handed_on(root: Path) -> list[dict[str, Any]]:
    """The configurations that left stage 4, with their figures under the load and those without speculation."""
    comparison = read_comparison(root)
    rows = []
    for row in read_handed_on(root):
        served = comparison.filter(name=row["name"]).row(0, named=True)
        plain_row = baseline_of(comparison, row) or {}
        without = {f"{name}_without": plain_row.get(name) for name in ("tpot_p90_s", "throughput_tokens_per_s")}
        rows.append({**row, **{name: served[name] for name in _SERVED}, **without})
    return rows


def _witnessed(root: Path) -> dict[str, Any]:
    """What stage 5 says of each configuration, with the figures of its receipt."""
    receipt = read_own_receipt(root)
    records = {} if receipt is None else {record.name: record for record in receipt.configurations}
    names = {row["name"]: name_in_receipt(row) for row in read_handed_on(root)}
    outcomes = [each | _figures(records.get(names[each["name"]])) for each in read_outcomes(root)]
    return {
        "verdict": None if receipt is None else receipt.verdict,
        "receipt_sha256": None if receipt is None else receipt.receipt_sha256,
        "configurations": outcomes,
    }


def _figures(record: ConfigurationRecord | None) -> dict[str, Any]:
    if record is None:
        return {}
    forecast = record.forecast
    return {
        "measured_p90_tpot_s": record.measured_p90_tpot_s.value,
        "simulated_p90_tpot_s": record.simulated_p90_tpot_s.value,
        "error": record.error.value,
        "forecast_p90_tpot_s": None if forecast is None else forecast.p90_tpot_s.value,
        "forecast_error": None if forecast is None else forecast.error.value,
        "speedup": record.speedup.value,
    }
