"""A page of its own: one HTML file with its charts, that needs nothing beside it, no server and no network."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

from docutils import nodes
from docutils.frontend import get_default_settings
from docutils.utils import new_document
from docutils.writers.html5_polyglot import HTMLTranslator, Writer

from specbook.checks import printable
from specbook.display.charts import vega_script

_ASSETS = Path(__file__).parent / "assets"
# Before anything is drawn: charts take their ink from it, and the style sheet its paper.
_THEME = """
const dark = matchMedia("(prefers-color-scheme: dark)");
const follow = () => { document.documentElement.dataset.theme = dark.matches ? "dark" : "light"; };
dark.addEventListener("change", follow);
follow();
"""
# The class of a container, in report.css, whose charts stand beside each other where there is room.
SIDE_BY_SIDE = "side-by-side"


def lone_page(heading: str, content: Sequence[nodes.Element]) -> str:
    """Content as a page of its own, light or dark as the reader's system is.

    Parameters
    ----------
    heading : str
    content : sequence of docutils nodes

    Returns
    -------
    str
        HTML with style sheets and scripts inside.

    Examples
    --------
    >>> lone_page("a < b", [nodes.paragraph("", "text")])[:15]
    '<!DOCTYPE html>'
    """
    title = html.escape(printable(heading))
    style = "\n".join((_ASSETS / name).read_text(encoding="utf-8") for name in ("report.css", "charts.css"))
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{title}</title>\n'
        f"<style>\n{style}</style>\n<script>{_THEME}</script>\n</head>\n<body>\n<main>\n<article>\n"
        f"<h1>{title}</h1>\n{as_html(content)}</article>\n</main>\n"
        f"<script>{_scripts()}</script>\n</body>\n</html>\n"
    )


def _scripts() -> str:
    """The Vega bundle and what draws charts with it; nothing in them may end the element that they stand in."""
    charts = (_ASSETS / "charts.js").read_text(encoding="utf-8")
    return f"{vega_script()}{charts}".replace("</script", r"<\/script").replace("<!--", r"<\!--")


def as_html(content: Sequence[nodes.Element]) -> str:
    r"""Nodes as the inside of an HTML page.

    Examples
    --------
    >>> as_html([nodes.paragraph("", "a < b")])
    '<p>a &lt; b</p>\n'
    """
    settings = get_default_settings(Writer)
    settings.initial_header_level, settings.stylesheet_path, settings.math_output = 2, None, "MathML"
    document = new_document("report", settings)
    document += content
    translator = HTMLTranslator(document)
    document.walkabout(translator)
    return "".join(translator.body)
