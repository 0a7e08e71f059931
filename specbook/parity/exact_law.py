"""The exact law of speculative output on small vocabularies, from the very code that drafts and verifies.

A *language* here is a table: logits of a target and of a drafter for every context. One round is run in every course
that chance can take (:func:`specbook.engine.chance.outcomes`), and rounds are put together context by context, since
a round depends on nothing but the tokens before it. Nothing is drawn, so nothing is estimated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specbook.engine.chance import Chance, outcomes
from specbook.engine.draft import Draft, TreeShape, chain_shape, ranked_shape, tree_shape
from specbook.engine.drafters.choice import Chooser, grow
from specbook.engine.sampling import GREEDY, SamplingConfig, distribution
from specbook.engine.verification import verify

Tokens = tuple[int, ...]
Law = dict[Tokens, float]
Array = NDArray[Any]

LENGTH = 3

_SAMPLED = SamplingConfig(temperature=1.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Language:
    """Logits behind every context up to some length, (n_vocab,) each."""

    target: Mapping[Tokens, Array]
    draft: Mapping[Tokens, Array]


@dataclass(frozen=True, kw_only=True, slots=True)
class ExactCase:
    """One way to speculate on a small vocabulary.

    Attributes
    ----------
    name : str
    n_vocab : int
    shape : TreeShape
        Of the first round; later ones draft as much of it as the text has room for.
    sampling : SamplingConfig
        Of the target.
    drafting : SamplingConfig
        Of the drafter; at temperature 0 its tokens are chosen without chance.
    agreement : float
        Share of the target in the drafter's logits: 1 makes them equal, negative ones make them disagree.
    """

    name: str
    n_vocab: int
    shape: TreeShape
    sampling: SamplingConfig = _SAMPLED
    drafting: SamplingConfig = _SAMPLED
    agreement: float = 0.5


def _cases() -> tuple[ExactCase, ...]:
    few = SamplingConfig(temperature=0.7, top_k=3)
    nucleus = SamplingConfig(temperature=1.5, top_p=0.8)
    ragged = ranked_shape([(0,), (1,), (0, 0), (0, 0, 0)])
    return (
        *(
            ExactCase(name=f"chain of {k}", n_vocab=n, shape=chain_shape(k))
            for n, k in [(4, 1), (5, 2), (4, 3), (6, 2)]
        ),
        *(ExactCase(name=f"{k} siblings", n_vocab=n, shape=tree_shape((k,))) for n, k in [(4, 3), (5, 2), (6, 2)]),
        ExactCase(name="tree 2 × 1", n_vocab=4, shape=tree_shape((2, 1))),
        ExactCase(name="ragged tree", n_vocab=4, shape=ragged),
        ExactCase(name="more siblings than tokens", n_vocab=4, shape=tree_shape((6,)), sampling=few, drafting=few),
        ExactCase(name="chain, top-k", n_vocab=6, shape=chain_shape(2), sampling=few, drafting=few),
        ExactCase(name="tree, top-p", n_vocab=5, shape=tree_shape((2, 1)), sampling=nucleus, drafting=nucleus),
        ExactCase(name="chain, drafter at another temperature", n_vocab=5, shape=chain_shape(2), drafting=few),
        ExactCase(name="chain, certain drafts", n_vocab=6, shape=chain_shape(3), drafting=GREEDY),
        ExactCase(name="tree, certain drafts", n_vocab=6, shape=tree_shape((2, 2, 1)), drafting=GREEDY),
        ExactCase(name="chain, equal models", n_vocab=5, shape=chain_shape(2), agreement=1.0),
        ExactCase(name="siblings, equal models", n_vocab=5, shape=tree_shape((2,)), agreement=1.0),
        ExactCase(name="siblings, opposed models", n_vocab=5, shape=tree_shape((2,)), agreement=-1.0),
        ExactCase(name="tree, greedy", n_vocab=6, shape=tree_shape((2, 2, 1)), sampling=GREEDY, drafting=GREEDY),
    )


EXACT_CASES = _cases()


def random_language(case: ExactCase, rng: np.random.Generator) -> Language:
    """Random logits behind all contexts that the case can reach."""
    depth = max(LENGTH - 1, case.shape.depth)
    contexts = [context for size in range(depth + 1) for context in product(range(case.n_vocab), repeat=size)]
    target = {context: 1.5 * rng.standard_normal(case.n_vocab) for context in contexts}
    noise = 1.0 - abs(case.agreement)
    draft = {
        context: case.agreement * target[context] + noise * 1.5 * rng.standard_normal(case.n_vocab)
        for context in contexts
    }
    return Language(target=target, draft=draft)


def target_law(language: Language, sampling: SamplingConfig) -> Law:
    """What tokens must follow: the product of the target's own distributions."""
    law: Law = {(): 1.0}
    for _ in range(LENGTH):
        law = {
            (*context, token): mass * float(probability)
            for context, mass in law.items()
            for token, probability in enumerate(distribution(language.target[context], sampling))
            if probability > 0.0
        }
    return law


def speculative_law(case: ExactCase, language: Language) -> Law:
    """What tokens do follow when they are drafted and verified."""
    law: Law = {(): 1.0}
    for length in range(LENGTH):
        shape = case.shape if length == 0 else case.shape.cut(LENGTH - length - 1)
        for context in [context for context in law if len(context) == length]:
            mass = law.pop(context)
            for emitted, probability in outcomes(_round(case, language, context, shape)).items():
                tokens = (*context, *emitted)[:LENGTH]
                law[tokens] = law.get(tokens, 0.0) + mass * probability
    return law


def _round(case: ExactCase, language: Language, context: Tokens, shape: TreeShape) -> Callable[[Chance], Tokens]:
    """One round behind a context: what it emits."""

    def run(chance: Chance) -> Tokens:
        paths: dict[int, Tokens] = {-1: context}

        def extend(draft: Draft, nodes: list[int]) -> Array:
            paths.update(_paths(draft, context))
            return np.stack([language.draft[paths[node]] for node in nodes])

        draft = grow(shape, language.draft[context], extend, Chooser(sampling=case.drafting, chance=chance))
        logits = [language.target[context], *(language.target[path] for path in _paths(draft, context).values())]
        verdict = verify(draft, list(distribution(np.stack(logits), case.sampling)), chance)
        return (*(draft.tokens[node] for node in verdict.path), verdict.next_token)

    return run


def _paths(draft: Draft, context: Tokens) -> dict[int, Tokens]:
    """Context and tokens down to each node, in order of nodes."""
    paths: dict[int, Tokens] = {-1: context}
    for node, (token, parent) in enumerate(zip(draft.tokens, draft.parents, strict=True)):
        paths[node] = (*paths[parent], token)
    del paths[-1]
    return paths
