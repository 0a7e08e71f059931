"""What drafters propose: inside the shape, from the distributions they state, and as if they had just begun."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest

from specbook.engine.chance import Dice
from specbook.engine.decoding import DecodingConfig, Round, speculative
from specbook.engine.draft import Draft, TreeShape, chain_shape, tree_shape
from specbook.engine.drafters.choice import Chooser, ConfidenceCut, Cut, EntropyCut, NoCut, grow, read_cut
from specbook.engine.drafters.drafter import Drafter, Request, TargetState
from specbook.engine.drafters.early_exit import EarlyExitDrafter
from specbook.engine.drafters.lookahead import LookaheadDrafter
from specbook.engine.drafters.ngram import NgramDrafter
from specbook.engine.drafters.prompt_lookup import PromptLookupDrafter
from specbook.engine.drafters.small_model import SmallModelDrafter
from specbook.engine.kv_cache import KVCache
from specbook.engine.library import load_target, stored
from specbook.engine.sampling import GREEDY, SamplingConfig, distribution
from specbook.engine.transformer import Transformer
from tests.tiny_drafters import TINY_DRAFTERS, WITH_CUT
from tests.tiny_models import Array, random_tensors, tiny_spec, tiny_transformer

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 1, 4]
SAMPLED = SamplingConfig(temperature=1.0)
SHAPES = {
    "chain": chain_shape(4),
    "deep chain": chain_shape(7),
    "tree": tree_shape((2, 2)),
    "wide tree": tree_shape((3, 1, 1)),
    "unbalanced tree": TreeShape(parents=(-1, 0, 0, -1, 1, 4)),
}

target = cache(tiny_transformer)


def drafter_of(name: str, cut: Cut | None = None) -> Drafter:
    return TINY_DRAFTERS[name](target(), cut)


def rounds_of(
    drafter: Drafter, shape: TreeShape, config: DecodingConfig, prompt: Sequence[int] = PROMPT
) -> list[Round]:
    return list(speculative(target(), drafter, prompt, config, shape))


def started(drafter: Drafter, text: Sequence[int]) -> Drafter:
    """A drafter that begins on a text, whose target has read all but the last token."""
    state = TargetState(target(), 64)
    state.prefill(text[:-1])
    drafter.start(state, text, 64)
    return drafter


def proposal(drafter: Drafter, text: Sequence[int], shape: TreeShape, sampling: SamplingConfig = GREEDY) -> Draft:
    """What a drafter proposes behind a text that it began on."""
    request = Request(tokens=list(text), shape=shape, sampling=sampling, chance=Dice(np.random.default_rng(0)))
    return started(drafter, text).propose(request)


def assert_inside(draft: Draft, shape: TreeShape) -> None:
    """Each node of a draft takes the place of its rank among its siblings."""
    place = {-1: -1}
    for parent, children in draft.children().items():
        places = shape.children(place[parent])
        assert len(children) <= len(places)
        assert len({draft.tokens[child] for child in children}) == len(children)
        place.update(zip(children, places, strict=False))


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("name", TINY_DRAFTERS)
def test_drafts_stay_inside_the_shape(name: str, shape: TreeShape, sampling: SamplingConfig):
    rounds = rounds_of(drafter_of(name), shape, DecodingConfig(max_new_tokens=12, max_context=64, sampling=sampling))
    for round_ in rounds:
        assert_inside(round_.draft, shape)
        assert all(0 <= token < 19 for token in round_.draft.tokens)
    assert any(round_.draft.n_nodes for round_ in rounds)


@pytest.mark.parametrize("name", ["small", "eagle", "early_exit"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_drafter_with_a_whole_distribution_fills_the_shape(name: str, shape: TreeShape):
    draft = proposal(drafter_of(name), PROMPT, shape)
    assert_inside(draft, shape)
    assert (draft.n_nodes, draft.depth) == (shape.n_nodes, shape.depth)


class Witness(Dice):
    """Dice that remember what they were asked."""

    __slots__ = ("drawn",)

    def __init__(self) -> None:
        super().__init__(np.random.default_rng(5))
        object.__setattr__(self, "drawn", [])

    def draw(self, probabilities: Array) -> int:
        token = super().draw(probabilities)
        self.drawn.append((token, probabilities.copy()))
        return token


@pytest.mark.parametrize("shape", [chain_shape(4), tree_shape((2, 2))], ids=["chain", "tree"])
@pytest.mark.parametrize("name", WITH_CUT)
def test_sampled_draft_states_the_distributions_that_it_drew_from(name: str, shape: TreeShape):
    drafter, witness = drafter_of(name), Witness()
    draft = started(drafter, PROMPT).propose(Request(tokens=PROMPT, shape=shape, sampling=SAMPLED, chance=witness))
    assert draft.tokens == [token for token, _ in witness.drawn]
    assert draft.n_nodes > 0
    for stated, (_, drawn_from) in zip(draft.probabilities, witness.drawn, strict=True):
        assert np.array_equal(stated, drawn_from)


@pytest.mark.parametrize("name", ["prompt_lookup", "lookahead"])
def test_drafter_without_a_distribution_says_so_and_draws_nothing(name: str):
    rounds = rounds_of(
        drafter_of(name), chain_shape(3), DecodingConfig(max_new_tokens=16, max_context=64, sampling=SAMPLED)
    )
    assert any(round_.draft.n_nodes for round_ in rounds)
    assert all(stated is None for round_ in rounds for stated in round_.draft.probabilities)


@pytest.mark.parametrize("shape", [chain_shape(3), tree_shape((2, 2))], ids=["chain", "tree"])
@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("name", [name for name in TINY_DRAFTERS if name != "lookahead"])
def test_draft_after_rounds_is_that_of_a_drafter_that_just_began(name: str, shape: TreeShape, sampling: SamplingConfig):
    rounds = rounds_of(drafter_of(name), shape, DecodingConfig(max_new_tokens=16, max_context=64, sampling=sampling))
    text = list(PROMPT)
    for round_ in rounds:
        if sampling.is_greedy:
            assert proposal(drafter_of(name), text, shape).tokens == round_.draft.tokens
        elif round_.draft.n_nodes and round_.draft.probabilities[0] is not None:
            fresh = proposal(drafter_of(name), text, shape, sampling)
            assert np.array_equal(fresh.probabilities[0], round_.draft.probabilities[0])
        text += round_.tokens


@pytest.mark.parametrize("name", TINY_DRAFTERS)
def test_shape_of_no_nodes_drafts_nothing(name: str):
    assert proposal(drafter_of(name), PROMPT, chain_shape(0)).n_nodes == 0
    rounds = rounds_of(drafter_of(name), chain_shape(0), DecodingConfig(max_new_tokens=3, max_context=64))
    assert [round_.draft.n_nodes for round_ in rounds] == [0, 0, 0]


@pytest.mark.parametrize("shape", [chain_shape(3), tree_shape((2, 2))], ids=["chain", "tree"])
@pytest.mark.parametrize("name", TINY_DRAFTERS)
def test_prompt_of_one_token_is_continued(name: str, shape: TreeShape):
    rounds = rounds_of(drafter_of(name), shape, DecodingConfig(max_new_tokens=6, max_context=64), prompt=[7])
    assert sum(len(round_.tokens) for round_ in rounds) == 6


@pytest.mark.parametrize("shape", [chain_shape(6), tree_shape((2, 2, 2))], ids=["chain", "tree"])
@pytest.mark.parametrize("name", TINY_DRAFTERS)
@pytest.mark.parametrize("room", [1, 2, 7])
def test_draft_near_the_end_of_the_context_is_cut(name: str, room: int, shape: TreeShape):
    config = DecodingConfig(max_new_tokens=99, max_context=len(PROMPT) + room)
    rounds = rounds_of(drafter_of(name), shape, config)
    assert sum(len(round_.tokens) for round_ in rounds) == room
    assert rounds[-1].finish == "context"
    length = len(PROMPT)
    for round_ in rounds:
        assert round_.draft.depth <= config.max_context - length - 1
        length += len(round_.tokens)


@pytest.mark.parametrize("name", TINY_DRAFTERS)
def test_draft_at_the_end_of_the_models_own_context_stays_inside(name: str):
    model = tiny_transformer(max_context=12)
    config = DecodingConfig(max_new_tokens=99, max_context=12)
    rounds = list(speculative(model, TINY_DRAFTERS[name](model), [1, 2, 1, 2], config, tree_shape((2, 2, 1))))
    assert sum(len(round_.tokens) for round_ in rounds) == 8


@pytest.mark.parametrize("shape", [chain_shape(7), tree_shape((1, 1, 1, 1, 2))], ids=["chain", "tree"])
def test_medusa_draft_is_no_deeper_than_there_are_heads(shape: TreeShape):
    assert proposal(drafter_of("medusa"), PROMPT, shape).depth == 4


def test_medusa_depths_do_not_know_the_tokens_before_them():
    draft = proposal(drafter_of("medusa"), PROMPT, tree_shape((2, 1)))
    assert draft.tokens[2] == draft.tokens[3]


@pytest.mark.parametrize("cut", [EntropyCut(0.0), ConfidenceCut(1.0)], ids=["entropy", "confidence"])
@pytest.mark.parametrize("name", [name for name in WITH_CUT if name != "ngram"])
def test_cut_that_nothing_passes_drafts_nothing(name: str, cut: Cut):
    assert proposal(drafter_of(name, cut), PROMPT, chain_shape(4)).n_nodes == 0


@pytest.mark.parametrize("cut", [EntropyCut(99.0), ConfidenceCut(0.0)], ids=["entropy", "confidence"])
@pytest.mark.parametrize("name", WITH_CUT)
def test_cut_that_everything_passes_changes_nothing(name: str, cut: Cut):
    cut_draft, whole = (proposal(drafter_of(name, c), PROMPT, tree_shape((2, 2))) for c in (cut, None))
    assert (cut_draft.tokens, cut_draft.parents) == (whole.tokens, whole.parents)


def test_cut_stops_below_an_uncertain_node_alone():
    certain, uncertain = np.log([0.98, 0.01, 0.01]), np.log([0.4, 0.3, 0.3])
    chooser = Chooser(sampling=GREEDY, chance=Dice(np.random.default_rng(0)), cut=ConfidenceCut(0.5))
    below = {0: uncertain, 1: certain}
    draft = grow(
        tree_shape((2, 1)),
        np.log([0.6, 0.3, 0.1]),
        lambda draft, nodes: np.stack([below[draft.tokens[node]] for node in nodes]),
        chooser,
    )
    assert (draft.tokens, draft.parents) == ([0, 1, 0], [-1, -1, 1])


@pytest.mark.parametrize(
    ("cut", "probabilities", "stops"),
    [
        (NoCut(), [0.5, 0.5], False),
        (EntropyCut(0.7), [0.5, 0.5], False),
        (EntropyCut(0.69), [0.5, 0.5], True),
        (EntropyCut(0.0), [1.0, 0.0], False),
        (ConfidenceCut(0.5), [0.5, 0.5], False),
        (ConfidenceCut(0.51), [0.5, 0.5], True),
    ],
)
def test_cut_stops_beyond_its_limit(cut: Cut, probabilities: list[float], stops: bool):
    assert cut.stops(np.array(probabilities)) is stops


@pytest.mark.parametrize(
    ("make", "limit"), [(EntropyCut, -0.1), (EntropyCut, np.nan), (ConfidenceCut, 1.1), (ConfidenceCut, -0.1)]
)
def test_cut_out_of_range_is_refused(make, limit: float):
    with pytest.raises(ValueError, match=r"^(max_nats|min_probability) must "):
        make(limit)


@pytest.mark.parametrize(
    "text", ["", "entropy", "entropy:", "entropy:x", "confidence:2", "none:1", "top:1", "entropy:nan"]
)
def test_read_cut_other_text_is_refused(text: str):
    with pytest.raises(ValueError, match=r" must "):
        read_cut(text)


def test_chooser_judges_a_cut_at_temperature_one_and_draws_at_its_own():
    logits = np.log([0.6, 0.4])
    chooser = Chooser(sampling=SamplingConfig(temperature=0.1), chance=Witness(), cut=ConfidenceCut(0.7))
    assert chooser.children(logits, 1) == []
    ((_, stated),) = Chooser(sampling=SamplingConfig(temperature=0.1), chance=Witness()).children(logits, 1)
    assert stated == pytest.approx(distribution(logits, SamplingConfig(temperature=0.1)))


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED])
@pytest.mark.parametrize("n_children", [0, 1, 2, 5])
def test_chooser_proposes_no_more_than_can_follow(sampling: SamplingConfig, n_children: int):
    chooser = Chooser(sampling=sampling, chance=Dice(np.random.default_rng(0)))
    logits = np.array([-np.inf, 1.0, -np.inf, 2.0])
    found = chooser.children(logits, n_children)
    assert sorted(token for token, _ in found)[: len(found)] == [1, 3][: len(found)] or [
        token for token, _ in found
    ] == [3]
    assert len(found) == min(n_children, 2)
    assert chooser.children(np.full(4, -np.inf), n_children) == []


def test_chooser_greedy_tie_goes_to_the_lowest_ids():
    chooser = Chooser(sampling=GREEDY, chance=Dice(np.random.default_rng(0)))
    logits = np.array([1.0, 2.0, 2.0, 0.0])
    assert [token for token, _ in chooser.children(logits, 3)] == [1, 2, 0]
    assert [token for token, _ in chooser.children(logits, 1)] == [1]


LOOKUPS: list[tuple[list[int], TreeShape, list[int], list[int]]] = [
    ([5, 6, 7, 8, 5, 6], chain_shape(2), [7, 8], [-1, 0]),
    ([5, 6, 7, 8, 5, 6], chain_shape(9), [7, 8, 5, 6], [-1, 0, 1, 2]),
    ([1, 2, 3], chain_shape(2), [], []),
    ([4], chain_shape(2), [], []),
    ([1, 9, 1, 8, 1], chain_shape(1), [8], [-1]),
    ([1, 9, 1, 8, 1], tree_shape((3, 1)), [8, 1, 9, 1], [-1, 0, -1, 2]),
    ([2, 1, 9, 3, 1, 8, 2, 1], tree_shape((2,)), [9, 8], [-1, -1]),
    ([1, 9, 1, 9, 1], tree_shape((2, 1)), [9, 1], [-1, 0]),
]


@pytest.mark.parametrize(("text", "shape", "tokens", "parents"), LOOKUPS)
def test_prompt_lookup_copies_what_followed_the_longest_suffix(
    text: list[int], shape: TreeShape, tokens: list[int], parents: list[int]
):
    draft = proposal(PromptLookupDrafter(), text, shape)
    assert (draft.tokens, draft.parents) == (tokens, parents)


def test_prompt_lookup_shortest_suffix_that_counts_is_respected():
    assert proposal(PromptLookupDrafter(longest=4, shortest=2), [1, 9, 3, 1], chain_shape(2)).tokens == []


@pytest.mark.parametrize("sizes", [(0, 0), (1, 2), (2.5, 1)])
def test_prompt_lookup_impossible_suffix_is_refused(sizes: tuple[float, float]):
    with pytest.raises(ValueError, match=r"^(longest|shortest) must be whole and at least "):
        PromptLookupDrafter(*sizes)


def test_ngram_proposes_by_counts_behind_the_longest_context():
    text = [1, 2, 3, 1, 2, 3, 1, 2, 4, 9, 2, 5, 1, 2]
    draft = proposal(NgramDrafter(16), text, tree_shape((2,)))
    assert draft.tokens == [3, 4]
    sampled = proposal(NgramDrafter(16), text, chain_shape(1), SAMPLED)
    assert sampled.probabilities[0][[3, 4]] == pytest.approx([2 / 3, 1 / 3])


def test_ngram_shorter_context_is_used_where_the_longer_is_unknown():
    assert proposal(NgramDrafter(16), [1, 2, 3, 9, 2], chain_shape(1)).tokens == [3]


def test_ngram_unknown_context_proposes_nothing():
    assert proposal(NgramDrafter(16), [1, 2, 3], chain_shape(3)).tokens == []


def test_ngram_counts_grow_with_the_text():
    drafter = started(NgramDrafter(16), [1, 2])
    request = {"shape": chain_shape(2), "sampling": GREEDY, "chance": Dice(np.random.default_rng(0))}
    assert drafter.propose(Request(tokens=[1, 2], **request)).tokens == []
    assert drafter.propose(Request(tokens=[1, 2, 3, 1], **request)).tokens == [2, 3]


def test_small_model_drafts_its_own_greedy_continuation():
    drafter, text = drafter_of("small"), list(PROMPT)
    for _ in range(4):
        kv_cache = drafter.model.new_cache(64)
        text.append(int(drafter.model.logits(drafter.model.prefill(text, kv_cache)[-1:]).argmax()))
    assert proposal(drafter, PROMPT, chain_shape(4)).tokens == text[-4:]


def test_small_model_reads_each_accepted_token_once(monkeypatch: pytest.MonkeyPatch):
    rng, spec = np.random.default_rng(4), tiny_spec()
    tensors = {name: values * rng.normal(1.0, 0.2, values.shape) for name, values in random_tensors(spec).items()}
    drafter, n_read = SmallModelDrafter(Transformer(spec, tensors)), []
    prefill = drafter.model.prefill

    def counted(tokens: Sequence[int], kv_cache: KVCache) -> Array:
        n_read.append(len(tokens))
        return prefill(tokens, kv_cache)

    monkeypatch.setattr(drafter.model, "prefill", counted)
    rounds = rounds_of(drafter, chain_shape(3), DecodingConfig(max_new_tokens=40, max_context=64))
    accepted = [round_.record.accepted for round_ in rounds]
    assert 3 in accepted
    assert any(0 < n < 3 for n in accepted)
    # The target's own token, and the last draft where it was accepted, since nothing was drafted behind it.
    assert n_read[2:] == [2 if n == 3 else 1 for n in accepted[:-1]]


def test_early_exit_leaves_no_pending_row_in_the_targets_cache():
    drafter, state = drafter_of("early_exit"), TargetState(target(), 64)
    state.prefill(PROMPT[:-1])
    drafter.start(state, PROMPT, 64)
    request = Request(tokens=PROMPT, shape=tree_shape((2, 2)), sampling=GREEDY, chance=Dice(np.random.default_rng(0)))
    drafter.propose(request)
    assert (state.length, state.cache.n_pending.tolist()) == (len(PROMPT) - 1, [0])


@pytest.mark.parametrize("n_layers", [0, 4, 1.5])
def test_early_exit_where_there_is_none_is_refused(n_layers: float):
    with pytest.raises(ValueError, match=r"^n_layers must be (at most 3|whole and at least 1)"):
        EarlyExitDrafter(stored("medusa"), load_target(), n_layers)


@pytest.mark.parametrize("sizes", [{"window": 0}, {"run_length": 1}, {"n_kept": 0}])
def test_lookahead_impossible_window_is_refused(sizes: dict[str, int]):
    with pytest.raises(ValueError, match=r" must be whole and at least "):
        LookaheadDrafter(target(), **sizes)


def test_lookahead_window_sees_its_column_and_the_oldest_guesses_before_it():
    positions, mask = LookaheadDrafter(target(), window=2, run_length=3)._window_rows(10)
    assert positions.tolist() == [[10, 11, 12, 12, 13]]
    wanted = [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [1, 1, 0, 1, 0], [1, 1, 1, 0, 1]]
    assert mask[0].astype(int).tolist() == wanted


def test_lookahead_keeps_the_latest_runs_and_proposes_the_latest_first():
    drafter = started(LookaheadDrafter(target(), window=1, run_length=2, n_kept=2), PROMPT)
    for answer in (7, 8, 9, 8):
        drafter._guesses = [[5]]
        drafter._collect([answer])
    assert drafter._pool == {5: [(9,), (8,)]}
    request = Request(tokens=[5], shape=tree_shape((3,)), sampling=GREEDY, chance=Dice(np.random.default_rng(0)))
    assert drafter._draft(5, request).tokens == [8, 9]


def test_lookahead_finds_the_repetition_that_the_target_will_write():
    rounds = rounds_of(drafter_of("lookahead"), chain_shape(3), DecodingConfig(max_new_tokens=40, max_context=64))
    assert sum(round_.record.accepted for round_ in rounds) > 0


@pytest.mark.parametrize("name", TINY_DRAFTERS)
def test_drafter_has_the_targets_vocabulary_or_none(name: str):
    assert drafter_of(name).n_vocab in {19, None}
