"""Decoding: autoregressive, and speculative with any drafter, greedy or sampled, as chains or trees.

Both are generators of rounds. :func:`generate` collects them; what a round measured is the same record everywhere, so
that acceptance profiles, the simulator and the witness read one thing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Literal

import numpy as np

from specbook.checks import check_counts
from specbook.engine.chance import Chance, Dice
from specbook.engine.draft import Draft, TreeShape, chain_shape
from specbook.engine.drafters.drafter import Drafter, Request, TargetState
from specbook.engine.layout import chain_positions, tree_rows
from specbook.engine.sampling import GREEDY, Probabilities, SamplingConfig, distribution
from specbook.engine.transformer import Transformer
from specbook.engine.verification import Verdict, verify

Finish = Literal["stop", "length", "context"]


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodingConfig:
    """When decoding ends and how tokens are drawn.

    Parameters
    ----------
    max_new_tokens : int
        At least 1.
    max_context : int
        Most tokens of a sequence, its prompt included; at most the model's context.
    stop_tokens : collection of int
        Decoding ends with the first of them, which is kept.
    sampling : SamplingConfig
    seed : int
        Drafts and acceptance draw from two streams of it.

    Raises
    ------
    ValueError
        If a number is out of range.
    """

    max_new_tokens: int = 64
    max_context: int = 2048
    stop_tokens: frozenset[int] = frozenset()
    sampling: SamplingConfig = GREEDY
    seed: int = 0

    def __post_init__(self) -> None:
        check_counts("max_new_tokens", self.max_new_tokens, minimum=1)
        check_counts("max_context", self.max_context, minimum=2)
        check_counts("seed", self.seed)

    def streams(self) -> tuple[Chance, Chance]:
        """Chance of drafts and of acceptance."""
        drafts, acceptance = np.random.SeedSequence(self.seed).spawn(2)
        return Dice(np.random.default_rng(drafts)), Dice(np.random.default_rng(acceptance))


@dataclass(frozen=True, kw_only=True, slots=True)
class RoundRecord:
    """What one round measured.

    Attributes
    ----------
    drafted, depth, accepted, emitted : int
        Drafted tokens (nodes of a tree), tokens on its longest path, accepted tokens, tokens that entered the text: one
        more than accepted, fewer in a last round that was cut.
    tried, kept : tuple of int
        By rank among siblings: how often verification tried that sibling, and accepted it.
    draft_s, verify_s, accept_s : float
        Seconds of drafting, of the target's pass, and of acceptance and bookkeeping.
    """

    drafted: int
    depth: int
    accepted: int
    emitted: int
    tried: tuple[int, ...]
    kept: tuple[int, ...]
    draft_s: float
    verify_s: float
    accept_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Round:
    """A round as it happens: its record, and what it was made of."""

    record: RoundRecord
    tokens: tuple[int, ...]
    draft: Draft
    target: Sequence[Probabilities]
    verdict: Verdict
    finish: Finish | None


@dataclass(kw_only=True, slots=True)
class Generation:
    """New tokens and one record a round."""

    prompt: tuple[int, ...]
    config: DecodingConfig
    tokens: list[int] = field(default_factory=list)
    rounds: list[RoundRecord] = field(default_factory=list)
    finish: Finish | None = None


def check_prompt(target: Transformer, prompt: Sequence[int], config: DecodingConfig) -> None:
    """Raise if this prompt cannot be continued.

    Raises
    ------
    ValueError
        If the prompt is empty, fills the context, holds an unknown token, or the context exceeds the model's.
    """
    if config.max_context > target.spec.max_context:
        raise ValueError(f"max_context must be at most the model's {target.spec.max_context}; got {config.max_context}")
    if not len(prompt):
        raise ValueError("prompt must hold at least one token, such as the one that begins a text; got none")
    if len(prompt) >= config.max_context:
        raise ValueError(f"prompt of {len(prompt)} tokens leaves no room in a context of {config.max_context}")
    if min(prompt) < 0 or max(prompt) >= target.n_vocab:
        raise ValueError(f"prompt must hold tokens from 0 to {target.n_vocab - 1}; got {min(prompt)} to {max(prompt)}")


def check_drafter(target: Transformer, drafter: Drafter) -> None:
    """Raise if the drafter speaks of other tokens.

    Raises
    ------
    ValueError
        If the vocabularies differ in size.
    """
    if drafter.n_vocab is not None and drafter.n_vocab != target.n_vocab:
        raise ValueError(f"drafter must have the target's vocabulary of {target.n_vocab}; got {drafter.n_vocab}")


def autoregressive(target: Transformer, prompt: Sequence[int], config: DecodingConfig) -> Iterator[Round]:
    """One token a pass: the reference that speculation must equal.

    Raises
    ------
    ValueError
        If the prompt cannot be continued; see :func:`check_prompt`.
    """
    check_prompt(target, prompt, config)
    tokens, cache = list(prompt), target.new_cache(config.max_context)
    if len(tokens) > 1:
        target.prefill(tokens[:-1], cache)
    _, chance = config.streams()
    finish: Finish | None = None
    while finish is None:
        start = perf_counter()
        hidden = target.forward([tokens[-1:]], chain_positions(cache, 1), None, cache)
        logits = target.logits(hidden)[0]
        verified = perf_counter()
        cache.commit_all()
        probabilities = distribution(logits, config.sampling)
        token = chance.draw(probabilities[0])
        tokens.append(token)
        finish = _finish(tokens, len(prompt), config)
        record = _record(Draft(), Verdict(path=(), next_token=token), 1, (start, start, verified))
        yield Round(
            record=record,
            tokens=(token,),
            draft=Draft(),
            target=list(probabilities),
            verdict=Verdict(path=(), next_token=token),
            finish=finish,
        )


def speculative(
    target: Transformer,
    drafter: Drafter,
    prompt: Sequence[int],
    config: DecodingConfig,
    shape: TreeShape | None = None,
    chance: Chance | None = None,
) -> Iterator[Round]:
    """Draft, verify in one pass, keep the accepted path and the target's next token; repeat.

    Parameters
    ----------
    target : Transformer
    drafter : Drafter
    prompt : sequence of int
    config : DecodingConfig
    shape : TreeShape, optional
        What a round may draft; a chain of four tokens if not given. It is cut where the context ends.
    chance : Chance, optional
        Decides everything, in place of the two streams of the seed.

    Yields
    ------
    Round

    Raises
    ------
    ValueError
        If the prompt cannot be continued, or the drafter has another vocabulary.

    Examples
    --------
    >>> from specbook.engine.drafters.prompt_lookup import PromptLookupDrafter
    >>> from specbook.engine.library import load_target
    >>> config = DecodingConfig(max_new_tokens=8)
    >>> rounds = list(speculative(load_target(), PromptLookupDrafter(), [1023, 65, 66, 65], config))
    >>> sum(len(round.tokens) for round in rounds)
    8
    """
    check_prompt(target, prompt, config)
    check_drafter(target, drafter)
    shape = chain_shape(4) if shape is None else shape
    tokens = list(prompt)
    # Rejected nodes and a lookahead window stand behind the text for the length of one pass.
    capacity = config.max_context + max(shape.n_nodes, _SPARE_ROWS)
    state = TargetState(target, capacity)
    state.prefill(tokens[:-1])
    drafter.start(state, tokens, capacity)
    drafting, accepting = config.streams() if chance is None else (chance, chance)
    finish: Finish | None = None
    while finish is None:
        room = shape.cut(config.max_context - len(tokens) - 1)
        start = perf_counter()
        request = Request(tokens=tokens, shape=room, sampling=config.sampling, chance=drafting)
        draft = drafter.propose(request) if room.n_nodes else Draft()
        drafted = perf_counter()
        positions, mask = tree_rows(state.length, draft.parents)
        hidden = target.forward([[tokens[-1], *draft.tokens]], positions, mask, state.cache)
        logits = target.logits(hidden)[0]
        verified = perf_counter()
        probabilities = distribution(logits, config.sampling)
        verdict = verify(draft, list(probabilities), accepting)
        state.commit([0, *(node + 1 for node in verdict.path)], hidden[0])
        drafter.accept(verdict.path)
        n_before = len(tokens)
        tokens += [*(draft.tokens[node] for node in verdict.path), verdict.next_token]
        finish = _finish(tokens, len(prompt), config, n_before)
        record = _record(draft, verdict, len(tokens) - n_before, (start, drafted, verified))
        yield Round(
            record=record,
            tokens=tuple(tokens[n_before:]),
            draft=draft,
            target=list(probabilities),
            verdict=verdict,
            finish=finish,
        )


# Room for a lookahead window of ten columns and runs of seven tokens.
_SPARE_ROWS = 64


def _record(draft: Draft, verdict: Verdict, emitted: int, marks: tuple[float, float, float]) -> RoundRecord:
    start, drafted, verified = marks
    return RoundRecord(
        drafted=draft.n_nodes,
        depth=draft.depth,
        accepted=len(verdict.path),
        emitted=emitted,
        tried=verdict.tried,
        kept=verdict.kept,
        draft_s=drafted - start,
        verify_s=verified - drafted,
        accept_s=perf_counter() - verified,
    )


def _finish(tokens: list[int], n_prompt: int, config: DecodingConfig, n_before: int | None = None) -> Finish | None:
    """Cut the new tokens where decoding ends, in place, and say why it ends."""
    first = len(tokens) - 1 if n_before is None else n_before
    for index in range(first, len(tokens)):
        if tokens[index] in config.stop_tokens:
            del tokens[index + 1 :]
            return "stop" if len(tokens) - n_prompt <= config.max_new_tokens else _cut(tokens, n_prompt, config)
    return _cut(tokens, n_prompt, config)


def _cut(tokens: list[int], n_prompt: int, config: DecodingConfig) -> Finish | None:
    if len(tokens) - n_prompt >= config.max_new_tokens:
        del tokens[n_prompt + config.max_new_tokens :]
        return "length"
    if len(tokens) >= config.max_context:
        del tokens[config.max_context :]
        return "context"
    return None


def generate(rounds: Iterator[Round], prompt: Sequence[int], config: DecodingConfig) -> Generation:
    """Run a decoder to its end.

    Examples
    --------
    >>> from specbook.engine.library import load_target
    >>> config = DecodingConfig(max_new_tokens=4)
    >>> generate(autoregressive(load_target(), [1023], config), [1023], config).finish
    'length'
    """
    generation = Generation(prompt=tuple(prompt), config=config)
    for round_ in rounds:
        generation.tokens += round_.tokens
        generation.rounds.append(round_.record)
        generation.finish = round_.finish
    return generation
