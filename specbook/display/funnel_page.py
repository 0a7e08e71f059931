"""A funnel as a page: sections of text, charts and tables, the same in the book and in a report of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from docutils import nodes

from specbook.display.funnel_charts import gates_chart
from specbook.display.funnel_rows import (
    COMPARISON,
    MOST_ROWS,
    WITNESS,
    comparison_row,
    gate_rows,
    handed_on_edges,
    headline,
    ranked,
    witness_reasons,
    witness_rows,
)
from specbook.display.sphinx_charts import chart_node
from specbook.display.sphinx_nodes import bullets, folded, paragraph, section, table
from specbook.display.terminal import paying_batches
from specbook.display.witness_charts import predictions_chart, predictions_frame
from specbook.display.witness_terminal import control_text
from specbook.stages.plan import STAGE_NAMES
from specbook.stages.run import FunnelRun
from specbook.stages.witness import read_own_receipt
from specbook.witness.receipt import Receipt


def funnel_page(run: FunnelRun) -> list[nodes.Element]:
    """What was asked, what passed each gate, what is left and how it fared, and what the figures assume."""
    return [
        paragraph(_asked(run)),
        paragraph(headline(run)),
        section("What each gate let through", _gates(run)),
        *_served(run),
        *_boundaries(run),
        *_witness(run),
        section("What these figures assume", [bullets(run.document["notes"])]),
    ]


def _asked(run: FunnelRun) -> str:
    config = run.document["config"]
    drafter = "its drafter" if config["draft"] is None else config["draft"]
    return (
        f"{config['target']} in {config['precision']} with {drafter}, {len(config['evidence'])} acceptance profiles, "
        f"{', '.join(config['hardware'])}; batches {min(config['batches']):,} to {max(config['batches']):,}, contexts "
        f"{min(config['contexts']):,} to {max(config['contexts']):,}. Made by specbook "
        f"{run.document['specbook_version']}."
    )


def _gates(run: FunnelRun) -> list[nodes.Element]:
    chart = chart_node(gates_chart(run.gates, "Of what entered a stage, what went on").to_dict())
    return [chart, table(("stage", ">entered", ">left", "dropped"), gate_rows(run))]


def _served(run: FunnelRun) -> Iterator[nodes.Element]:
    if STAGE_NAMES[3] not in run.gates or ranked(run).is_empty():
        return
    frame = ranked(run)
    rows = [comparison_row(row) for row in frame.head(MOST_ROWS).iter_rows(named=True)]
    content = [
        paragraph("All had the same requests and the same luck; gain is the p90 TPOT without speculation ÷ with it.")
    ]
    content.append(table(COMPARISON, rows))
    if frame.height > MOST_ROWS:
        content.append(paragraph(f"{frame.height - MOST_ROWS} more are in {STAGE_NAMES[3]}/comparison.parquet."))
    yield section("Under the load", content)


_EDGES = ("device", "prompts", ">context", "batches")


def _boundaries(run: FunnelRun) -> Iterator[nodes.Element]:
    edges, shown = run.document["break_even"], handed_on_edges(run)
    if not edges:
        return
    parts: list[nodes.Element] = [table(_EDGES, map(_edge, shown))] if shown else []
    if len(shown) < len(edges):
        parts += folded("All devices and prompts", table(_EDGES, map(_edge, edges)))
    yield section("Where drafting pays", parts)


def _edge(row: Mapping[str, Any]) -> tuple[str, ...]:
    return row["hardware"], row["domain"] or "all", f"{row['context']:,}", paying_batches(row)


def _witness(run: FunnelRun) -> Iterator[nodes.Element]:
    witness = run.document["witness"]
    if witness is None or not witness["configurations"]:
        return
    receipt = read_own_receipt(run.folder)
    if receipt is None:
        names = ((each["name"], each["verdict"]) for each in witness["configurations"])
        content = [table(("configuration", "verdict"), names), bullets(witness_reasons(run))]
    else:
        content = [table(WITNESS, witness_rows(run)), bullets(witness_reasons(run)), *_receipt(receipt)]
    yield section("What the clock said", content)


def _receipt(receipt: Receipt) -> Iterator[nodes.Element]:
    it, host = receipt.attestation, receipt.attestation.host
    yield chart_node(predictions_chart(predictions_frame(receipt), "Predicted and measured P90 TPOT").to_dict())
    yield paragraph(
        f"Run by the native engine of specbook {it.specbook_version} on {host.get('processor', 'an unknown processor')}"
        f", {host.get('cores', '?')} cores, {receipt.date}: {it.arithmetic} arithmetic, {it.blas_kernel} kernels, "
        f"cost dial R = {it.replication}."
    )
    if not receipt.control.reasons:  # which the reasons of the verdicts have said already
        yield paragraph(f"{control_text(receipt.control)}.")
    yield paragraph(f"Receipt {receipt.receipt_sha256[:12]}…, {STAGE_NAMES[4]}/receipt.json.")
