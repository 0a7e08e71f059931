"""Stage 3: the whole grid on the roofline; of each device, three configurations by role go on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from specbook.files import write_bytes
from specbook.funnel import lost_drafts, projection_bytes, run_funnel
from specbook.funnel_config import FunnelConfig
from specbook.funnel_sweep import sweep_config
from specbook.roofline.frontier import EVIDENCE
from specbook.roofline.roles import ROLES
from specbook.roofline.sweep import sweep
from specbook.stage_folder import Gate, Stage
from specbook.stages.acceptance import read_profiles
from specbook.stages.hardware import read_devices
from specbook.stages.plan import STAGE_NAMES, FunnelPlan, Working

NAME = STAGE_NAMES[2]
NO_ROLE = "not among the three by role"
# What tells one draft of a device from another; batch and context come out of the load.
DRAFT = ("hardware", *EVIDENCE, "drafter", "draft_length", "tree_nodes")


@dataclass(frozen=True, kw_only=True)
class RooflineTables:
    """What stage 3 hands on.

    Attributes
    ----------
    ranking : DataFrame
        The projection, ranked; empty where no device or no evidence is left.
    break_even : DataFrame
    top : DataFrame
        Rows of the three roles at the projected context nearest to that of the load.
    """

    ranking: pl.DataFrame
    break_even: pl.DataFrame
    top: pl.DataFrame

    @classmethod
    def empty(cls) -> RooflineTables:
        """Tables without rows."""
        return cls(ranking=pl.DataFrame(), break_even=pl.DataFrame(), top=pl.DataFrame())


def roofline_stage(plan: FunnelPlan, working: Working) -> Stage:
    """Ranking, break-even and the roles' rows as Parquet."""
    context = nearest_context(plan.choices.contexts, plan.load.typical_context_tokens)

    def run(folder: Path) -> Gate:
        config = handed_on(plan, folder.parent)
        if not config.profiles or not config.hardware:
            return _nothing(folder, config)
        with working("projecting", 2) as progress:
            result = run_funnel(config)
            progress(1)
            top = sweep(sweep_config([replace(config, contexts=(context,))])).top.filter(pl.col("viable"))
            progress(1)
        tables = {"ranking": result.ranking, "break_even": result.break_even, "top": top}
        for name, frame in tables.items():
            write_bytes(folder / f"{name}.parquet", projection_bytes(frame, config.profiles, result.notes))
        return _gate(result.ranking, top)

    return Stage(name=NAME, inputs=_inputs(plan, context), run=run)


def _inputs(plan: FunnelPlan, context: int) -> dict[str, Any]:
    config = plan.choices
    axes = {"batches": list(config.batches), "contexts": list(config.contexts), "handed_on_context": context}
    return {**plan.model_inputs, **plan.evidence_inputs, **axes}


def handed_on(plan: FunnelPlan, root: Path, *, has_hardware: bool = True) -> FunnelConfig:
    """The choices with what stages 1 and 2 left; without devices where stage 2 has not run.

    Raises
    ------
    BadInput
        If a file of theirs cannot be read.
    """
    return replace(plan.choices, profiles=read_profiles(root), hardware=read_devices(root) if has_hardware else ())


def nearest_context(contexts: Sequence[int], typical_tokens: float) -> int:
    """The projected context nearest to the load's, by ratio; the shorter one of two as near.

    Examples
    --------
    >>> nearest_context((512, 2048, 8192), 700.0)
    512
    """
    return min(contexts, key=lambda context: (abs(np.log(context / typical_tokens)), context))


def _gate(ranking: pl.DataFrame, top: pl.DataFrame) -> Gate:
    drafting = ranking.filter(pl.col("draft_length") > 0)
    left, dropped = distinct_drafts(top).height, lost_drafts(drafting)
    dropped[NO_ROLE] = drafting.height - left - sum(dropped.values())
    return Gate(entered=drafting.height, left=left, dropped={text: count for text, count in dropped.items() if count})


def distinct_drafts(top: pl.DataFrame) -> pl.DataFrame:
    """The drafts of the roles, each once with all roles that it has; not to speculate is none of them.

    Examples
    --------
    >>> from specbook.roofline.grid import example_grid
    >>> from specbook.roofline.sweep import SweepConfig
    >>> top = sweep(SweepConfig(grids=(example_grid(),))).top
    >>> distinct_drafts(top.filter(context=512)).select("draft_length", "roles").rows()
    [(4, 'single-stream latency, balanced, high-load fallback')]
    """
    order = pl.col("role").cast(pl.Enum(ROLES))
    drafting = top.filter(pl.col("draft_length") > 0).sort("hardware", order, maintain_order=True)
    roles = pl.col("role").unique(maintain_order=True).str.join(", ").alias("roles")
    return drafting.group_by(DRAFT, maintain_order=True).agg(roles, pl.exclude("role").first())


def _nothing(folder: Path, config: FunnelConfig) -> Gate:
    """Tables without rows, where nothing came this far."""
    for name in ("ranking", "break_even", "top"):
        write_bytes(folder / f"{name}.parquet", projection_bytes(pl.DataFrame(), config.profiles, ()))
    return Gate(entered=0, left=0, dropped={})


def read_roofline(root: Path) -> RooflineTables:
    """The tables of stage 3."""
    folder = root / NAME
    frames = {name: pl.read_parquet(folder / f"{name}.parquet") for name in ("ranking", "break_even", "top")}
    return RooflineTables(**frames)
