"""What is written about a deployment: the record beside it, and the lines above it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from specbook import __version__
from specbook.deploy.cautions import cautions
from specbook.deploy.deployment import Deployment, Plan
from specbook.deploy.deployment_file import (
    DeploymentFile,
    ProjectionRecord,
    RangeRecord,
    ScheduleRecord,
    SimulationRecord,
)
from specbook.deploy.plan import PlanOptions
from specbook.deploy.projection import Place
from specbook.files import dump_model, read_model, sha256_of, write_text
from specbook.serving.summary_file import ServingSummaryFile

_PLACE = (
    "hardware", "n_devices", "target", "drafter", "precision", "draft_precision", "measured_target",
    "measured_drafter", "domain", "temperature",
)  # fmt: skip


def deployment_record(
    place: Place, plan: Plan, made: Deployment, options: PlanOptions, simulation: SimulationRecord | None = None
) -> DeploymentFile:
    """Everything about a deployment that is not for the engine: where it came from and how far to believe it.

    Parameters
    ----------
    place : Place
    plan : Plan
    made : Deployment
    options : PlanOptions
    simulation : SimulationRecord or None
        Its warnings follow those of the plan.

    Returns
    -------
    DeploymentFile
    """
    projection, labels = place.projection, place.labels
    return DeploymentFile(
        specbook_version=__version__,
        engine=made.engine,
        command=made.command,
        is_rehearsal=made.is_rehearsal,
        method=plan.method,
        draft_lengths=list(plan.draft_lengths),
        schedules=[
            ScheduleRecord(
                first_context=each.first_context,
                ranges=[RangeRecord.model_validate(asdict(one)) for one in each.ranges],
            )
            for each in plan.schedules
        ],
        min_gain=options.min_gain,
        min_batches=options.min_batches,
        warnings=[*cautions(place, plan), *(simulation.warnings if simulation is not None else ())],
        engine_notes=list(made.notes),
        schema_sources=list(made.schema_sources),
        projection=ProjectionRecord(
            file=projection.file, sha256=projection.sha256, specbook_version=projection.specbook_version
        ),
        projection_notes=list(projection.notes),
        evidence=[dict(each) for each in place.evidence()],
        place={name: labels.get(name) for name in _PLACE},
        step_time_kind=str(labels["step_time_kind"]),
        step_time_source=labels.get("step_time_source"),
        simulation=simulation,
    )


def simulation_record(path: Path, plan: Plan) -> SimulationRecord:
    """What a summary of ``specbook simulate`` says beside a plan.

    Raises
    ------
    BadInput
        If the file is no such summary.
    """
    found = read_model(path, ServingSummaryFile)
    return SimulationRecord(
        file=path.name,
        sha256=sha256_of(path),
        draft_lengths=sorted(set(found.parameters.draft_lengths)),
        stable=found.stable,
        p90_tpot_s=found.tpot_s.p90,
        warnings=list(_simulation_warnings(found, plan)),
    )


def _simulation_warnings(found: ServingSummaryFile, plan: Plan) -> Iterator[str]:
    lengths = sorted(set(found.parameters.draft_lengths))
    if not found.stable:
        yield "the simulated load was more than the engine could serve"
    if not set(plan.draft_lengths) <= {0, *lengths}:
        deployed = ", ".join(map(str, plan.draft_lengths))
        yield f"the simulation drafted {', '.join(map(str, lengths))}, and the deployment {deployed}"
    if found.comparison is not None:
        yield from (f"the simulation speaks against speculation: {reason}" for reason in found.comparison.reasons)


def source_lines(record: DeploymentFile) -> list[str]:
    """What a deployment was made from, a line each, with its SHA-256."""
    projection = record.projection
    return [
        f"projection {projection.file}: SHA-256 {projection.sha256}",
        *(_source_line(source) for each in record.evidence for source in each.get("provenance", [])),
        f"step times: {record.step_time_kind}, {record.step_time_source or 'of several sources'}",
    ]


def _source_line(source: Mapping[str, Any]) -> str:
    """A file with its hash, or the bibliography key of a published figure, which has none."""
    if source.get("sha256"):
        return f"evidence {source.get('file')}: SHA-256 {source['sha256']}"
    return (
        f"evidence {source.get('key') or source.get('file') or 'of no named file'}: published, without a file to hash"
    )


def comment_lines(record: DeploymentFile) -> list[str]:
    """The record in a few lines, each a comment of a shell or a YAML file."""
    lines = [
        f"specbook {record.specbook_version}, {record.schema_}, for {record.engine}",
        *source_lines(record),
        *(f"warning: {text}" for text in record.warnings),
        *(f"note: {text}" for text in record.engine_notes),
    ]
    return [f"# {' '.join(line.split())}" for line in lines]


def record_path(path: Path) -> Path:
    """Where the record of a deployment lies.

    Examples
    --------
    >>> record_path(Path("spec.json")).name
    'spec.json.provenance.json'
    """
    return path.with_name(f"{path.name}.provenance.json")


def write_deployment(path: Path, made: Deployment, record: DeploymentFile) -> list[Path]:
    """Write what the engine reads, and beside it the record.

    Returns
    -------
    list of Path
        The files.

    Raises
    ------
    BadInput
        If a file cannot be written.
    """
    beside = record_path(path)
    lines = [] if made.file_format == "json" else comment_lines(record)
    write_text(path, "\n".join([*lines, made.file_text]))
    write_text(beside, dump_model(record))
    return [path, beside]
