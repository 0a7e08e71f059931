"""Figures that stand outside the chapters, as files: ``make refresh`` draws them again."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from specbook.acceptance.library import library_profile
from specbook.display.charts import to_svg
from specbook.display.roofline_charts import device_batch_chart
from specbook.files import write_text
from specbook.funnel import run_funnel
from specbook.funnel_config import FunnelConfig
from specbook.hardware.profile import catalogue_device
from specbook.roofline.frontier import best_by_cell
from specbook.roofline.model_spec import model

# From the most arithmetic for each byte of bandwidth to the least.
DEVICES = ("l4", "h100-sxm5", "mi300x", "a100-sxm4-80gb", "rtx-3090", "m3-max", "genoa")
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)


def answer_frame(evidence: str = "spec-bench-sps-vicuna-7b-conversation", context: int = 512) -> pl.DataFrame:
    """Best draft length and its speedup, by device and batch, from measured acceptance.

    Parameters
    ----------
    evidence : str
        A profile of the library.
    context : int
        Tokens of context in each sequence.

    Returns
    -------
    polars.DataFrame
        Columns ``device, batch, draft_length, speedup``; a row where it fits in memory.

    Examples
    --------
    >>> answer_frame().filter(pl.col("batch") == 1)["draft_length"].min() >= 1
    True
    """
    config = FunnelConfig(
        profiles=(library_profile(evidence),),
        hardware=tuple(catalogue_device(name) for name in DEVICES),
        target=model("Vicuna-7B-v1.3"),
        draft=model("Llama-68M"),
        batches=BATCHES,
        contexts=(context,),
        assume="truncation",
    )
    best = best_by_cell(run_funnel(config).ranking.drop("rank"))
    ordered = best.with_columns(pl.col("hardware").cast(pl.Enum(DEVICES))).sort("hardware", "batch")
    return ordered.select(pl.col("hardware").cast(pl.String).alias("device"), "batch", "draft_length", "speedup")


def answer_svg() -> str:
    """The figure of the README and of the book's first page, on white."""
    chart = device_batch_chart(answer_frame(), "Best draft length K · speedup, one acceptance on seven devices")
    return to_svg(chart.to_dict() | {"background": "white", "padding": 12}, width=720)


def main() -> None:
    """Write ``book/figures``."""
    write_text(Path("book/figures/answer.svg"), answer_svg() + "\n")


if __name__ == "__main__":
    main()
