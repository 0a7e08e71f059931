"""Learning of merges, against a slow learner that counts everything anew, and with the engine's tokenizer."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbook.engine.tokenizer import PIECES, Tokenizer
from specbook.training.bpe import first_texts, learn_merges
from specbook.training.tokens import token_lengths


def _slow_merges(word_counts: dict[str, int], n_merges: int) -> list[tuple[int, int]]:
    words = [(list(word.encode()), count) for word, count in word_counts.items()]
    merges: list[tuple[int, int]] = []
    for token in range(256, 256 + n_merges):
        pairs: Counter[tuple[int, int]] = Counter()
        for tokens, count in words:
            for pair in itertools.pairwise(tokens):
                pairs[pair] += count
        if not pairs or max(pairs.values()) < 2:
            break
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(best)
        for tokens, _ in words:
            index = 0
            while index < len(tokens) - 1:
                if (tokens[index], tokens[index + 1]) == best:
                    tokens[index : index + 2] = [token]
                index += 1
    return merges


@given(st.dictionaries(st.text("aabbcé ", max_size=9), st.integers(1, 5), max_size=12), st.integers(0, 12))
def test_learn_merges_counts_as_a_slow_learner_does(word_counts: dict[str, int], n_merges: int):
    assert learn_merges(word_counts, n_merges) == _slow_merges(word_counts, n_merges)


def test_learn_merges_runs_of_one_letter_merge_from_the_left():
    assert learn_merges({"aaa": 3}, 5) == [(97, 97), (256, 97)]


def test_learn_merges_stops_when_nothing_repeats():
    assert learn_merges({"abc": 1}, 10) == []


@pytest.mark.parametrize("n_merges", [-1, 1.5])
def test_learn_merges_impossible_number_is_refused(n_merges: float):
    with pytest.raises(ValueError, match="n_merges"):
        learn_merges({"ab": 2}, n_merges)  # type: ignore[arg-type]


@given(st.text(max_size=60))
def test_any_text_survives_encoding_with_learned_merges(text: str):
    source = "def mean(values): return sum(values) / len(values)\nUser: What is a mean?\n" * 3
    tokenizer = Tokenizer(learn_merges(Counter(PIECES.findall(source)), 40))
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_learned_merges_shorten_the_text_they_come_from():
    source = "for value in values:\n    total = total + value\n" * 20
    merges = learn_merges(Counter(PIECES.findall(source)), 30)
    tokens = Tokenizer(merges).encode(source)
    assert len(tokens) < len(source) / 3
    assert sum(token_lengths(merges)[token] for token in tokens) == len(source)


def test_digits_stay_single():
    tokenizer = Tokenizer(learn_merges(Counter(PIECES.findall("1000 + 1000 = 2000\n" * 50)), 50))
    assert len(tokenizer.encode("1000")) == 4


def test_first_texts_stops_after_the_text_that_reaches_the_length():
    assert first_texts(["aa", "bb", "cc"], 3) == ["aa", "bb"]
    assert first_texts(["aa"], 0) == []
