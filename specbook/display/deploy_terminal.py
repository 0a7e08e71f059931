"""A deployment on a terminal: the schedule with what it costs, then the line to copy."""

from __future__ import annotations

from specbook.deploy.deployment import Deployment, Plan
from specbook.deploy.schedule import BatchRange
from specbook.display.tables import open_console, plain_table, safe_text, say


def show_deployment(plan: Plan, made: Deployment) -> None:
    """The schedule of each context, the command line, and the configuration where it is a file."""
    table = plain_table(">context", ">batch", ">K", ">speedup", ">loss", title=f"{plan.method} on {made.engine}")
    for place in plan.schedules:
        for each in place.ranges:
            table.add_row(*map(safe_text, (f"{place.first_context:,}", *_cells(each))))
    open_console().print(table)
    say(made.command)
    if made.config_file is not None:
        say(f"where {made.config_file} holds")
        for line in made.file_text.splitlines():
            say(line)


def _cells(each: BatchRange) -> tuple[str, ...]:
    batches = (
        str(each.first_batch) if each.first_batch == each.last_batch else f"{each.first_batch} to {each.last_batch}"
    )
    loss = f"{each.largest_loss:.1%}{', merged' if each.was_merged else ''}"
    return batches, str(each.draft_length), f"{each.smallest_speedup:.2f}", loss
