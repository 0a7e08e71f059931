"""One device under the load: no speculation, the drafts of its roles, and the schedule by batch, with the same luck."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from specbook.acceptance.candidates import Assumption
from specbook.acceptance.profile import AcceptanceProfile
from specbook.checks import BadInput
from specbook.funnel_config import FunnelConfig
from specbook.roofline.frontier import EVIDENCE
from specbook.serving.compare import compare_serving
from specbook.serving.serving_config import ServingConfig
from specbook.serving.slo import Slo
from specbook.serving_setup import DraftEvidence, EngineLimits, ServingSetup, drafts_from, setup_from_models
from specbook.stages.acceptance import same_evidence
from specbook.stages.load import FunnelLoad
from specbook.stages.plan import FunnelPlan
from specbook.stages.roofline import RooflineTables, distinct_drafts, nearest_context

NO_SPECULATION, DRAFTED, SCHEDULED = "no speculation", "draft", "schedule"
# What the comparison says of each configuration, before its figures.
_LABELS = ("target", "drafter", *EVIDENCE, "draft_length", "tree_nodes", "roles")


@dataclass(frozen=True, kw_only=True, eq=False)
class Schedule:
    """Draft length by batch, from the ranking: that of the fastest in each cell.

    Attributes
    ----------
    length_by_batch : mapping of int to int
        First batch of a range → K.
    profiles : tuple of AcceptanceProfile
        What knows the laws.
    rows : tuple of dict
        The same for a table, with the device and the evidence.
    """

    length_by_batch: Mapping[int, int]
    profiles: tuple[AcceptanceProfile, ...]
    rows: tuple[dict[str, Any], ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class DeviceTask:
    """What one device is to run: everything that another process needs for it.

    Attributes
    ----------
    config : FunnelConfig
        Of this device alone, with all profiles.
    drafts : tuple of dict
        Rows of the roles' drafts.
    schedules : tuple of Schedule
        One for each piece of evidence.
    load : FunnelLoad
    slo : Slo
    limits : EngineLimits
    seed : int
    """

    config: FunnelConfig
    drafts: tuple[dict[str, Any], ...]
    schedules: tuple[Schedule, ...]
    load: FunnelLoad
    slo: Slo
    limits: EngineLimits
    seed: int

    @property
    def device(self) -> str:
        """Its name."""
        return self.config.hardware[0].name


def device_tasks(plan: FunnelPlan, config: FunnelConfig, tables: RooflineTables) -> list[DeviceTask]:
    """A task for each device that has a draft to try, in the order of the devices."""
    if tables.top.is_empty():
        return []
    drafts = distinct_drafts(tables.top)
    context = nearest_context(config.contexts, plan.load.typical_context_tokens)
    cells = tables.ranking.filter((pl.col("rank") == 1) & (pl.col("context") == context))
    tasks = []
    for device in config.hardware:
        rows = drafts.filter(hardware=device.name).to_dicts()
        if rows:
            own = cells.filter(hardware=device.name)
            tasks.append(
                DeviceTask(
                    config=replace(config, hardware=(device,), contexts=(plan.load.longest_tokens,)),
                    drafts=tuple(rows),
                    schedules=tuple(_schedules(config.profiles, own.filter(pl.col("batch") <= plan.limits.max_batch))),
                    load=plan.load,
                    slo=plan.slo,
                    limits=plan.limits,
                    seed=plan.seed,
                )
            )
    return tasks


def _schedules(profiles: Sequence[AcceptanceProfile], cells: pl.DataFrame) -> list[Schedule]:
    """Schedules of chains, where batches want more than one draft length."""
    found = []
    for _, group in cells.group_by(EVIDENCE, maintain_order=True):
        ordered = group.sort("batch")
        ranges: dict[int, int] = {}
        for batch, length in ordered.select("batch", "draft_length").iter_rows():
            if not ranges or list(ranges.values())[-1] != length:
                ranges[batch] = length
        is_chain = ordered["tree_nodes"].null_count() == ordered.height
        own = _chains(same_evidence(profiles, ordered.row(0, named=True)))
        if len(ranges) > 1 and is_chain and own and ordered["batch"].min() == 1:
            labels = ("hardware", *EVIDENCE, "context", "batch", "draft_length", "speedup")
            found.append(
                Schedule(length_by_batch=ranges, profiles=own, rows=tuple(ordered.select(labels).iter_rows(named=True)))
            )
    return found


def run_device(task: DeviceTask) -> list[dict[str, Any]]:
    """Simulate a device's configurations, and judge each against no speculation.

    Parameters
    ----------
    task : DeviceTask

    Returns
    -------
    list of dict
        One row each: the device's own load without speculation first. What cannot be simulated has its reason and no
        figures.
    """
    setups: dict[str, ServingSetup] = {}
    labels: dict[str, dict[str, Any]] = {}
    refused: list[dict[str, Any]] = []
    for name, about, evidence in _told_apart(_wanted(task)):
        try:
            setups[name] = _setup(task, evidence, about)
            labels[name] = about
        except BadInput as error:
            refused.append(_refused(task, name, about, error))
    if not setups:
        return refused
    try:
        return [*_compared(task, setups, labels), *refused]
    except BadInput as error:
        return [*(_refused(task, name, about, error) for name, about in labels.items()), *refused]


Wanted = tuple[str, dict[str, Any], DraftEvidence]


def _told_apart(wanted: Sequence[Wanted]) -> Iterator[Wanted]:
    """The same with names of their own, where evidence of different pairs gives drafts that are called alike."""
    seen: Counter[str] = Counter()
    for name, about, evidence in wanted:
        seen[name] += 1
        yield (name if seen[name] == 1 else f"{name} ({seen[name]})"), about, evidence


def _wanted(task: DeviceTask) -> list[Wanted]:
    """Name, labels and evidence of each configuration that drafts."""
    assume: Assumption = task.config.assume
    found = []
    for row in task.drafts:
        profiles = _speaking_for(row, task.config.profiles)
        evidence = DraftEvidence(profiles=profiles, draft_length=row["draft_length"], assume=assume)
        about = {"kind": DRAFTED, **{name: row[name] for name in _LABELS}, "projected_speedup": row["speedup"]}
        found.append((_name(task.device, row), about, evidence))
    for schedule in task.schedules:
        by_batch = {(batch, 0): length for batch, length in schedule.length_by_batch.items()}
        text = ", ".join(f"{batch}: {length}" for batch, length in schedule.length_by_batch.items())
        first = schedule.rows[0]
        about = {"kind": SCHEDULED, "target": task.config.target.name, **{name: first[name] for name in EVIDENCE}}
        evidence = DraftEvidence(profiles=schedule.profiles, schedule=by_batch, assume=assume)
        found.append((f"{task.device}: K by batch {text}{_of(first)}", {**about, "schedule": text}, evidence))
    return found


def _speaking_for(row: Mapping[str, Any], profiles: Sequence[AcceptanceProfile]) -> tuple[AcceptanceProfile, ...]:
    """Of a row's evidence the tree that it is, or the chains; a tree of another shape, where there is nothing else."""
    own = same_evidence(profiles, row)
    chains, trees = _chains(own), tuple(profile for profile in own if profile.tree is not None)
    if chains and row["tree_nodes"] is None:
        return chains
    return tuple(tree for tree in trees if _measured_nodes(tree) == row["tree_nodes"]) or trees[:1]


def _chains(profiles: Sequence[AcceptanceProfile]) -> tuple[AcceptanceProfile, ...]:
    return tuple(profile for profile in profiles if profile.tree is None)


def _measured_nodes(profile: AcceptanceProfile) -> int | None:
    """Nodes of the tree that a profile was measured with."""
    return None if profile.tree is None or profile.measurement is None else len(profile.measurement.parents)


def _name(device: str, row: Mapping[str, Any]) -> str:
    """What a table calls a draft: its device, what drafts, how much, and on which prompts it was measured."""
    nodes = "" if row["tree_nodes"] is None else f", {row['tree_nodes']} nodes"
    return f"{device}: {row['drafter']}, K = {row['draft_length']}{nodes}{_of(row)}"


def _of(row: Mapping[str, Any]) -> str:
    temperature = "" if row["temperature"] in (None, 0.0) else f", temperature {row['temperature']:g}"
    return (f", {row['domain']}" if row["domain"] else "") + temperature


def _setup(task: DeviceTask, evidence: DraftEvidence, about: Mapping[str, Any]) -> ServingSetup:
    trees = [profile for profile in evidence.profiles if profile.tree is not None]
    if trees and (about["tree_nodes"] or about["draft_length"]) not in map(_measured_nodes, trees):
        raise BadInput("only the tree that was measured can be simulated", remedy="measure this tree", field="tree")
    # What drafting costs like depends on what other evidence is there, as it did in the projection.
    method = task.config.method_of(evidence.profiles[0].method)
    draft = task.config.draft if method == "draft_model" else None
    own = replace(task.config, profiles=evidence.profiles, method=method, draft=draft)
    return setup_from_models(own, drafts_from(evidence), task.limits)


def _compared(
    task: DeviceTask, setups: Mapping[str, ServingSetup], labels: Mapping[str, dict[str, Any]]
) -> list[dict[str, Any]]:
    baseline = next(iter(setups.values())).baseline
    plain_name = f"{task.device}: {NO_SPECULATION}"
    configs: dict[str, ServingConfig] = {plain_name: baseline}
    configs |= {name: setup.config for name, setup in setups.items()}
    workload = task.load.on(baseline.iteration_time)
    table = compare_serving(configs, workload, seed=task.seed, slo=task.slo)
    about = {"kind": NO_SPECULATION, "target": task.config.target.name, "draft_length": 0}
    tails = f"tpot_p{task.slo.percentile}_s"
    plain = table.row(0, named=True)
    rows = []
    for row in table.iter_rows(named=True):
        gain = None if not row[tails] or plain[tails] is None else plain[tails] / row[tails]
        own = labels.get(row["name"], about)
        rows.append(_row(task, row["name"], own) | _figures(row) | {"tail_gain": gain})
    return rows


def _row(task: DeviceTask, name: str, about: Mapping[str, Any]) -> dict[str, Any]:
    """The columns before the figures, null where they do not apply."""
    columns = ("kind", *_LABELS, "schedule", "projected_speedup")
    return {"name": name, "hardware": task.device} | {column: about.get(column) for column in columns}


def _figures(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in ("name", "draft_length")}


def _refused(task: DeviceTask, name: str, about: Mapping[str, Any], error: BadInput) -> dict[str, Any]:
    field = "" if error.field is None else f"{error.field}: "
    reason = f"{field}{error.problem}".replace("; ", ", ")
    return _row(task, name, about) | {"viable": False, "reason": reason, "tail_gain": None}
