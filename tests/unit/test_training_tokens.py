"""Token streams: encoded, stored, drawn from, cut into windows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from specbook.checks import BadInput
from specbook.engine.library import END_OF_TEXT, FOLDER, tokenizer
from specbook.training.artefacts import read_merges, write_merges
from specbook.training.bpe import N_BYTES
from specbook.training.tokens import (
    TokenStreams,
    draw_batch,
    encode_corpus,
    read_tokens,
    token_lengths,
    windows,
    write_tokens,
)

MERGES = [(97, 98), (256, 99)]


@pytest.fixture
def streams() -> TokenStreams:
    return encode_corpus({("code", "train"): ["abc" * 30, "x"], ("chat", "train"): ["yy" * 40]}, MERGES)


def test_encode_corpus_closes_every_document(streams: TokenStreams):
    assert streams.streams["code", "train"].tolist() == [257] * 30 + [258, ord("x"), 258]
    assert streams.end_token == 258


def test_token_bytes_add_up_to_text_and_breaks(streams: TokenStreams):
    total = streams.token_bytes[streams.streams["code", "train"]].sum()
    assert total == len("abc" * 30) + len("x") + 2


def test_end_token_of_the_shipped_vocabulary():
    assert END_OF_TEXT == N_BYTES + len(read_merges(FOLDER / "bpe1024.json")) == tokenizer().n_tokens


def test_token_lengths_of_the_shipped_merges_are_those_of_the_text():
    lengths = token_lengths(read_merges(FOLDER / "bpe1024.json"))
    for token in range(32, 127):
        assert lengths[token] == 1
    for token in range(256, END_OF_TEXT):
        assert lengths[token] == len(tokenizer().decode([token]).encode())


def test_merges_are_written_as_the_engine_reads_them(tmp_path: Path):
    write_merges(tmp_path / "bpe.json", MERGES)
    assert read_merges(tmp_path / "bpe.json") == MERGES


def test_tokens_are_read_back(tmp_path: Path, streams: TokenStreams):
    write_tokens(tmp_path / "tokens.safetensors", streams)
    again = read_tokens(tmp_path / "tokens.safetensors")
    assert again.streams.keys() == streams.streams.keys()
    for part, stream in streams.streams.items():
        assert np.array_equal(again.streams[part], stream)
    assert np.array_equal(again.token_bytes, streams.token_bytes)
    assert len(again.sha256) == 64


def test_read_tokens_damaged_or_other_files_are_refused(tmp_path: Path, streams: TokenStreams):
    path = tmp_path / "tokens.safetensors"
    write_tokens(path, streams)
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(BadInput, match=r"is no safetensors file \(.*\); make the tokens again$"):
        read_tokens(path)
    save_file({"x": np.zeros(2, np.float32)}, str(path))
    with pytest.raises(BadInput, match=r"schema = None: unknown schema; expected specbook-tokens/1$"):
        read_tokens(path)
    with pytest.raises(BadInput, match="no such file"):
        read_tokens(tmp_path / "none")


def test_draw_batch_cuts_from_the_streams(streams: TokenStreams):
    batch = draw_batch(streams, {"code": 0.5, "chat": 0.5}, 64, 20, np.random.default_rng(0))
    assert batch.shape == (64, 20)
    assert batch.dtype == np.int64
    stream = streams.streams["chat", "train"]
    cuts = {tuple(stream[start : start + 20]) for start in range(len(stream) - 19)}
    chat = [tuple(row) in cuts for row in batch]
    assert 10 < sum(chat) < 54


def test_draw_batch_reaches_both_ends_of_a_stream():
    streams = encode_corpus({("code", "train"): ["0123456"]}, [])
    batch = draw_batch(streams, {"code": 1.0}, 200, 3, np.random.default_rng(0))
    assert {int(row[0]) for row in batch} == {ord(digit) for digit in "012345"}


def test_draw_batch_repeats_with_its_seed(streams: TokenStreams):
    first, second = (draw_batch(streams, {"code": 1.0}, 4, 5, np.random.default_rng(3)) for _ in range(2))
    assert np.array_equal(first, second)


def test_draw_batch_stream_that_is_too_short_is_refused(streams: TokenStreams):
    with pytest.raises(ValueError, match="the training stream of code must hold 50 tokens; got 33"):
        draw_batch(streams, {"code": 1.0}, 1, 50, np.random.default_rng(0))


@pytest.mark.parametrize(("n_sequences", "n_tokens"), [(0, 5), (1, 0), (1, 2.5)])
def test_draw_batch_impossible_sizes_are_refused(streams: TokenStreams, n_sequences: int, n_tokens: int):
    with pytest.raises(ValueError, match="must be whole and at least 1"):
        draw_batch(streams, {"code": 1.0}, n_sequences, n_tokens, np.random.default_rng(0))


@pytest.mark.parametrize("length", [0, 1, 2, 7, 8, 9])
def test_windows_predict_every_token_but_the_first_once(length: int):
    stream = np.arange(length, dtype=np.int32)
    predicted = [token for window in windows(stream, 4) for token in window[1:]]
    assert predicted == list(range(1, length))
