"""What pages made from data consist of: every word becomes a text node, so that no model name can become markup."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from docutils import nodes

from specbook.checks import printable

Cell: TypeAlias = str | nodes.Node


def table(headings: Sequence[str], rows: Iterable[Sequence[Cell]]) -> nodes.Element:
    """A table that scrolls sideways on a narrow screen; headings that begin with ``>`` align their column right."""
    group = nodes.tgroup("", *(nodes.colspec(colwidth=1) for _ in headings), cols=len(headings))
    group += nodes.thead("", _row(headings, [heading.removeprefix(">") for heading in headings]))
    group += nodes.tbody("", *(_row(headings, row) for row in rows))
    return nodes.container("", nodes.table("", group), classes=["specbook-table"])


def _row(headings: Sequence[str], cells: Sequence[Cell]) -> nodes.row:
    entries = []
    for heading, cell in zip(headings, cells, strict=True):
        content = cell if isinstance(cell, nodes.Node) else nodes.Text(printable(cell))
        classes = ["text-right"] if heading.startswith(">") else []
        entries.append(nodes.entry("", nodes.paragraph("", "", content), classes=classes))
    return nodes.row("", *entries)


def paragraph(text: str) -> nodes.paragraph:
    """Words as they are."""
    return nodes.paragraph("", printable(text))


def section(title: str, content: Iterable[nodes.Node]) -> nodes.section:
    """Content under a heading that can be linked to."""
    return nodes.section("", nodes.title("", printable(title)), *content, ids=[nodes.make_id(title)])


def bullets(lines: Iterable[str]) -> nodes.bullet_list:
    """A list of lines."""
    return nodes.bullet_list("", *(nodes.list_item("", paragraph(line)) for line in lines))


def link(text: str, url: str | None) -> nodes.Node:
    """A link where there is an address, else the words alone."""
    return nodes.reference("", printable(text), refuri=url) if url and url.startswith("https://") else nodes.Text(text)


def folded(summary: str, content: nodes.Element) -> list[nodes.Element]:
    """Content behind a line that opens it."""
    opening = nodes.raw("", f"<details><summary>{html.escape(summary)}</summary>", format="html")
    return [opening, content, nodes.raw("", "</details>", format="html")]
