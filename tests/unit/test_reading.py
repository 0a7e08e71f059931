"""One round as a table."""

from __future__ import annotations

import pytest

from specbook.engine.decoding import DecodingConfig, speculative
from specbook.engine.draft import chain_shape, tree_shape
from specbook.engine.library import load_target, tokenizer
from specbook.engine.library.drafters import shipped_drafter
from specbook.engine.sampling import SamplingConfig
from specbook.measuring.reading import round_table, visible

PROMPT = [1023, *tokenizer().encode("User: What is a list?\nAssistant:")]


def test_greedy_round_keeps_what_the_target_would_have_written() -> None:
    target = load_target("ref64")
    config = DecodingConfig(max_new_tokens=16)
    for round_ in speculative(target, shipped_drafter("small", target), PROMPT, config, chain_shape(4)):
        table = round_table(round_, tokenizer().decode)
        kept = table.filter("accepted")
        assert kept["draft"].to_list() == kept["target"].to_list()
        assert (kept["keep"] == 1.0).all()
        assert table["depth"].to_list() == [1, 2, 3, 4]


def test_sampled_tree_states_both_probabilities() -> None:
    target = load_target("ref64")
    config = DecodingConfig(max_new_tokens=8, sampling=SamplingConfig(temperature=1.0))
    round_ = next(speculative(target, shipped_drafter("small", target), PROMPT, config, tree_shape((2, 1))))
    table = round_table(round_, tokenizer().decode)
    assert table["depth"].to_list() == [1, 1, 2, 2]
    first = table.row(0, named=True)
    assert first["keep"] == pytest.approx(min(1.0, first["p"] / first["q"]), abs=0.1)
    assert ((table["q"] > 0) & (table["q"] <= 1)).all()


def test_visible_shows_spaces_and_breaks() -> None:
    assert visible(" a\n  b") == "␣a⏎␣␣b"
