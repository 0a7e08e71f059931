"""The exact law of speculative output, from running every course of its decisions: it is the target's law.

Target and drafter are tables: a distribution for every prefix. A round is the package's own drafting and verification;
the law of three tokens follows from rounds, since what a round does depends on the tokens before it alone.

Sources: Leviathan et al. 2023 (arXiv 2211.17192) and Chen et al. 2023 (arXiv 2302.01318) for chains; Miao et al. 2024
(arXiv 2305.09781) and Chen et al. 2024 (arXiv 2402.12374) for siblings.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest

from specbook.acceptance.yields import expected_acceptance, expected_tokens_per_round
from specbook.engine import verification
from specbook.engine.chance import Chance, outcomes
from specbook.engine.draft import Draft, TreeShape, chain_shape, tree_shape
from specbook.engine.drafters.choice import Array, Chooser, ConfidenceCut, Cut, EntropyCut, NoCut, grow
from specbook.engine.sampling import GREEDY, Probabilities, SamplingConfig, distribution
from specbook.engine.verification import verify

N_TOKENS = 3
SAMPLED = SamplingConfig(temperature=1.0)
FIXED = NoCut()

Prefix = tuple[int, ...]
Table = Callable[[Prefix], Array]
Law = dict[Prefix, float]
Drafting = Callable[["Round", Prefix, Chance], Draft]


def dirichlet_table(n_vocab: int, seed: int, n_possible: int | None = None) -> Table:
    """Log probabilities of a random distribution for each prefix, with ``n_possible`` tokens above zero."""

    @cache
    def logits(prefix: Prefix) -> Array:
        rng = np.random.default_rng([seed, n_vocab, len(prefix), *prefix])
        possible = rng.permutation(n_vocab)[: n_possible or n_vocab]
        found = np.full(n_vocab, -np.inf)
        found[possible] = np.log(rng.dirichlet(np.ones(len(possible))))
        return found

    return logits


def constant_table(probabilities: list[float]) -> Table:
    """The same distribution behind every prefix."""
    with np.errstate(divide="ignore"):
        logits = np.log(probabilities)
    return lambda prefix: logits  # noqa: ARG005


def tied_table(n_vocab: int, seed: int) -> Table:
    """Logits of 0, 1 and 2, so that several tokens share the top."""
    return lambda prefix: np.random.default_rng([seed, len(prefix), *prefix]).integers(0, 3, n_vocab).astype(np.float64)


def drafted_from_the_table(round_: Round, prefix: Prefix, chance: Chance) -> Draft:
    """The package's own drafting: level by level, siblings without replacement, greedy or sampled."""

    def extend(draft: Draft, nodes: list[int]) -> Array:
        return np.stack([round_.draft_table(prefix + path(draft, node)) for node in nodes])

    chooser = Chooser(sampling=round_.drawn or round_.sampling, chance=chance, cut=round_.cut)
    return grow(round_.shape, round_.draft_table(prefix), extend, chooser)


@dataclass(frozen=True, kw_only=True)
class Round:
    """What decides a round: two tables, the shape of drafts, and how tokens are drawn."""

    n_vocab: int
    target: Table
    draft_table: Table
    shape: TreeShape
    sampling: SamplingConfig = SAMPLED
    drawn: SamplingConfig | None = None  # of drafts, if not the target's
    cut: Cut = FIXED
    draft: Drafting = drafted_from_the_table

    def law(self, prefix: Prefix) -> Law:
        """Exact law of the tokens that a round adds."""
        drafts: dict[tuple[tuple[int, ...], ...], Draft] = {}

        def proposed(chance: Chance) -> tuple[tuple[int, ...], ...]:
            draft = self.draft(self, prefix, chance)
            key = tuple(draft.tokens), tuple(draft.parents)
            drafts[key] = draft
            return key

        law: Law = {}
        for key, of_draft in outcomes(proposed).items():
            for tokens, of_verdict in outcomes(self._accepting(drafts[key], prefix)).items():
                law[tokens] = law.get(tokens, 0.0) + of_draft * of_verdict
        return law

    def _accepting(self, draft: Draft, prefix: Prefix) -> Callable[[Chance], Prefix]:
        nodes = range(-1, draft.n_nodes)
        target = [distribution(self.target(prefix + path(draft, node)), self.sampling) for node in nodes]

        def accepted(chance: Chance) -> Prefix:
            verdict = verify(draft, target, chance)
            return (*(draft.tokens[node] for node in verdict.path), verdict.next_token)

        return accepted


def path(draft: Draft, node: int) -> Prefix:
    """Tokens from the root to a node."""
    return () if node < 0 else (*path(draft, draft.parents[node]), draft.tokens[node])


def speculative_law(round_: Round) -> Law:
    """Law of the first tokens of a text that is made of rounds, the last one cut."""

    @cache
    def law(prefix: Prefix) -> Law:
        if len(prefix) == N_TOKENS:
            return {prefix: 1.0}
        total: Law = {}
        for tokens, probability in round_.law(prefix).items():
            for text, then in law((prefix + tokens)[:N_TOKENS]).items():
                total[text] = total.get(text, 0.0) + probability * then
        return total

    return law(())


def target_law(round_: Round) -> Law:
    """Law of the first tokens when the target draws each of them."""
    law: Law = {}
    for text in itertools.product(range(round_.n_vocab), repeat=N_TOKENS):
        steps = [distribution(round_.target(text[:end]), round_.sampling)[text[end]] for end in range(N_TOKENS)]
        law[text] = float(np.prod(steps))
    return law


def assert_same_law(found: Law, wanted: Law) -> None:
    assert sum(found.values()) == pytest.approx(1.0, abs=1e-12)
    assert max(abs(found.get(text, 0.0) - wanted.get(text, 0.0)) for text in {*found, *wanted}) < 1e-12


def kl_nats(wanted: Law, found: Law) -> float:
    """Divergence of what was found from what was wanted, in nats."""
    return sum(p * np.log(p / max(found.get(text, 0.0), 1e-300)) for text, p in wanted.items() if p > 0.0)


UNBALANCED = TreeShape(parents=(-1, -1, 0, 0, 3))
SHAPES = {
    **{f"chain {k}": chain_shape(k) for k in range(5)},
    "two siblings": tree_shape((2,)),
    "four siblings": tree_shape((4,)),
    "two by one": tree_shape((2, 1)),
    "one by two": tree_shape((1, 2)),
    "unbalanced": UNBALANCED,
}
SAMPLINGS = {
    "T 0.3": SamplingConfig(temperature=0.3),
    "T 1": SAMPLED,
    "T 2": SamplingConfig(temperature=2.0),
    "top-k": SamplingConfig(temperature=1.0, top_k=2),
    "top-p": SamplingConfig(temperature=2.0, top_p=0.8),
    "top-k and top-p": SamplingConfig(temperature=1.0, top_k=3, top_p=0.7),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_law_random_tables_with_zeros_is_the_targets(shape: TreeShape):
    tables = {"target": dirichlet_table(4, 1, 3), "draft_table": dirichlet_table(4, 2, 3)}
    round_ = Round(n_vocab=4, shape=shape, **tables)
    assert_same_law(speculative_law(round_), target_law(round_))


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
@pytest.mark.parametrize("shape", [chain_shape(2), tree_shape((2, 1))], ids=["chain", "tree"])
def test_law_other_temperature_or_truncation_is_the_targets(shape: TreeShape, sampling: SamplingConfig):
    tables = {"target": dirichlet_table(4, 3), "draft_table": dirichlet_table(4, 4, 3)}
    round_ = Round(n_vocab=4, shape=shape, sampling=sampling, **tables)
    assert_same_law(speculative_law(round_), target_law(round_))


@pytest.mark.parametrize("n_vocab", [5, 6])
@pytest.mark.parametrize("shape", [chain_shape(1), chain_shape(2), tree_shape((3,))], ids=["K 1", "K 2", "siblings"])
def test_law_larger_vocabulary_is_the_targets(n_vocab: int, shape: TreeShape):
    tables = {"target": dirichlet_table(n_vocab, 5), "draft_table": dirichlet_table(n_vocab, 6, 3)}
    round_ = Round(n_vocab=n_vocab, shape=shape, **tables)
    assert_same_law(speculative_law(round_), target_law(round_))


@pytest.mark.parametrize("shape", [chain_shape(3), tree_shape((2, 1)), UNBALANCED], ids=["chain", "tree", "unbalanced"])
def test_law_drafter_equal_to_the_target_is_the_targets(shape: TreeShape):
    table = dirichlet_table(4, 9, 3)
    round_ = Round(n_vocab=4, target=table, draft_table=table, shape=shape)
    assert_same_law(speculative_law(round_), target_law(round_))


@pytest.mark.parametrize("shape", [chain_shape(3), tree_shape((2, 2))], ids=["chain", "tree"])
def test_law_drafter_that_is_never_right_is_the_targets(shape: TreeShape):
    tables = {"target": constant_table([0.0, 0.0, 0.3, 0.7]), "draft_table": constant_table([0.4, 0.6, 0.0, 0.0])}
    round_ = Round(n_vocab=4, shape=shape, **tables)
    assert_same_law(speculative_law(round_), target_law(round_))


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_law_greedy_with_ties_is_the_targets(shape: TreeShape):
    round_ = Round(n_vocab=5, target=tied_table(5, 1), draft_table=tied_table(5, 2), shape=shape, sampling=GREEDY)
    found = speculative_law(round_)
    assert found == {text: p for text, p in target_law(round_).items() if p > 0.0}
    assert list(found.values()) == [1.0]


@pytest.mark.parametrize("shape", [chain_shape(3), tree_shape((3, 2)), UNBALANCED], ids=["chain", "tree", "unbalanced"])
def test_law_children_chosen_without_chance_is_the_targets(shape: TreeShape):
    tables = {"target": dirichlet_table(4, 10), "draft_table": dirichlet_table(4, 11)}
    round_ = Round(n_vocab=4, shape=shape, drawn=GREEDY, **tables)
    assert_same_law(speculative_law(round_), target_law(round_))


@pytest.mark.parametrize("temperature", [0.3, 2.0])
def test_law_drafts_drawn_at_another_temperature_is_the_targets(temperature: float):
    tables = {"target": dirichlet_table(4, 12), "draft_table": dirichlet_table(4, 13)}
    drawn = SamplingConfig(temperature=temperature)
    round_ = Round(n_vocab=4, shape=chain_shape(2), drawn=drawn, **tables)
    assert_same_law(speculative_law(round_), target_law(round_))


@pytest.mark.parametrize("cut", [EntropyCut(0.7), ConfidenceCut(0.6)], ids=["entropy", "confidence"])
@pytest.mark.parametrize("shape", [chain_shape(3), tree_shape((2, 1))], ids=["chain", "tree"])
def test_law_cut_before_the_draw_is_the_targets(shape: TreeShape, cut: Cut):
    tables = {"target": dirichlet_table(4, 14), "draft_table": dirichlet_table(4, 15, 3)}
    round_ = Round(n_vocab=4, shape=shape, cut=cut, **tables)
    assert {len(tokens) for prefix in [(), (0,), (1,)] for tokens in round_.law(prefix)} > {1}  # some are cut, not all
    assert_same_law(speculative_law(round_), target_law(round_))


def _siblings(round_: Round, prefix: Prefix, tokens: list[int], chosen: bool) -> Draft:
    """Children of the root with these tokens, all said to be drawn from the whole table."""
    probabilities = distribution(round_.draft_table(prefix), round_.sampling)
    draft = Draft()
    for token in tokens:
        draft.add(token, -1, None if chosen else probabilities)
    return draft


def drawn_with_replacement(round_: Round, prefix: Prefix, chance: Chance) -> Draft:
    probabilities = distribution(round_.draft_table(prefix), round_.sampling)
    return _siblings(round_, prefix, [chance.draw(probabilities) for _ in range(3)], chosen=False)


def chosen_twice(round_: Round, prefix: Prefix, chance: Chance) -> Draft:  # noqa: ARG001
    return _siblings(round_, prefix, [2, 0, 2, 0], chosen=True)


def drawn_behind_chosen(round_: Round, prefix: Prefix, chance: Chance) -> Draft:
    draft = _siblings(round_, prefix, [1], chosen=True)
    probabilities = distribution(round_.draft_table(prefix), round_.sampling)
    draft.add(chance.draw(probabilities), -1, probabilities)
    return draft


@pytest.mark.parametrize("drafting", [drawn_with_replacement, chosen_twice, drawn_behind_chosen])
def test_law_siblings_that_may_be_equal_is_the_targets(drafting: Drafting):
    tables = {"target": dirichlet_table(4, 16), "draft_table": dirichlet_table(4, 17)}
    round_ = Round(n_vocab=4, shape=chain_shape(0), draft=drafting, **tables)
    assert_same_law(speculative_law(round_), target_law(round_))


def without_unlikely_tokens(round_: Round, prefix: Prefix, chance: Chance) -> Draft:
    """A cut after the draw: a drawn token is dropped because it looks unlikely."""
    draft = drafted_from_the_table(round_, prefix, chance)
    kept = Draft()
    for token, parent, drawn_from in zip(draft.tokens, draft.parents, draft.probabilities, strict=True):
        if drawn_from is None or drawn_from[token] < 0.4:
            break
        kept.add(token, parent, drawn_from)
    return kept


def with_probabilities_of_another_temperature(round_: Round, prefix: Prefix, chance: Chance) -> Draft:
    draft = drafted_from_the_table(replace(round_, drawn=SamplingConfig(temperature=0.5)), prefix, chance)
    tables = [round_.draft_table(prefix + path(draft, parent)) for parent in draft.parents]
    draft.probabilities = [distribution(table, round_.sampling) for table in tables]
    return draft


def with_probabilities_of_the_first_sibling(round_: Round, prefix: Prefix, chance: Chance) -> Draft:
    draft = drafted_from_the_table(round_, prefix, chance)
    first = draft.parents.index
    draft.probabilities = [draft.probabilities[first(parent)] for parent in draft.parents]
    return draft


CONTROL = {"n_vocab": 4, "target": dirichlet_table(4, 18), "draft_table": dirichlet_table(4, 19)}


@pytest.mark.parametrize(
    ("shape", "drafting"),
    [
        (chain_shape(1), without_unlikely_tokens),
        (chain_shape(1), with_probabilities_of_another_temperature),
        (tree_shape((2,)), with_probabilities_of_the_first_sibling),
    ],
)
def test_law_draft_that_misstates_its_probabilities_is_another(shape: TreeShape, drafting: Drafting):
    round_ = Round(**CONTROL, shape=shape, draft=drafting)
    assert kl_nats(target_law(round_), speculative_law(round_)) > 1e-3
    honest = replace(round_, draft=drafted_from_the_table)
    assert_same_law(speculative_law(honest), target_law(honest))


def _no_residual(target: Probabilities, token: int, drawn_from: Probabilities | None) -> Probabilities:  # noqa: ARG001
    return target


def _inverted(target: Probabilities, token: int, drawn_from: Probabilities | None) -> float:
    draft = 1.0 if drawn_from is None else float(drawn_from[token])
    return min(1.0, draft / float(target[token])) if target[token] > 0.0 else 0.0


def _always(target: Probabilities, token: int, drawn_from: Probabilities | None) -> float:  # noqa: ARG001
    return 1.0


@pytest.mark.parametrize(
    ("rule", "broken"),
    [("residual", _no_residual), ("acceptance_probability", _inverted), ("acceptance_probability", _always)],
)
@pytest.mark.parametrize("shape", [chain_shape(1), tree_shape((2,))], ids=["chain", "tree"])
def test_law_broken_rule_is_another(shape: TreeShape, rule: str, broken: object, monkeypatch: pytest.MonkeyPatch):
    round_ = Round(**CONTROL, shape=shape)
    monkeypatch.setattr(verification, rule, broken)
    assert kl_nats(target_law(round_), speculative_law(round_)) > 1e-3


@pytest.mark.parametrize("seed", range(5))
def test_first_draft_is_accepted_with_one_minus_total_variation(seed: int):
    target = distribution(dirichlet_table(6, seed, 5)(()), SAMPLED)
    drawn_from = distribution(dirichlet_table(6, seed + 100, 4)(()), SAMPLED)

    def accepted(chance: Chance) -> bool:
        draft = Draft()
        draft.add(chance.draw(drawn_from), -1, drawn_from)
        return len(verify(draft, [target, target], chance).path) == 1

    assert outcomes(accepted).get(True, 0.0) == pytest.approx(float(expected_acceptance(target, drawn_from)), abs=1e-12)


@pytest.mark.parametrize("draft_length", [0, 1, 2, 3])
def test_tokens_a_round_with_constant_tables_equal_the_formula(draft_length: int):
    target, drawn_from = [0.1, 0.2, 0.3, 0.4], [0.3, 0.3, 0.4, 0.0]
    tables = {"target": constant_table(target), "draft_table": constant_table(drawn_from)}
    law = Round(n_vocab=4, shape=chain_shape(draft_length), **tables).law(())
    conditional = [float(expected_acceptance(target, drawn_from))] * draft_length
    mean = sum(len(tokens) * probability for tokens, probability in law.items())
    assert mean == pytest.approx(float(expected_tokens_per_round(conditional)), abs=1e-12)


def test_siblings_drawn_from_half_of_the_target_are_accepted_as_computed_by_hand():
    target, drawn_from = [0.5, 0.25, 0.25], [0.0, 0.5, 0.5]
    tables = {"target": constant_table(target), "draft_table": constant_table(drawn_from)}
    law = Round(n_vocab=3, shape=tree_shape((2,)), **tables).law(())
    # The first sibling stays with 1/2; what is left of the target then is token 0 alone, which no sibling is.
    assert sum(p for tokens, p in law.items() if len(tokens) == 2) == pytest.approx(0.5, abs=1e-15)
