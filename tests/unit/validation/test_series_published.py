"""The series that ship: how many, that none is refused, three digit by digit, and a licence for each source."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from specbook.validation.published_series import licence_text, published_series, series_licences
from specbook.validation.series import SeriesRow

ROOT = Path(__file__).parents[3]


def _row(line: int) -> SeriesRow:
    return next(row for row in published_series().rows if row.line == line)


def test_published_series_every_row_can_be_read():
    table = published_series()
    assert len(table.rows) == 417
    assert [row.line for row in table.rows] == list(range(2, 419))
    assert table.ignored_columns == ()
    assert not any(problem.is_fatal for problem in table.problems)


def test_published_series_warnings_are_the_seven_that_were_looked_into():
    # Four settings of one model beat their lengths; in three, rate and length were counted in different ways.
    table = published_series()
    assert [(problem.line, problem.column) for problem in table.problems] == [
        (162, "tok_s"), (163, "tok_s"), (168, "tok_s"), (169, "tok_s"),
        (279, "acc_rate"), (280, "acc_rate"), (284, "acc_rate"),
    ]  # fmt: skip
    assert {_row(line).target for line in (162, 163, 168, 169)} == {"Llama-4-Scout-17B-16E-Instruct"}


def test_published_series_rows_that_have_all_it_takes():
    rows = published_series().rows
    with_acceptance = [row for row in rows if row.tokens_per_round is not None and row.speedup is not None]
    assert Counter(row.source.split("@")[0].split("#")[0].split(" ")[0] for row in with_acceptance) == {
        "sgl-project/SpecForge": 150, "InventiveHQ/speculative-decoding-consumer-gpus": 11, "sgl-project/sglang": 1,
        "NVIDIA/TensorRT-LLM": 2, "ggml-org/llama.cpp": 3, "kekzl/imp": 8, "vllm20780": 12, "pocketllm60": 4,
        "speedbench2026": 6, "specbench": 41, "illusion2026": 1, "llamacpp24508": 2,
    }  # fmt: skip


def test_published_series_three_rows_digit_by_digit():
    dflash, forge, vllm = _row(29), _row(30), _row(344)
    assert (dflash.hardware, dflash.drafter, dflash.draft_length, dflash.n_rounds) == (
        "NVIDIA DGX Spark GB10", "DFlash", 11.0, 4875,
    )  # fmt: skip
    assert (dflash.tokens_per_round, dflash.draft_acceptance_rate) == (4.214153846153846, 0.2921958041958042)
    assert (dflash.prompt_tokens, dflash.output_tokens, dflash.tokens_per_s) == (167.0, 512.0, 108.79612973905714)
    assert (forge.target, forge.draft_length, forge.batch) == ("Qwen3-30B-A3B-Instruct-2507", 3.0, 8)
    assert (forge.tokens_per_round, forge.tokens_per_s, forge.baseline_tokens_per_s) == (
        2.6400593352844486, 1488.3645940190918, 1071.2940027174511,
    )  # fmt: skip
    assert (vllm.drafter, vllm.draft_length, vllm.tokens_per_round) == ("EAGLE-3", 6.0, 3.46)
    assert (vllm.tokens_per_s, vllm.baseline_tokens_per_s) == (1000.0 / 4.2, 1000.0 / 7.07)


def test_published_series_tables_of_speedups_over_the_batch():
    gains = {
        (row.source, row.drafter): [each.speedup for each in published_series().rows if each.series == row.series]
        for row in published_series().rows
        if row.source in ("eagle2025 table 3", "eagle2025 table 5")
    }
    assert gains == {
        ("eagle2025 table 3", "EAGLE"): [1.40, 1.38, 1.23, 1.02, 0.93, 0.94, 0.88, 0.99, 0.99],
        ("eagle2025 table 3", "EAGLE-3"): [1.81, 1.82, 1.62, 1.48, 1.39, 1.32, 1.38, 1.34, 1.38],
        ("eagle2025 table 5", "EAGLE"): [1.30, 1.25, 1.21, 1.10, 1.03, 0.93, 0.82, 0.71],
        ("eagle2025 table 5", "EAGLE-3"): [1.75, 1.68, 1.58, 1.49, 1.42, 1.36, 1.21, 1.01],
    }
    assert all(row.tokens_per_round is None for row in published_series().rows if row.source.startswith("eagle2025"))


def test_series_licences_cover_every_source_and_no_other():
    licences = series_licences()
    assert licences.keys() == {row.source for row in published_series().rows}
    assert {licence.licence for licence in licences.values()} == {"MIT", "CC BY 4.0", "figures only"}
    for licence in licences.values():
        assert licence.url.startswith("https://")
        assert (licence.holder is None) == (licence.licence == "figures only")
        assert (licence_text(licence.licence) is None) == (licence.licence == "figures only")


def test_series_licences_keys_are_of_the_bibliography():
    entries = (ROOT / "book" / "references.bib").read_text(encoding="utf-8")
    known = set(re.findall(r"^@\w+\{(\S+),", entries, re.MULTILINE))
    assert {licence.key for licence in series_licences().values() if licence.key} <= known
