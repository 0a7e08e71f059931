"""``specbook deploy``: what a projection found, in the form that a serving engine takes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from specbook.commands.output import JsonFlag, check_out, emit, note


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("deploy")(deploy_command)


def deploy_command(
    projection: Annotated[
        Path, typer.Option("--projection", help="A projection, or the ranking.parquet of specbook funnel.")
    ],
    engine: Annotated[
        str, typer.Option("--engine", help="vllm, sglang, llama.cpp, tensorrt-llm, dynamo or aiconfigurator.")
    ],
    context: Annotated[int | None, typer.Option("--context", min=1, help="Tokens of context to deploy for.")] = None,
    by_context: Annotated[
        bool, typer.Option("--by-context", help="A table by batch and context, which vLLM has as a proposal.")
    ] = False,
    batch: Annotated[
        int | None, typer.Option("--batch", min=1, help="One length, the best for so many requests at once.")
    ] = None,
    hardware: Annotated[str | None, typer.Option("--hardware", help="Which device of the projection.")] = None,
    domain: Annotated[str | None, typer.Option("--domain", help="What the traffic will be about.")] = None,
    method: Annotated[str | None, typer.Option("--method", help="Which method of the projection.")] = None,
    temperature: Annotated[float | None, typer.Option("--temperature", help="Which temperature of it.")] = None,
    target: Annotated[str | None, typer.Option("--target", help="Path or hub name of the target.")] = None,
    draft: Annotated[str | None, typer.Option("--draft", help="Path or hub name of the drafter.")] = None,
    min_gain: Annotated[
        float, typer.Option("--min-gain", help="A length is left only for one faster by more than this share.")
    ] = 0.03,
    min_batches: Annotated[
        int, typer.Option("--min-batches", min=1, help="Ranges of fewer batches go into a neighbour; 1: none.")
    ] = 2,
    rehearsal: Annotated[
        bool, typer.Option("--rehearsal", help="Accept drafts by chance at the measured rates; the text is noise.")
    ] = False,
    simulation: Annotated[
        Path | None, typer.Option("--simulation", help="A summary.json of specbook simulate, to be named beside it.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="The configuration to write.")] = None,
    json: JsonFlag = False,
) -> None:
    """Write the draft lengths of a projection as a serving engine's configuration."""
    from specbook.deploy.document import deployment_record, simulation_record, source_lines, write_deployment
    from specbook.deploy.engines import check_engine, deploy_to, rehearse_on
    from specbook.deploy.plan import PlanOptions, make_plan
    from specbook.deploy.projection import choose_place, read_projection
    from specbook.display import tables
    from specbook.display.deploy_terminal import show_deployment

    check_engine(engine)
    if out is not None:
        _check_files(out, [path for path in (projection, simulation) if path is not None])
    options = PlanOptions(
        context=context,
        by_context=by_context,
        batch=batch,
        min_gain=min_gain,
        min_batches=min_batches,
        target=target,
        drafter=draft,
    )
    wanted = {"hardware": hardware, "domain": domain, "method": method, "temperature": temperature}
    place = choose_place(read_projection(projection), wanted)
    plan = make_plan(place, options)
    made = (rehearse_on if rehearsal else deploy_to)(engine, plan, None if out is None else str(out))
    simulated = None if simulation is None else simulation_record(simulation, plan)
    record = deployment_record(place, plan, made, options, simulated)
    files = [] if out is None else write_deployment(out, made, record)
    for text in record.warnings:
        note(f"warning: {text}")
    if json:
        payload = None if made.payload is None else dict(made.payload)
        about = record.model_dump(mode="json", by_alias=True)
        emit({"command": made.command, "payload": payload, "_specbook": about, "out": [str(file) for file in files]})
        return
    show_deployment(plan, made)
    for text in made.notes:
        note(f"note: {text}")
    for text in source_lines(record):
        tables.say(text)
    for file in files:
        tables.say(f"wrote {file}")


def _check_files(out: Path, inputs: Sequence[Path]) -> None:
    """Refuse an output that cannot be written, or that would go over an input; the same of the record beside it."""
    from specbook.deploy.document import record_path

    check_out(out, inputs=inputs)
    check_out(record_path(out), inputs=inputs)
