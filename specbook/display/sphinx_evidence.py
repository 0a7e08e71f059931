"""Tables of the evidence that ships: profiles of the library, published figures, formats that are read."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import polars as pl
from docutils import nodes

from specbook.acceptance.importing import FORMATS, import_profiles
from specbook.acceptance.library import (
    example_file,
    library_names,
    library_profile,
    library_series,
    published_table,
)
from specbook.display.sphinx_nodes import folded, paragraph, table


def readers_table() -> list[nodes.Element]:
    """Formats by name, and what the shipped example of each gives."""
    examples = {path.stem: path for path in example_file("spec-bench.jsonl").parent.iterdir()}
    headings = ("format", "evidence of its example", "intervals")
    rows = []
    for name in FORMATS:
        profiles = import_profiles([examples[name]]).values()
        evidence = ", ".join(sorted({profile.evidence for profile in profiles}))
        apart = any(origin.n_requests for profile in profiles for origin in profile.provenance)
        rows.append((nodes.literal("", name), evidence, "yes" if apart else "–"))
    return [table(headings, rows)]


def library_table() -> list[nodes.Element]:
    """The shipped profiles that were read from public files."""
    headings = ("name", "target", "method", "domain", ">K", ">rounds", ">mean length", "source")
    rows = []
    for name in library_names():
        profile = library_profile(name)
        if any(item.format == "published" for item in profile.provenance):
            continue
        labels = (profile.target, profile.method, profile.domain, profile.draft_length)
        rounds = f"{profile.n_rounds:,}" if profile.n_rounds else "–"
        mean = f"{profile.mean_acceptance_length:.3f}" if profile.mean_acceptance_length else "–"
        source = "; ".join(item.source or "" for item in profile.provenance)
        rows.append((name, *("–" if label is None else str(label) for label in labels), rounds, mean, source))
    return [table(headings, rows)]


_MOST_ROWS_UNFOLDED = 15


def published_figures(keys: Sequence[str]) -> list[nodes.Element]:
    """Published figures of the sources with these keys: what all rows share in a sentence, then the table."""
    lines = [line for key in keys for line in _published_lines(published_table(key))]
    beginning = _beginning([line["name"] for line in lines])
    lines = [line | {"name": line["name"].removeprefix(beginning)} for line in lines]
    told = [heading for heading in lines[0] if any(line[heading] != "–" for line in lines)]
    shared = [heading for heading in told if len(lines) > 1 and len({line[heading] for line in lines}) == 1]
    headings = [heading for heading in told if heading not in shared]
    content = table(headings, [[line[heading] for heading in headings] for line in lines])
    sentences = [f"Names begin with {beginning}"] if beginning else []
    if shared:
        same = "; ".join(f"{heading.removeprefix('>')} {lines[0][heading]}" for heading in shared)
        sentences.append(f"In every row: {same}")
    return [
        *([paragraph(f"{'. '.join(sentences)}.")] if sentences else []),
        *([content] if len(lines) <= _MOST_ROWS_UNFOLDED else folded(f"The {len(lines)} rows", content)),
    ]


def _beginning(names: Sequence[str]) -> str:
    """The words, each with its hyphen, that all names begin with; nothing if there is one name."""
    words = zip(*(name.split("-")[:-1] for name in names), strict=False)
    common = takewhile(lambda each: len(set(each)) == 1, words)
    return "".join(f"{each[0]}-" for each in common) if len(names) > 1 else ""


def _published_lines(figures: pl.DataFrame) -> list[dict[str, str]]:
    """Cells by heading; rows that hold a length alone and differ in their draft length are one line."""
    rows = list(figures.iter_rows(named=True))
    of_lengths = {row["name"]: row for row in rows if row["name"] and row["evidence"] == "mean_length"}
    series = [(short, [of_lengths[name] for name in names]) for short, names in library_series(of_lengths).items()]
    others = [(row["name"] or "–", [row]) for row in rows if row["name"] not in of_lengths]
    lines = sorted([*series, *others], key=lambda line: rows.index(line[1][0]))
    return [_published_line(name, members) for name, members in lines]


def _published_line(name: str, rows: Sequence[dict[str, Any]]) -> dict[str, str]:
    row = rows[0]
    lengths = [_short(each["mean_acceptance_length"]) for each in rows]
    cells = {
        "name": name,
        ">mean length": "\N{NO-BREAK SPACE}".join(length or "–" for length in lengths),
        "marginal acceptance": _positions(row["marginal_acceptance"]),
        "conditional acceptance": _positions(
            row["conditional_acceptance"] if row["evidence"] == "conditional" else None
        ),
        ">speedup": _short(row["speedup"]),
        ">speedup, temperature 1": _short(row["speedup_sampled"]),
        ">speedup by its formula": _short(row["expected_speedup"]),
        ">drafts": row["speedup_draft_length"],
        ">draft cost": _short(row["draft_cost"]),
        "shape": {True: "tree", False: "chain"}.get(row["tree"]),
        ">K": row["draft_length"] if len(rows) == 1 else None,
        "target": row["target"],
        "drafter": row["drafter"],
        "method": row["method"],
        "domain": row["domain"],
        ">temperature": None if row["temperature"] is None else f"{row['temperature']:g}",
        "sampling": row["setting"],
        ">rounds": None if row["n_rounds"] is None else f"{row['n_rounds']:,}",
        "device": row["device"],
        ">batch": row["batch"],
        "run": row["run"],
    }
    return {heading: "–" if cell is None else str(cell) for heading, cell in cells.items()}


def _positions(acceptance: Sequence[float] | None) -> str | None:
    return None if acceptance is None else " ".join(str(_short(value)) for value in acceptance)


def _short(value: float | None) -> str | None:
    """From two to four digits after the point, as many as the figure has."""
    if value is None:
        return None
    text = f"{value:.4f}"
    return text[:-2] if text.endswith("00") else text.removesuffix("0")
