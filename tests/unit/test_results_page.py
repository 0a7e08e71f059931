"""The page of results shows any funnel's results, not only the shipped ones."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from docutils import nodes

from specbook.acceptance.profile import profile_from_counts
from specbook.display.sphinx_tables import paying_range, results_page
from specbook.funnel import example_funnel, run_funnel, write_funnel
from specbook.funnel_config import FunnelConfig
from specbook.hardware.profile import catalogue_device

HOSTILE = "<script>alert(1)</script>\u202e"


def _page(config: FunnelConfig, folder: Path) -> str:
    write_funnel(run_funnel(config), folder)
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
    write_funnel(run_funnel(_evidence(domain=HOSTILE)), tmp_path)
    raw = [node for part in results_page(tmp_path) for node in part.findall(nodes.raw)]
    assert raw
    assert not any("<script>alert" in node.astext() for node in raw)
    assert "\u202e" not in "\n".join(node.astext() for node in results_page(tmp_path))


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
    write_funnel(run_funnel(_evidence()), tmp_path)
    json.loads((tmp_path / "summary.json").read_text(), parse_constant=pytest.fail)
