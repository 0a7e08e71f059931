"""The corpus as streams of tokens: encoding, storing, drawing batches, cutting windows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from specbook.checks import BadInput, check_counts, check_probability
from specbook.engine.tokenizer import Tokenizer
from specbook.files import check_readable, sha256_of, write_atomically
from specbook.training.bpe import N_BYTES, Pair

Tokens = NDArray[np.int32]

SCHEMA = "specbook-tokens/1"


@dataclass(frozen=True, kw_only=True)
class TokenStreams:
    """All documents of a domain and split as one stream, each document closed by the end token.

    Parameters
    ----------
    streams : dict of (str, str) to (n,) ndarray of int32
        By domain and split.
    token_bytes : (n_vocab,) ndarray of int32
        Bytes of text that a token stands for; the end token counts as one, the break between two documents.
    sha256 : str
        Hash of the file that holds them; empty before they are written.
    """

    streams: dict[tuple[str, str], Tokens]
    token_bytes: Tokens
    sha256: str = ""

    @property
    def end_token(self) -> int:
        """The token that ends a document and begins a sequence."""
        return len(self.token_bytes) - 1


def token_lengths(merges: Sequence[Pair]) -> list[int]:
    """Bytes that each token stands for, bytes and merges.

    Examples
    --------
    >>> token_lengths([(97, 98), (256, 256)])[-2:]
    [2, 4]
    """
    lengths = [1] * N_BYTES
    for left, right in merges:
        lengths.append(lengths[left] + lengths[right])
    return lengths


def encode_corpus(corpus: Mapping[tuple[str, str], list[str]], merges: Sequence[Pair]) -> TokenStreams:
    """Encode every document and close it with the end token, whose id follows the merges.

    Parameters
    ----------
    corpus : mapping of (str, str) to list of str
        Texts by domain and split.
    merges : sequence of (int, int)

    Returns
    -------
    TokenStreams

    Examples
    --------
    >>> encode_corpus({("code", "train"): ["ab", "c"]}, [(97, 98)]).streams
    {('code', 'train'): array([256, 257,  99, 257], dtype=int32)}
    """
    tokenizer, end = Tokenizer(merges), N_BYTES + len(merges)

    def encoded(texts: list[str]) -> Tokens:
        return np.array([token for text in texts for token in (*tokenizer.encode(text), end)], dtype=np.int32)

    return TokenStreams(
        streams={part: encoded(texts) for part, texts in corpus.items()},
        token_bytes=np.array([*token_lengths(merges), 1], dtype=np.int32),
    )


def write_tokens(path: Path, streams: TokenStreams) -> None:
    """Write the streams as safetensors, ``{domain}.{split}`` and ``token_bytes``."""
    arrays = {f"{domain}.{split}": stream for (domain, split), stream in streams.streams.items()}
    metadata = {"schema": SCHEMA, "end_token": json.dumps(streams.end_token)}
    arrays["token_bytes"] = streams.token_bytes
    write_atomically(path, lambda part: save_file(arrays, str(part), metadata=metadata))


def read_tokens(path: Path) -> TokenStreams:
    """Read what :func:`write_tokens` wrote.

    Raises
    ------
    BadInput
        If the file is missing, damaged or holds something else.
    """
    check_readable(path)
    try:
        with safe_open(str(path), framework="numpy") as stored:
            schema = (stored.metadata() or {}).get("schema")
            arrays: dict[str, Any] = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise BadInput(f"is no safetensors file ({error})", file=str(path), remedy="make the tokens again") from None
    if schema != SCHEMA:
        raise BadInput("unknown schema", file=str(path), field="schema", value=schema, remedy=f"expected {SCHEMA}")
    token_bytes = arrays.pop("token_bytes")
    parts = {(name.partition(".")[0], name.partition(".")[2]): stream for name, stream in arrays.items()}
    return TokenStreams(streams=parts, token_bytes=token_bytes, sha256=sha256_of(path))


def draw_batch(
    streams: TokenStreams, shares: Mapping[str, float], n_sequences: int, n_tokens: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Sequences cut from the training streams at random.

    Parameters
    ----------
    streams : TokenStreams
    shares : mapping of str to float
        Probability of each domain; they sum to 1.
    n_sequences, n_tokens : int
        Sequences and tokens in each, at least 1.
    rng : numpy.random.Generator

    Returns
    -------
    (n_sequences, n_tokens) ndarray of int64

    Raises
    ------
    ValueError
        If the shares are no distribution, a size is below 1, or a stream is shorter than a sequence.

    Examples
    --------
    >>> streams = encode_corpus({("code", "train"): ["abcd" * 9]}, [])
    >>> draw_batch(streams, {"code": 1.0}, 2, 3, np.random.default_rng(0)).shape
    (2, 3)
    """
    length, count = (
        int(check_counts(name, n, 1)) for name, n in (("n_tokens", n_tokens), ("n_sequences", n_sequences))
    )
    probability = check_probability("shares", list(shares.values()))
    drawn = rng.choice(len(probability), size=count, p=probability)
    names = list(shares)
    return np.stack([_cut(streams.streams[names[domain], "train"], names[domain], length, rng) for domain in drawn])


def _cut(stream: Tokens, domain: str, length: int, rng: np.random.Generator) -> NDArray[np.int64]:
    if len(stream) < length:
        raise ValueError(f"the training stream of {domain} must hold {length} tokens; got {len(stream)}")
    start = int(rng.integers(len(stream) - length + 1))
    return stream[start : start + length].astype(np.int64)


def windows(stream: Tokens, n_tokens: int) -> Iterator[NDArray[np.int64]]:
    """Cut a stream into windows of ``n_tokens + 1`` that share one token, so that each token is predicted once.

    Examples
    --------
    >>> [window.tolist() for window in windows(np.arange(6, dtype=np.int32), 2)]
    [[0, 1, 2], [2, 3, 4], [4, 5]]
    """
    for start in range(0, len(stream) - 1, n_tokens):
        yield stream[start : start + n_tokens + 1].astype(np.int64)
