"""The book's table of what engines spend beside their passes."""

from __future__ import annotations

from docutils import nodes

from specbook.display.sphinx_overheads import overheads_table
from specbook.roofline.engine_overheads import engine_names, engine_overheads


def test_the_table_has_a_row_for_each_engine_with_its_figures_and_whose_they_are():
    (table,) = overheads_table()
    rows = [[cell.astext() for cell in row.findall(nodes.entry)] for row in table.findall(nodes.row)][1:]
    assert [row[0] for row in rows] == engine_names()
    by_name = {row[0]: row[1:] for row in rows}
    sglang = engine_overheads("sglang")
    assert by_name["sglang"][0].startswith(f"{1e3 * sglang.draft_pass_s:.2g} (")
    assert by_name["sglang"][2] == "–"
    assert by_name["sglang"][3] == f"fitted: {sglang.n_rows} rows of {sglang.n_series} series"
    assert by_name["vllm"][:3] == by_name["sglang"][:3]
    assert by_name["vllm"][3] == "assumed: those of sglang"
    assert by_name["llama.cpp"][2] == "0.18"  # known from elsewhere, so that it has no interval
    assert "(" in by_name["llama.cpp"][0]
