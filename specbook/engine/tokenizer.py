"""Byte-level byte-pair encoding: any text becomes tokens, and decodes to itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

from specbook.checks import BadInput
from specbook.files import read_json, sha256_of

SCHEMA = "specbook-bpe/1"
_N_BYTES = 256

# Words with the space before them, single digits, runs of signs, line breaks with the indentation that follows.
PIECES = re.compile(r" ?[A-Za-z]+|[0-9]| ?[^\sA-Za-z0-9]+|\n[ ]*|[ ]+|\s")


class Tokenizer:
    """Token ids of text: 256 bytes first, then one id a merge.

    Parameters
    ----------
    merges : sequence of (int, int)
        Pairs of ids that become the next id, in order of learning.

    Examples
    --------
    >>> tokenizer = Tokenizer([(97, 98)])
    >>> tokenizer.encode("abc"), tokenizer.decode([256, 99])
    ([256, 99], 'abc')
    """

    def __init__(self, merges: Sequence[tuple[int, int]]) -> None:
        self._rank = {pair: rank for rank, pair in enumerate(merges)}
        self._bytes = [bytes([value]) for value in range(_N_BYTES)]
        for left, right in merges:
            self._bytes.append(self._bytes[left] + self._bytes[right])
        self._known: dict[str, list[int]] = {}

    @property
    def n_tokens(self) -> int:
        """Bytes and merges; special tokens come after them."""
        return len(self._bytes)

    def encode(self, text: str) -> list[int]:
        """Token ids of a text; half a surrogate pair, which no UTF-8 has, becomes a question mark."""
        return [token for piece in PIECES.findall(text) for token in self._encode_piece(piece)]

    def _encode_piece(self, piece: str) -> list[int]:
        if piece not in self._known:
            self._known[piece] = self._merge(list(piece.encode("utf-8", "replace")))
        return self._known[piece]

    def _merge(self, tokens: list[int]) -> list[int]:
        """Apply the earliest learned merge wherever it applies, until none does."""
        while ranks := [self._rank[pair] for pair in pairwise(tokens) if pair in self._rank]:
            tokens = self._merged(tokens, min(ranks))
        return tokens

    def _merged(self, tokens: list[int], rank: int) -> list[int]:
        """One merge, from left to right; a long piece takes as many passes as it has different merges."""
        merged: list[int] = []
        place = 0
        while place < len(tokens):
            pair = (tokens[place], tokens[place + 1]) if place + 1 < len(tokens) else None
            applies = pair is not None and self._rank.get(pair) == rank
            merged.append(_N_BYTES + rank if applies else tokens[place])
            place += 2 if applies else 1
        return merged

    def decode(self, tokens: Iterable[int]) -> str:
        """Text of token ids; special tokens are left out, broken UTF-8 is shown as �."""
        raw = b"".join(self._bytes[token] for token in tokens if token < len(self._bytes))
        return raw.decode("utf-8", "replace")


def read_tokenizer(path: Path, sha256: str | None = None) -> Tokenizer:
    """Read merges from a ``specbook-bpe/1`` file.

    Raises
    ------
    BadInput
        If the file is damaged, another schema, or hashes to something else.
    """
    document = read_json(path)
    if sha256 is not None and sha256_of(path) != sha256:
        raise BadInput("does not hash to what it should", file=str(path), remedy="install specbook anew")
    merges = document.get("merges") if isinstance(document, dict) and document.get("schema") == SCHEMA else None
    if not isinstance(merges, list) or not all(_is_merge(merge, _N_BYTES + rank) for rank, merge in enumerate(merges)):
        raise BadInput("holds no merges", file=str(path), field="merges", remedy=f"expected a {SCHEMA} file")
    return Tokenizer([(left, right) for left, right in merges])


def _is_merge(merge: object, limit: int) -> bool:
    return (
        isinstance(merge, list)
        and len(merge) == 2
        and all(type(token) is int and 0 <= token < limit for token in merge)
    )
