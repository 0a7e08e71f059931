"""The page of results shows any funnel's results, not only the shipped ones."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from docutils import nodes

from specbook.acceptance.profile import profile_from_counts
from specbook.display.funnel_report import report_page
from specbook.display.sphinx_tables import here_page, paying_range, results_page
from specbook.files import to_json, write_text
from specbook.funnel import example_funnel, run_funnel, summary
from specbook.funnel_config import FunnelConfig
from specbook.hardware.profile import catalogue_device
from specbook.stages.example import example_plan
from specbook.stages.run import run_plan

HOSTILE = "<script>alert(1)</script>\u202e"


def _write(config: FunnelConfig, folder: Path) -> None:
    write_text(folder / "summary.json", to_json(summary(run_funnel(config))))


def _page(config: FunnelConfig, folder: Path) -> str:
    _write(config, folder)
    return "\n".join(node.astext() for node in results_page(folder))


def _evidence(**labels: object) -> FunnelConfig:
    profile = profile_from_counts({4: [24, 18, 14, 11, 33]}, draft_length=4, **labels)
    return replace(example_funnel(), profiles=(profile,))


def test_results_page_before_the_funnel_ran_says_how_to_run_it(tmp_path):
    assert "make book runs it" in results_page(tmp_path)[0].astext()


def test_results_page_of_evidence_without_a_domain_is_complete(tmp_path):
    text = _page(_evidence(), tmp_path)
    assert "all prompts" in text
    assert "None" not in text
    assert "4 · " in text


def test_results_page_without_batch_one_shows_the_smallest_batch(tmp_path):
    text = _page(replace(_evidence(domain="code"), batches=(2, 8)), tmp_path)
    assert "By domain: batch 2" in text
    assert "4 · " in text


def test_results_page_where_nothing_fits_says_so(tmp_path):
    config = replace(_evidence(), hardware=(catalogue_device("l4"),))
    assert "Nothing fits in the memory of these devices." in _page(config, tmp_path)


def test_results_page_escapes_names_out_of_files(tmp_path):
    _write(_evidence(domain=HOSTILE), tmp_path)
    raw = [node for part in results_page(tmp_path) for node in part.findall(nodes.raw)]
    assert raw
    assert not any("<script>alert" in node.astext() for node in raw)
    assert "\u202e" not in "\n".join(node.astext() for node in results_page(tmp_path))


def test_here_page_says_how_to_make_it_where_it_was_not_run(tmp_path):
    (note,) = here_page(tmp_path)
    assert "make book runs it" in note.astext()


def test_here_page_shows_every_gate_and_what_cannot_be_witnessed(tmp_path):
    run = run_plan(example_plan(), tmp_path)
    parts = here_page(tmp_path)
    text = "\n".join(node.astext() for node in parts)
    for name, gate in run.gates.items():
        assert name.replace("-", " ", 1) in text
        assert all(reason in text for reason in gate.dropped)
    assert "not witnessed" in text
    assert [part.next_node(nodes.title).astext() for part in parts if isinstance(part, nodes.section)] == [
        "What each gate let through",
        "Under the load",
        "Where drafting pays",
        "What the clock said",
        "What these figures assume",
    ]


def test_report_escapes_names_out_of_files_and_asks_nobody_for_anything(tmp_path):
    plan = replace(example_plan(), choices=replace(example_plan().choices, profiles=_evidence(domain=HOSTILE).profiles))
    page = report_page(run_plan(plan, tmp_path))
    body = page.partition("<body>")[2].partition("<script>(()")[0]
    assert "<script>alert" not in page
    assert "\u202e" not in page
    assert "&lt;script&gt;alert(1)" in body
    assert not re.search(r"<(?:link|img|iframe)\b|\bsrc=|@import|url\(", page.partition("<script>(()")[0])
    assert page.count("</script>") == page.count("<script")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "1 to 1,024+"),
        ({"break_even_batch": 80}, "1 to 79"),
        ({"largest_fitting_batch": 0}, "nothing fits"),
        ({"first_paying_batch": None, "break_even_batch": 1}, "none"),
        ({"largest_fitting_batch": 9}, "1 to 9 (full)"),
    ],
)
def test_paying_range_in_words(changes: dict[str, int | None], text: str):
    row = {"first_paying_batch": 1, "break_even_batch": None, "max_batch": 1024, "largest_fitting_batch": 1024}
    assert paying_range(row | changes) == text


def test_summary_is_strict_json(tmp_path):
    _write(_evidence(), tmp_path)
    json.loads((tmp_path / "summary.json").read_text(), parse_constant=pytest.fail)
