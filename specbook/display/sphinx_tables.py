"""Pages of the book that are made from data: a ``specbook`` directive with the name of what to show.

Every word becomes a text node, so that a model name out of somebody's file cannot become markup.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
from docutils import nodes
from pydantic import BaseModel
from sphinx.util.docutils import SphinxDirective

from specbook import __version__
from specbook.acceptance.library import published_sources
from specbook.acceptance.profile import AcceptanceProfile
from specbook.checks import BadInput, printable
from specbook.deploy.deployment_file import DeploymentFile
from specbook.display.funnel_page import funnel_page
from specbook.display.roofline_charts import device_batch_chart
from specbook.display.sphinx_charts import chart_node
from specbook.display.sphinx_evidence import library_table, published_figures, readers_table
from specbook.display.sphinx_hardware import by_ridge_point, hardware_table
from specbook.display.sphinx_nodes import Cell, bullets, folded, link, paragraph, section, table
from specbook.display.sphinx_overheads import overheads_table
from specbook.display.sphinx_receipt import receipt_shown
from specbook.files import schema_name, to_json
from specbook.hardware.profile import HardwareProfile
from specbook.hardware.step_times import StepTimeTable
from specbook.roofline.model_spec import PRECISIONS, model, model_entry, model_names
from specbook.roofline.space import design_space, n_configurations
from specbook.serving.runs_file import ServingRunsFile
from specbook.serving.summary_file import ServingSummaryFile
from specbook.stage_folder import StageManifest
from specbook.stages.run import SUMMARY, read_run
from specbook.witness.config_file import WitnessConfigFile
from specbook.witness.receipt import Receipt

SCHEMAS: dict[str, type[BaseModel]] = {
    "acceptance": AcceptanceProfile,
    "hardware": HardwareProfile,
    "step-times": StepTimeTable,
    "serving": ServingSummaryFile,
    "stage": StageManifest,
    "witness-config": WitnessConfigFile,
    "receipt": Receipt,
    "serving-runs": ServingRunsFile,
    "deployment": DeploymentFile,
}


def models_table() -> list[nodes.Element]:
    """The model library, and the weight formats."""
    sizes_of = (">layers", ">hidden", ">heads", ">KV heads", ">FFN")
    headings = ("name", ">parameters (1e9)", *sizes_of, ">experts", ">vocabulary", "source")
    rows: list[tuple[Cell, ...]] = []
    for name in model_names():
        spec, entry = model(name), model_entry(name)
        sizes = (spec.n_layers, spec.hidden_size, spec.n_heads, spec.n_kv_heads, spec.ffn_size)
        experts = f"{spec.n_experts_per_token} of {spec.n_experts}" if spec.n_experts > 1 else "–"
        source = link(entry["source"], entry["url"])
        columns = (*(f"{size:,}" for size in sizes), experts, f"{spec.vocab_size:,}")
        rows.append((name, f"{spec.n_parameters / 1e9:.2f}", *columns, source))
    formats = [(name, f"{p.layer_bytes:.4f}", f"{p.head_bytes:.4f}", p.source) for name, p in PRECISIONS.items()]
    headings_formats = ("format", ">bytes per weight", ">in the output head", "source")
    return [table(headings, rows), nodes.rubric("", "Weight formats"), table(headings_formats, formats)]


def space_table() -> list[nodes.Element]:
    """The space that brute force would have to walk, and the time it would take."""
    dimensions = design_space()
    rows = [(d.name, d.choices, f"{d.n_choices:,}") for d in dimensions]
    total = n_configurations(dimensions)
    rows.append(("configurations", "the product", f"{total:,}"))
    rows.append(("hours at five minutes each", "one device after the other", f"{total * 5 / 60:,.0f}"))
    return [table(("dimension", "choices", ">number"), rows)]


def schema_table(name: str) -> list[nodes.Element]:
    """Fields of a file format, and where its JSON Schema lies."""
    file_model = SCHEMAS[name]
    schema = file_model.model_json_schema(by_alias=True)
    required = set(schema.get("required", []))
    rows = [
        (nodes.literal("", field), _kind(entry), "yes" if field in required else "no", entry.get("description", ""))
        for field, entry in schema["properties"].items()
    ]
    path = f"/_static/{schema_name(file_model).replace('/', '-')}.schema.json"
    where = f"JSON Schema of {schema_name(file_model)}, beside this book: {path.removeprefix('/')}"
    return [table(("field", "type", "required", "meaning"), rows), paragraph(where)]


def _kind(entry: dict[str, Any]) -> str:
    """A JSON Schema type in words."""
    if "anyOf" in entry:
        return " or ".join(map(_kind, entry["anyOf"]))
    if "$ref" in entry:
        return str(entry["$ref"]).rsplit("/", 1)[-1]
    if "const" in entry or "enum" in entry:
        return " | ".join(entry.get("enum", [entry.get("const")]))
    inner = entry.get("items") or entry.get("additionalProperties")
    kind = str(entry.get("type", "any"))
    return f"{kind} of {_kind(inner)}" if isinstance(inner, dict) else kind


def here_page(folder: Path) -> list[nodes.Element]:
    """What the short funnel of ``make book`` found on the machine that built the book; how to run it, if it has not."""
    if not (folder / SUMMARY).is_file():
        text = (
            "The short funnel has not been run here: make book runs it, within 90 seconds, and builds this page anew."
        )
        return [nodes.note("", paragraph(text))]
    return funnel_page(read_run(folder))


def results_page(folder: Path) -> list[nodes.Element]:
    """What the funnel found, from ``results/``: sections for the chart, the best drafts, the boundaries, the notes."""
    path = folder / SUMMARY
    if not path.is_file():
        return [nodes.note("", paragraph("The funnel has not been run here yet: make book runs it."))]
    summary = json.loads(path.read_text(encoding="utf-8"))
    config = summary["config"]
    contexts = config["contexts"]
    intro = (
        f"{config['target']} in {config['precision']} verifying {config['draft']}, on {len(config['hardware'])} "
        f"devices of the catalogue, from {len(config['evidence'])} profiles of measured acceptance, batches "
        f"{min(config['batches'])} to {max(config['batches'])}, contexts {min(contexts):,} to {max(contexts):,} "
        f"tokens. Made by specbook {summary['specbook_version']}."
    )
    answers = _answers(summary) if summary["best"] else [paragraph("Nothing fits in the memory of these devices.")]
    return [
        paragraph(intro),
        _gates(summary["gates"]),
        *answers,
        section("What these figures assume", [bullets(summary["notes"])]),
    ]


_RANGES = (
    "First and last batch at which drafting pays: (full) where memory ends the range before the gain does, "
    "+ where it goes on beyond what was looked at."
)


def _answers(summary: dict[str, Any]) -> list[nodes.Element]:
    config = summary["config"]
    order = {name: place for place, name in enumerate(by_ridge_point(config["hardware"]))}
    best = pl.DataFrame(summary["best"], infer_schema_length=None).with_columns(
        pl.col("domain").cast(pl.String).fill_null("all prompts")
    )
    best = best.sort(pl.col("hardware").replace_strict(order), maintain_order=True)
    rows = sorted(summary["break_even"], key=lambda row: order[row["hardware"]])
    contexts, batch = config["contexts"], min(config["batches"])
    domains = best["domain"].unique(maintain_order=True).to_list()
    shown = contexts[len(contexts) // 2]
    first, *others = [_chart(best, domain, shown) for domain in domains]
    rest = folded("The other domains", nodes.container("", *others)) if others else []
    return [
        section(f"Best draft length by device and batch, {shown:,} tokens of context", [first, *rest]),
        section(f"By domain: batch {batch}, {shown:,} tokens of context", [_best(best, domains, batch, shown)]),
        section("Batches at which drafting pays, by context", [paragraph(_RANGES), _boundaries(rows, contexts)]),
    ]


def _gates(gates: list[dict[str, Any]]) -> nodes.Element:
    rows = [
        (
            gate["stage"],
            f"{gate['entered']:,}",
            f"{gate['left']:,}",
            "; ".join(f"{count:,} {reason}" for reason, count in gate["dropped"].items() if count) or "–",
        )
        for gate in gates
    ]
    return table(("stage", ">entered", ">left", "dropped"), rows)


def _chart(best: pl.DataFrame, domain: str, context: int) -> nodes.Element:
    shown = best.filter((pl.col("context") == context) & (pl.col("domain") == domain))
    frame = shown.select(pl.col("hardware").alias("device"), "batch", "draft_length", "speedup")
    names = {name: printable(name) for name in frame["device"].unique()}
    named = frame.with_columns(pl.col("device").replace(names))
    return chart_node(device_batch_chart(named, f"K · speedup: {printable(domain)}").to_dict())


def _best(best: pl.DataFrame, domains: list[str], batch: int, context: int) -> nodes.Element:
    shown = best.filter((pl.col("context") == context) & (pl.col("batch") == batch))
    rows = []
    for device in shown["hardware"].unique(maintain_order=True):
        cells = {row["domain"]: row for row in shown.filter(pl.col("hardware") == device).iter_rows(named=True)}
        rows.append((device, *(_cell(cells.get(domain)) for domain in domains)))
    return table(("device", *(f">{domain}" for domain in domains)), rows)


def _cell(row: dict[str, Any] | None) -> str:
    return "–" if row is None else f"{row['draft_length']} · {row['speedup']:.2f}×"


def _boundaries(rows: list[dict[str, Any]], contexts: list[int]) -> nodes.Element:
    """One row a device, for the first piece of evidence."""
    by_device: dict[str, dict[int, str]] = {}
    for row in rows:
        by_device.setdefault(row["hardware"], {}).setdefault(row["context"], paying_range(row))
    cells = [(device, *(texts[context] for context in contexts)) for device, texts in by_device.items()]
    evidence = printable(rows[0]["domain"] or "all prompts")
    return table((f"device ({evidence})", *(f">{context:,} tokens" for context in contexts)), cells)


def paying_range(row: dict[str, Any]) -> str:
    """First and last batch at which drafting pays and fits; ``full`` where memory ends the range.

    Examples
    --------
    >>> row = {"first_paying_batch": 3, "break_even_batch": 80, "max_batch": 1024, "largest_fitting_batch": 40}
    >>> paying_range(row), paying_range(row | {"largest_fitting_batch": 1024})
    ('3 to 40 (full)', '3 to 79')
    """
    first, largest = row["first_paying_batch"], row["largest_fitting_batch"]
    if largest == 0:
        return "nothing fits"
    if first is None or first > largest:
        return "none"
    last = row["max_batch"] if row["break_even_batch"] is None else row["break_even_batch"] - 1
    if largest < last:
        return f"{first:,} to {largest:,} (full)"
    return f"{first:,} to {last:,}" + ("+" if row["break_even_batch"] is None else "")


class SpecbookDirective(SphinxDirective):
    """``{specbook}`` with a part's name: hardware, models, library, readers, engine-overheads, space, results, here.

    ``{specbook} schema-NAME`` shows the fields of a file, NAME being one of SCHEMAS.

    ``{specbook} published KEY..`` shows the published figures of the sources with these keys of the bibliography;
    ``{specbook} receipt NAME`` a stored receipt.
    """

    required_arguments = 1
    optional_arguments = 16

    def run(self) -> list[nodes.Node]:
        """Make the nodes of the part that is named."""
        parts: dict[str, Callable[[], list[nodes.Element]]] = {
            "hardware": hardware_table,
            "models": models_table,
            "library": library_table,
            "engine-overheads": overheads_table,
            "readers": readers_table,
            "published": lambda: published_figures(self.arguments[1:] or list(published_sources())),
            "receipt": lambda: receipt_shown(" ".join(self.arguments[1:])),
            "space": space_table,
            "results": lambda: results_page(self._results),
            "here": lambda: here_page(self._results / "here"),
            **{f"schema-{name}": partial(schema_table, name) for name in SCHEMAS},
        }
        name = self.arguments[0]
        if name not in parts:
            raise self.error(f"unknown part {name!r}; one of {', '.join(parts)}")
        made_from = {"results": self._results, "here": self._results / "here"}
        if name in made_from:
            self.env.note_dependency(str(made_from[name] / SUMMARY))
        try:
            return list(parts[name]())
        except BadInput as error:
            raise self.error(str(error)) from None

    @property
    def _results(self) -> Path:
        """Where the Makefile has the funnels write."""
        return Path(self.env.app.srcdir) / "results"


def _write_schemas(app: Any) -> None:
    static = Path(app.outdir) / "_static"
    static.mkdir(parents=True, exist_ok=True)
    for file_model in SCHEMAS.values():
        name = f"{schema_name(file_model).replace('/', '-')}.schema.json"
        (static / name).write_text(to_json(file_model.model_json_schema(by_alias=True)), encoding="utf-8")


def setup(app: Any) -> dict[str, Any]:
    """Sphinx entry point."""
    app.add_directive("specbook", SpecbookDirective)
    app.connect("builder-inited", _write_schemas)
    return {"version": __version__, "parallel_read_safe": True, "parallel_write_safe": True}
