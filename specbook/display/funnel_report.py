"""A funnel's report: one HTML file that needs nothing beside it, no server and no network."""

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
from specbook.display.funnel_page import funnel_page
from specbook.stages.run import FunnelRun

_ASSETS = Path(__file__).parent / "assets"
# Before anything is drawn: charts take their ink from it, and the style sheet its paper.
_THEME = """
const dark = matchMedia("(prefers-color-scheme: dark)");
const follow = () => { document.documentElement.dataset.theme = dark.matches ? "dark" : "light"; };
dark.addEventListener("change", follow);
follow();
"""


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
    heading = html.escape(printable(f"specbook funnel: {run.document['config']['target']}"))
    style = "\n".join((_ASSETS / name).read_text(encoding="utf-8") for name in ("report.css", "charts.css"))
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{heading}</title>\n'
        f"<style>\n{style}</style>\n<script>{_THEME}</script>\n</head>\n<body>\n<main>\n<article>\n"
        f"<h1>{heading}</h1>\n{as_html(funnel_page(run))}</article>\n</main>\n"
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
