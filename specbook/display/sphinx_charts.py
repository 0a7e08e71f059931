"""The book's side of the charts: a renderer for stored outputs, and assets that come from installed packages.

Registered in ``_config.yml`` as a Sphinx extension, and in ``pyproject.toml`` as a MyST-NB renderer. Nothing is loaded
from another site, and everything works from a file:// address.
"""

from __future__ import annotations

import html
import importlib.metadata
import json
import re
import shutil
from pathlib import Path
from typing import Any

from docutils import nodes

from specbook import __version__
from specbook.display.charts import MIME, vega_script

_ASSETS = Path(__file__).parent / "assets"
_MATHJAX = re.compile(r"static/mathjax/(tex-mml-chtml\.js|output/chtml/fonts/.+)$")


def chart_node(spec: dict[str, Any]) -> nodes.raw:
    """A chart as HTML: its specification as inert JSON that no name can break out of, and an empty frame.

    Examples
    --------
    >>> "</script><b>" in chart_node({"title": "</script><b>"}).astext()
    False
    """
    text = json.dumps(spec, separators=(",", ":"), sort_keys=True).replace("<", "\\u003c")
    title = spec.get("title", "")
    label = html.escape(str(title.get("text", "") if isinstance(title, dict) else title))
    return nodes.raw(
        text=f'<figure class="specbook-chart" aria-label="{label}"><script type="application/json">{text}</script>'
        '<div class="specbook-view"></div></figure>',
        format="html",
    )


class ChartMime:
    """MyST-NB renderer of chart outputs; entry point ``myst_nb.mime_renderers``."""

    mime_priority_overrides = (("html", MIME, 1),)

    @staticmethod
    def handle_mime(renderer: Any, data: Any, inline: bool) -> list[nodes.Element] | None:
        """Render one output, or leave it to others."""
        del renderer
        if inline or data.mime_type != MIME:
            return None
        return [chart_node(data.content)]


def _write_assets(app: Any) -> None:
    static = Path(app.outdir) / "_static"
    static.mkdir(parents=True, exist_ok=True)
    bundle = static / "vega-bundle.js"
    if not bundle.exists():
        bundle.write_text(vega_script(), encoding="utf-8")
    for asset in _ASSETS.iterdir():
        shutil.copyfile(asset, static / asset.name)
    _copy_mathjax(static)


def _copy_mathjax(static: Path) -> None:
    for file in importlib.metadata.files("sphinx-mathjax-offline") or []:
        match = _MATHJAX.search(str(file))
        if match and not (static / "mathjax" / match[1]).exists():
            target = static / "mathjax" / match[1]
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(str(file.locate()), target)


def _drop_thebe(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Leave out the live-code buttons of the theme: they would load code from another site."""
    del app, pagename, templatename, doctree

    def is_thebe(asset: Any) -> bool:
        body = str((getattr(asset, "attributes", None) or {}).get("body") or "")
        return "THEBE_JS_URL" in body or "thebe" in str(getattr(asset, "filename", asset) or "")

    for kind in ("script_files", "css_files"):
        context[kind] = [asset for asset in context.get(kind, []) if not is_thebe(asset)]


def setup(app: Any) -> dict[str, Any]:
    """Sphinx entry point."""
    app.connect("builder-inited", _write_assets)
    app.connect("html-page-context", _drop_thebe, priority=900)
    app.add_js_file("vega-bundle.js", defer="defer")
    app.add_js_file("charts.js", defer="defer")
    app.add_css_file("charts.css")
    return {"version": __version__, "parallel_read_safe": True, "parallel_write_safe": True}
