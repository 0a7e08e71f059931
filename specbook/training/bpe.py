"""Byte-level byte-pair encoding, learned: which pairs of tokens become one token, the most frequent first."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from specbook.checks import check_counts

Pair = tuple[int, int]

N_BYTES = 256


@dataclass
class _Words:
    """Words as lists of tokens, with the count of every pair and the words that it is in."""

    tokens: list[list[int]]
    counts: list[int]
    pair_counts: Counter[Pair] = field(default_factory=Counter)
    words_with: dict[Pair, set[int]] = field(default_factory=lambda: defaultdict(set))

    def __post_init__(self) -> None:
        for word in range(len(self.tokens)):
            self._add(word)

    def _add(self, word: int) -> None:
        for pair in _pairs(self.tokens[word]):
            self.pair_counts[pair] += self.counts[word]
            self.words_with[pair].add(word)

    def _remove(self, word: int) -> None:
        for pair in _pairs(self.tokens[word]):
            self.pair_counts[pair] -= self.counts[word]
            self.words_with[pair].discard(word)

    def most_frequent(self) -> Pair | None:
        """The pair that occurs most often, at least twice; a tie goes to the larger pair."""
        best = max(self.pair_counts, key=lambda pair: (self.pair_counts[pair], pair), default=None)
        return None if best is None or self.pair_counts[best] < 2 else best

    def merge(self, pair: Pair, token: int) -> None:
        """Replace the pair by a token everywhere."""
        for word in sorted(self.words_with[pair]):
            self._remove(word)
            self.tokens[word] = _merged(self.tokens[word], pair, token)
            self._add(word)
        del self.pair_counts[pair], self.words_with[pair]


def learn_merges(word_counts: Mapping[str, int], n_merges: int) -> list[Pair]:
    """Learn the merges of a byte-level encoding.

    Parameters
    ----------
    word_counts : mapping of str to int
        How often each word occurs; a word is a piece of text inside which tokens may form.
    n_merges : int
        Merges to learn, at least 0; fewer come back if no pair occurs twice any more.

    Returns
    -------
    list of (int, int)
        Merge ``i`` joins its two tokens into token ``256 + i``; tokens below 256 are bytes.

    Raises
    ------
    ValueError
        If ``n_merges`` is negative or not whole.

    References
    ----------
    sennrich2016

    Examples
    --------
    >>> learn_merges({"low": 5, "lower": 2, "newest": 6}, 2)
    [(119, 101), (108, 111)]
    """
    words = _Words(tokens=[list(word.encode()) for word in word_counts], counts=list(word_counts.values()))
    merges: list[Pair] = []
    for token in range(N_BYTES, N_BYTES + int(check_counts("n_merges", n_merges))):
        pair = words.most_frequent()
        if pair is None:
            break
        merges.append(pair)
        words.merge(pair, token)
    return merges


def first_texts(texts: Iterable[str], n_characters: int) -> list[str]:
    """Texts from the start until their length reaches ``n_characters``: a domain's share in learning the merges.

    Examples
    --------
    >>> first_texts(["abc", "de", "f"], 4)
    ['abc', 'de']
    """
    taken: list[str] = []
    for text in texts:
        if n_characters <= 0:
            break
        taken.append(text)
        n_characters -= len(text)
    return taken


def _pairs(tokens: list[int]) -> Iterable[Pair]:
    return itertools.pairwise(tokens)


def _merged(tokens: list[int], pair: Pair, token: int) -> list[int]:
    result: list[int] = []
    for next_token in tokens:
        if result and (result[-1], next_token) == pair:
            result[-1] = token
        else:
            result.append(next_token)
    return result
