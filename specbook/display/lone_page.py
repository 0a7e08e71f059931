"""A page of its own: one HTML file with its charts, that needs nothing beside it, no server and no network."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

from docutils import nodes

from specbook.checks import printable
from specbook.display.charts import vega_script
from specbook.display.funnel_report import as_html

_ASSETS = Path(__file__).parent / "assets"
# Before anything is drawn: charts take their ink from it, and the style sheet its paper.
_THEME = """
const dark = matchMedia("(prefers-color-scheme: dark)");
const follow = () => { document.documentElement.dataset.theme = dark.matches ? "dark" : "light"; };
dark.addEventListener("change", follow);
follow();
"""
# Small charts stand side by side where there is room.
_SIDE_BY_SIDE = """
div.side-by-side { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(20rem, 100%), 1fr)); gap: 0 1rem; }
"""
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
        f"<style>\n{style}{_SIDE_BY_SIDE}</style>\n<script>{_THEME}</script>\n</head>\n<body>\n<main>\n<article>\n"
        f"<h1>{title}</h1>\n{as_html(content)}</article>\n</main>\n"
        f"<script>{_scripts()}</script>\n</body>\n</html>\n"
    )


def _scripts() -> str:
    """The Vega bundle and what draws charts with it; nothing in them may end the element that they stand in."""
    charts = (_ASSETS / "charts.js").read_text(encoding="utf-8")
    return f"{vega_script()}{charts}".replace("</script", r"<\/script").replace("<!--", r"<\!--")
