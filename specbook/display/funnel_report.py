"""A funnel's report: one HTML file that needs nothing beside it, no server and no network."""

from __future__ import annotations

from specbook.display.funnel_page import funnel_page
from specbook.display.lone_page import lone_page
from specbook.stages.run import FunnelRun


def report_page(run: FunnelRun) -> str:
    """The report of a funnel as HTML text.

    Parameters
    ----------
    run : FunnelRun

    Returns
    -------
    str
        With style sheets and scripts inside; the same for the same files of the stages.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from specbook.stages.example import example_plan
    >>> from specbook.stages.run import run_plan
    >>> with TemporaryDirectory() as scratch:
    ...     page = report_page(run_plan(example_plan(), Path(scratch)))
    >>> page[:15], "http://" in page.partition("<body>")[2].partition("<script>")[0]
    ('<!DOCTYPE html>', False)
    """
    return lone_page(f"specbook funnel: {run.document['config']['target']}", funnel_page(run))
