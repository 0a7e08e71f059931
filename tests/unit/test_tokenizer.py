"""Byte-level BPE: any text comes back, merges apply in order of learning, bad merges files are one line."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbook.checks import BadInput
from specbook.engine.library import END_OF_TEXT, FOLDER, tokenizer
from specbook.engine.tokenizer import PIECES, SCHEMA, Tokenizer, read_tokenizer

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
short_tokens = st.lists(st.sampled_from([97, 98, 99]), max_size=24)


@given(texts)
def test_encode_any_text_decodes_to_itself(text: str):
    tokens = tokenizer().encode(text)
    assert tokenizer().decode(tokens) == text
    assert all(0 <= token < tokenizer().n_tokens for token in tokens)


@given(texts)
def test_pieces_any_text_is_covered_without_a_gap(text: str):
    assert "".join(PIECES.findall(text)) == text


@pytest.mark.parametrize(
    "text", ["", " ", "\n", "\r\n\t", "  x", "é", "日本語", "🙂‍↔️", "\x00", "1234", "a\n    b\n", "ａ１"]
)
def test_encode_special_text_decodes_to_itself(text: str):
    assert tokenizer().decode(tokenizer().encode(text)) == text


def test_encode_digits_stay_apart():
    assert len(tokenizer().encode("20482")) == 5


def test_encode_half_a_surrogate_pair_becomes_a_question_mark():
    assert tokenizer().decode(tokenizer().encode("a\ud800b")) == "a?b"


@st.composite
def merge_lists(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Merges of a, b and c and of what came of them."""
    merges: list[tuple[int, int]] = []
    for rank in range(draw(st.integers(0, 12))):
        known = st.sampled_from([97, 98, 99, *range(256, 256 + rank)])
        pair = draw(st.tuples(known, known))
        if pair in merges:
            break
        merges.append(pair)
    return merges


def _one_by_one(merges: list[tuple[int, int]], tokens: list[int]) -> list[int]:
    """The leftmost pair of the earliest merge, one at a time."""
    while True:
        found = [(merges.index(pair), place) for place, pair in enumerate(pairwise(tokens)) if pair in merges]
        if not found:
            return tokens
        rank, place = min(found)
        tokens = [*tokens[:place], 256 + rank, *tokens[place + 2 :]]


@given(merge_lists(), short_tokens)
def test_encode_any_merges_apply_in_order_of_learning(merges: list[tuple[int, int]], tokens: list[int]):
    assert Tokenizer(merges).encode(bytes(tokens).decode()) == _one_by_one(merges, tokens)


def test_encode_does_not_merge_across_pieces():
    assert Tokenizer([(97, 32)]).encode("a b") == [97, 32, 98]


def test_decode_special_tokens_are_left_out():
    assert tokenizer().decode([END_OF_TEXT, 65, END_OF_TEXT, 66]) == "AB"


def test_decode_broken_utf8_is_shown():
    assert tokenizer().decode([0xE2, 0x82]) == "�"


def test_shipped_tokenizer_leaves_one_id_for_the_end_of_a_text():
    assert tokenizer().n_tokens == END_OF_TEXT


@pytest.mark.parametrize(
    "document",
    [
        [],
        {},
        {"schema": SCHEMA},
        {"schema": "specbook-bpe/2", "merges": []},
        {"schema": SCHEMA, "merges": {"0": [1, 2]}},
        {"schema": SCHEMA, "merges": [[97]]},
        {"schema": SCHEMA, "merges": [[97, 98, 99]]},
        {"schema": SCHEMA, "merges": [["a", "b"]]},
        {"schema": SCHEMA, "merges": [[97, 98.0]]},
        {"schema": SCHEMA, "merges": [[97, True]]},
        {"schema": SCHEMA, "merges": [[97, -1]]},
        {"schema": SCHEMA, "merges": [[97, 256]]},
        {"schema": SCHEMA, "merges": [[97, 98], [256, 257]]},
        {"schema": SCHEMA, "merges": "ab"},
    ],
)
def test_read_tokenizer_bad_merges_are_refused(save, document: object):
    path = save("bpe.json", document)
    with pytest.raises(BadInput, match=rf"^{path}: merges: holds no merges; expected a {SCHEMA} file$"):
        read_tokenizer(path)


def test_read_tokenizer_broken_json_and_other_hash_are_refused(save):
    with pytest.raises(BadInput, match=r"is not complete JSON"):
        read_tokenizer(save("bpe.json", b'{"schema"'))
    with pytest.raises(BadInput, match=r"bpe1024\.json: does not hash to what it should; install specbook anew$"):
        read_tokenizer(FOLDER / "bpe1024.json", "00" * 32)


def test_read_tokenizer_good_file_applies_its_merges(save):
    path = save("bpe.json", {"schema": SCHEMA, "merges": [[97, 98], [256, 99]]})
    assert read_tokenizer(path).encode("abcab") == [257, 256]
