"""Measuring by the clock: what is compared, and that nothing here depends on how long it took."""

from __future__ import annotations

import pytest

from specbook.engine.draft import chain_shape
from specbook.engine.library import load_target
from specbook.engine.library.drafters import shipped_drafter
from specbook.measuring.rounds import MeasuringConfig
from specbook.measuring.timing import book_conditions, book_timings, clocked_speedup, pass_seconds

CONFIG = MeasuringConfig(shape=chain_shape(4), max_new_tokens=8)
PROMPTS = [[1023, 65, 66], [1023, 67], [1023, 68, 69]]


def test_pass_seconds_has_one_figure_a_model_and_width() -> None:
    seconds = pass_seconds([load_target("fast"), load_target("naive")], (1, 3), context=16, n_repeats=2)
    assert [len(row) for row in seconds] == [2, 2]
    assert min(map(min, seconds)) > 0.0


def test_clocked_speedup_is_the_ratio_of_its_times() -> None:
    target = load_target("fast")
    found = clocked_speedup(target, shipped_drafter("small", target), PROMPTS, CONFIG, n_replicates=50)
    assert found.speedup == pytest.approx(found.baseline_tpot_s / found.tpot_s)
    assert found.low <= found.high
    assert 1.0 <= found.tokens_per_round <= 5.0


def test_clocked_speedup_of_one_prompt_is_refused() -> None:
    target = load_target("fast")
    with pytest.raises(ValueError, match="at least 2"):
        clocked_speedup(target, shipped_drafter("small", target), PROMPTS[:1], CONFIG)


def test_book_timings_have_what_the_chapter_shows() -> None:
    passes, speedups, smollm = (book_timings(kind) for kind in ("passes", "speedups", "smollm"))
    assert set(passes["arithmetic"]) == {"exact", "fast", "ref64", "naive"}
    assert (passes["pass_s"] > 0).all()
    for table in (speedups, smollm):
        assert (table["low"] <= table["high"]).all()
        assert (table["tokens_per_round"] >= 1.0).all()
    for kind in ("passes", "speedups", "smollm"):
        assert book_conditions(kind)["blas"]["threads"] == 1


def test_unknown_table_is_refused() -> None:
    with pytest.raises(ValueError, match="passes"):
        book_timings("seconds")
