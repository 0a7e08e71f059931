"""Who does the work of a command: this process, several on this machine, or a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from specbook.checks import BadInput
from specbook.commands.output import note

if TYPE_CHECKING:
    from specbook.scale.workers import Workers

JobsOption = Annotated[
    int, typer.Option("--jobs", metavar="N", min=1, max=1024, help="Processes that share the work; the same result.")
]
ClusterOption = Annotated[
    str | None,
    typer.Option("--cluster", metavar="ADDRESS", help="A dask scheduler, tcp://HOST:PORT, whose workers do the work."),
]


def is_shared(jobs: int, cluster: str | None) -> bool:
    """Whether anybody but this process is asked to work.

    Raises
    ------
    BadInput
        If both are.

    Examples
    --------
    >>> is_shared(1, None), is_shared(2, None), is_shared(1, "tcp://10.0.0.5:8786")
    (False, True, True)
    """
    if jobs > 1 and cluster is not None:
        remedy = "leave one of them out: a cluster has workers of its own"
        raise BadInput("means nothing beside --cluster", field="--jobs", value=jobs, remedy=remedy)
    return jobs > 1 or cluster is not None


@contextmanager
def shared_work(jobs: int, cluster: str | None) -> Iterator[Workers | None]:
    """An executor as the options ask for it; None where this process does the work.

    Raises
    ------
    BadInput
        If the options contradict each other, or the cluster cannot be used.

    Examples
    --------
    >>> with shared_work(1, None) as executor:
    ...     print(executor)
    None
    """
    if not is_shared(jobs, cluster):
        yield None
    elif cluster is None:
        from specbook.scale.processes import process_workers

        with process_workers(jobs, note) as workers:
            yield workers
    else:
        from specbook.scale.cluster import cluster_workers

        with cluster_workers(cluster, note) as workers:
            yield workers
