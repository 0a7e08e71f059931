"""Decoding from prompt to end: the same text with and without drafts, and what ends it, cuts it or refuses it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest

from specbook.engine.chance import Dice
from specbook.engine.decoding import (
    DecodingConfig,
    Generation,
    Round,
    autoregressive,
    generate,
    speculative,
)
from specbook.engine.draft import TreeShape, chain_shape, tree_shape
from specbook.engine.drafters.choice import EntropyCut
from specbook.engine.drafters.drafter import Drafter, TargetState
from specbook.engine.drafters.prompt_lookup import PromptLookupDrafter
from specbook.engine.library import load_draft, load_target, tokenizer
from specbook.engine.library.drafters import (
    ALIASES,
    DRAFTER_NAMES,
    branched_shape,
    draft_shape,
    drafter_name,
    shipped_drafter,
)
from specbook.engine.sampling import SamplingConfig
from specbook.engine.transformer import Transformer
from tests.tiny_drafters import TINY_DRAFTERS, oracle, small
from tests.tiny_models import tiny_transformer

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6, 5]
SAMPLED = SamplingConfig(temperature=1.0)
SHAPES = {"chain": chain_shape(4), "tree": tree_shape((2, 2)), "unbalanced": TreeShape(parents=(-1, 0, 0, -1, 1))}

target = cache(tiny_transformer)
shipped = cache(load_target)


def config_of(n_new: int, **changes) -> DecodingConfig:
    return DecodingConfig(**({"max_new_tokens": n_new, "max_context": 64} | changes))


def alone(config: DecodingConfig, prompt: Sequence[int] = PROMPT, model: Transformer | None = None) -> Generation:
    return generate(autoregressive(model or target(), prompt, config), prompt, config)


def with_drafts(
    drafter: Drafter, config: DecodingConfig, shape: TreeShape | None = None, prompt: Sequence[int] = PROMPT
) -> Generation:
    return generate(speculative(target(), drafter, prompt, config, shape), prompt, config)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("name", TINY_DRAFTERS)
@pytest.mark.parametrize("prompt", [PROMPT, [7], [1] * 20])
def test_greedy_text_with_drafts_is_the_text_without(name: str, shape: TreeShape, prompt: list[int]):
    config = config_of(30)
    assert with_drafts(TINY_DRAFTERS[name](target()), config, shape, prompt).tokens == alone(config, prompt).tokens


@pytest.mark.parametrize("name", DRAFTER_NAMES)
def test_greedy_text_of_the_shipped_pair_is_the_text_without_drafts(name: str):
    prompt, config = [1023, *tokenizer().encode("def total(values):\n")], config_of(24, max_context=128)
    wanted = alone(config, prompt, shipped()).tokens
    for shape in (chain_shape(4), branched_shape(2)):
        rounds = speculative(shipped(), shipped_drafter(name, shipped()), prompt, config, shape)
        assert generate(rounds, prompt, config).tokens == wanted


@pytest.mark.parametrize("name", TINY_DRAFTERS)
def test_cache_after_rounds_holds_the_bytes_of_the_text(name: str, monkeypatch: pytest.MonkeyPatch):
    states: list[TargetState] = []
    begin = TargetState.__init__

    def remembered(self: TargetState, model: Transformer, capacity: int) -> None:
        begin(self, model, capacity)
        states.append(self)

    monkeypatch.setattr(TargetState, "__init__", remembered)
    text = [*PROMPT, *with_drafts(TINY_DRAFTERS[name](target()), config_of(30), tree_shape((2, 2))).tokens]
    fresh = target().new_cache(64)
    hidden = target().prefill(text, fresh)
    length = min(len(text) - 1, states[0].length)
    assert length > len(PROMPT) + 20
    states[0].cache.rollback(length)
    fresh.rollback(length)
    for found, wanted in zip(states[0].cache.committed(), fresh.committed(), strict=True):
        assert found.tobytes() == wanted.tobytes()
    assert np.array_equal(states[0].features(0)[:length], target().features(hidden[:length]))


@pytest.mark.parametrize("sampling", [SamplingConfig(), SAMPLED, SamplingConfig(temperature=2.0, top_k=5, top_p=0.9)])
@pytest.mark.parametrize("name", TINY_DRAFTERS)
def test_no_drafts_at_all_is_autoregressive_decoding_byte_for_byte(name: str, sampling: SamplingConfig):
    config = config_of(20, sampling=sampling, seed=5)
    rounds = list(speculative(target(), TINY_DRAFTERS[name](target()), PROMPT, config, chain_shape(0)))
    wanted = list(autoregressive(target(), PROMPT, config))
    assert [round_.tokens for round_ in rounds] == [round_.tokens for round_ in wanted]
    for round_, reference in zip(rounds, wanted, strict=True):
        assert np.array_equal(round_.target[0], reference.target[0])


def test_same_seed_gives_the_same_text_and_another_seed_another():
    texts = [with_drafts(small(target()), config_of(30, sampling=SAMPLED, seed=seed)).tokens for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_streams_of_drafts_and_acceptance_differ():
    drafts, acceptance = config_of(1, seed=3).streams()
    assert isinstance(drafts, Dice)
    assert drafts.rng.random() != acceptance.rng.random()


def test_drafts_that_are_always_right_are_all_accepted():
    found = with_drafts(oracle(target()), config_of(20), chain_shape(4))
    assert [record.accepted for record in found.rounds] == [4, 4, 4, 4]
    assert [record.emitted for record in found.rounds] == [5, 5, 5, 5]


def test_sampled_drafts_from_the_target_itself_are_all_accepted():
    found = with_drafts(oracle(target()), config_of(25, sampling=SAMPLED), chain_shape(4))
    assert [record.accepted for record in found.rounds] == [4] * 5


@pytest.mark.parametrize("place", [0, 1, 2, 3, 4, 5, 9])
def test_stop_token_inside_an_accepted_prefix_ends_the_text_there(place: int):
    greedy = alone(config_of(20)).tokens
    stop = greedy[place]
    wanted = greedy[: greedy.index(stop) + 1]
    found = with_drafts(oracle(target()), config_of(20, stop_tokens=frozenset({stop})), chain_shape(4))
    assert (found.tokens, found.finish) == (wanted, "stop")
    assert sum(record.emitted for record in found.rounds) == len(wanted)


def test_first_of_two_stop_tokens_ends_the_text():
    greedy = alone(config_of(20)).tokens
    stops = frozenset(greedy[2:6])
    found = with_drafts(oracle(target()), config_of(20, stop_tokens=stops), chain_shape(4))
    assert found.tokens == greedy[: next(i for i, token in enumerate(greedy) if token in stops) + 1]


def test_stop_token_of_the_prompt_does_not_end_the_text():
    unused = next(token for token in PROMPT if token not in alone(config_of(10)).tokens)
    assert with_drafts(small(target()), config_of(10, stop_tokens=frozenset({unused}))).finish == "length"


@pytest.mark.parametrize("n_new", [1, 2, 3, 4, 5, 6, 7])
def test_most_new_tokens_cut_the_last_round(n_new: int):
    found = with_drafts(oracle(target()), config_of(n_new), chain_shape(4))
    assert (found.tokens, found.finish) == (alone(config_of(n_new)).tokens, "length")
    assert len(found.tokens) == n_new


def _first_new_token() -> tuple[list[int], int]:
    """A greedy text and a place in its first round of five where a token stands for the first time."""
    greedy = alone(config_of(20)).tokens
    return greedy, next(i for i in range(1, 5) if greedy[i] not in greedy[:i])


def test_stop_token_as_the_last_token_allowed_is_a_stop():
    greedy, place = _first_new_token()
    config = config_of(place + 1, stop_tokens=frozenset({greedy[place]}))
    for found in (with_drafts(oracle(target()), config, chain_shape(4)), alone(config)):
        assert (found.tokens, found.finish) == (greedy[: place + 1], "stop")


def test_stop_token_behind_the_last_token_allowed_is_not_reached():
    greedy, place = _first_new_token()
    config = config_of(place, stop_tokens=frozenset({greedy[place]}))
    found = with_drafts(oracle(target()), config, chain_shape(4))
    assert (found.tokens, found.finish) == (greedy[:place], "length")


@pytest.mark.parametrize("room", [1, 2, 3, 4, 5, 6, 11])
def test_context_that_ends_inside_a_round_is_filled_and_no_more(room: int):
    config = config_of(99, max_context=len(PROMPT) + room)
    for drafter in (oracle(target()), small(target())):
        found = with_drafts(drafter, config, chain_shape(4))
        assert (found.tokens, found.finish) == (alone(config).tokens, "context")
        assert len(found.tokens) == room


def test_whole_context_of_the_model_can_be_filled():
    assert len(alone(config_of(99)).tokens) == 64 - len(PROMPT)
    assert len(with_drafts(oracle(target()), config_of(99)).tokens) == 64 - len(PROMPT)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("sampling", [SamplingConfig(), SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("name", TINY_DRAFTERS)
def test_records_of_rounds_add_up(name: str, sampling: SamplingConfig, shape: TreeShape):
    found = with_drafts(TINY_DRAFTERS[name](target()), config_of(21, sampling=sampling), shape)
    *whole, last = found.rounds
    assert sum(record.emitted for record in found.rounds) == len(found.tokens) == 21
    assert all(record.emitted == record.accepted + 1 for record in whole)
    assert 1 <= last.emitted <= last.accepted + 1
    for record in found.rounds:
        assert record.accepted <= record.depth <= record.drafted <= shape.n_nodes
        assert sum(record.kept) == record.accepted
        assert all(kept <= tried for kept, tried in zip(record.kept, record.tried, strict=False))
        assert sum(record.tried[:1]) - record.accepted in {0, 1}
        assert min(record.draft_s, record.verify_s, record.accept_s) >= 0.0


def test_round_says_what_it_was_made_of():
    rounds: list[Round] = list(speculative(target(), small(target()), PROMPT, config_of(9), tree_shape((2, 1))))
    for round_ in rounds:
        path = [round_.draft.tokens[node] for node in round_.verdict.path]
        whole = (*path, round_.verdict.next_token)
        assert round_.tokens == whole[: len(round_.tokens)]
        assert len(round_.target) == 1 + round_.draft.n_nodes
    assert [round_.finish for round_ in rounds] == [None] * (len(rounds) - 1) + ["length"]


def test_shape_not_given_is_a_chain_of_four():
    assert with_drafts(oracle(target()), config_of(5)).rounds[0].drafted == 4


def test_prompt_is_not_changed_and_may_be_a_tuple():
    prompt = list(PROMPT)
    with_drafts(small(target()), config_of(5), prompt=prompt)
    assert prompt == PROMPT
    config = config_of(5)
    assert with_drafts(small(target()), config, prompt=tuple(prompt)).tokens == alone(config, tuple(prompt)).tokens


def test_drafter_can_begin_again():
    drafter = small(target())
    first = with_drafts(drafter, config_of(12)).tokens
    with_drafts(drafter, config_of(12), prompt=[2, 2, 2])
    assert with_drafts(drafter, config_of(12)).tokens == first


REFUSALS = [
    ([], {}, r"prompt must hold at least one token, such as the one that begins a text; got none"),
    ([1] * 64, {}, r"prompt of 64 tokens leaves no room in a context of 64"),
    ([1] * 9, {"max_context": 9}, r"prompt of 9 tokens leaves no room in a context of 9"),
    ([1, 19], {}, r"prompt must hold tokens from 0 to 18; got 1 to 19"),
    ([-1, 1], {}, r"prompt must hold tokens from 0 to 18; got -1 to 1"),
    ([1], {"max_context": 65}, r"max_context must be at most the model's 64; got 65"),
]


@pytest.mark.parametrize(("prompt", "changes", "message"), REFUSALS)
def test_prompt_that_cannot_be_continued_is_refused(prompt: list[int], changes: dict[str, int], message: str):
    config = config_of(5, **changes)
    for rounds in (
        autoregressive(target(), prompt, config),
        speculative(target(), PromptLookupDrafter(), prompt, config),
    ):
        with pytest.raises(ValueError, match=rf"^{message}$"):
            next(rounds)


def test_drafter_of_another_vocabulary_is_refused():
    drafter = small(tiny_transformer(n_vocab=20))
    with pytest.raises(ValueError, match=r"^drafter must have the target's vocabulary of 19; got 20$"):
        with_drafts(drafter, config_of(5))


@pytest.mark.parametrize(
    "changes",
    [{"max_new_tokens": 0}, {"max_context": 1}, {"seed": -1}, {"max_new_tokens": 1.5}, {"seed": float("nan")}],
)
def test_config_out_of_range_is_refused(changes: dict[str, float]):
    with pytest.raises(ValueError, match=rf"^{next(iter(changes))} must be "):
        DecodingConfig(**changes)


@pytest.mark.parametrize("temperature", [1e-300, 1e-12])
def test_tiny_temperature_is_greedy(temperature: float):
    sampling = SamplingConfig(temperature=temperature)
    found = with_drafts(small(target()), config_of(20, sampling=sampling), tree_shape((2, 1)))
    assert found.tokens == alone(config_of(20)).tokens


@pytest.mark.parametrize(("alias", "name"), ALIASES.items())
def test_alias_stands_for_its_drafter(alias: str, name: str):
    assert drafter_name(alias) == name
    assert type(shipped_drafter(alias, shipped())) is type(shipped_drafter(name, shipped()))


def test_shapes_by_name_are_chains_but_for_the_tree():
    assert draft_shape("eagle", 3) == chain_shape(3)
    assert draft_shape("tree", 3) == tree_shape((2, 2, 1))
    assert branched_shape(0).n_nodes == 0


@pytest.mark.parametrize("refused", [lambda: shipped_drafter("magic", shipped()), lambda: draft_shape("magic")])
def test_drafter_of_unknown_name_is_refused(refused):
    with pytest.raises(ValueError, match=r"^drafter must be one of small, .*, lookup; got 'magic'$"):
        refused()


@pytest.mark.parametrize("name", ["prompt_lookup", "lookahead"])
def test_drafter_without_a_distribution_takes_no_cut(name: str):
    with pytest.raises(ValueError, match=rf"^{name} has no distribution that a cut could judge; leave the cut out$"):
        shipped_drafter(name, shipped(), EntropyCut(1.0))


def test_drafters_of_the_shipped_pair_share_its_arithmetic_and_vocabulary():
    fast = load_target("fast")
    assert shipped_drafter("small", fast).model.arithmetic.name == "fast"
    assert {shipped_drafter(name, fast).n_vocab for name in DRAFTER_NAMES} == {load_draft().n_vocab, None}
