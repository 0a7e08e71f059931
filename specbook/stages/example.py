"""A plan that runs in a second: evidence and devices that ship with specbook, and a small drawn load."""

from __future__ import annotations

from dataclasses import replace

from specbook.funnel import example_funnel
from specbook.hardware.profile import catalogue_device
from specbook.stages.load import example_load
from specbook.stages.plan import FunnelPlan


def example_plan() -> FunnelPlan:
    """A plan for examples, first steps and tests.

    Examples
    --------
    >>> example_plan().choices.target.name
    'Llama-3.1-70B'
    """
    hardware = (catalogue_device("mi300x"), catalogue_device("l4"))
    return FunnelPlan(choices=replace(example_funnel(), hardware=hardware), load=example_load())
