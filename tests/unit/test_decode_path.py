"""The rounds of one request and what they take, against a count token by token."""

from __future__ import annotations

import numpy as np
import pytest

from specbook.serving.calendar import Calendar
from specbook.serving.chances import Chances
from specbook.serving.decode_path import BLOCKS, EMITTED, REACHED, DecodePath, PathStart, draw_path
from specbook.serving.kv_blocks import KvConfig
from specbook.serving.round_law import RoundLaw, chain_law, counted_law, no_draft, tree_law

LAWS = [no_draft(), chain_law([0.8] * 3), tree_law([0.2, 0.3, 0.5], 7), counted_law({0: [1], 2: [1, 2, 3]})]


def path_of(
    law: RoundLaw, *, tokens: int = 33, blocks: int = 8, rest: int = 50, rounds: int = 0, tick: int = 5
) -> DecodePath:
    start = PathStart(request_id=2, tokens=tokens, blocks=blocks, rest_tokens=rest, rounds=rounds)
    kv = KvConfig(n_blocks=100, block_size_tokens=4)
    return draw_path(start, law, tick, Chances(np.random.default_rng(0)), kv, REACHED + 3)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("tokens", "blocks"), [(33, 8), (32, 8), (30, 8), (33, 12)])
def test_path_takes_the_blocks_that_each_round_may_fill(law: RoundLaw, tokens: int, blocks: int):
    path, held, processed = path_of(law, tokens=tokens, blocks=blocks), blocks, tokens
    for number, emitted in enumerate(path.steps[EMITTED]):
        slots = processed - 1 + law.n_nodes + 1
        taken = max(-(-slots // 4) - held, 0)
        assert path.steps[BLOCKS, number] == path.blocks_taken(5 + number) == taken
        held, processed = held + taken, processed + int(emitted)
        assert path.blocks_at(6 + number) == held
        assert path.emitted_at(6 + number) == processed - tokens
    assert processed - tokens == 50


@pytest.mark.parametrize("law", LAWS)
def test_path_ends_with_the_last_token_and_cuts_the_last_round(law: RoundLaw):
    for rest in range(1, 12):
        path = path_of(law, rest=rest)
        n_rounds = path.steps.shape[1]
        assert path.steps[EMITTED].sum() == rest
        assert path.steps[EMITTED].min() >= 1
        assert path.steps[EMITTED].max() <= max(law.accepted) + 1
        assert (path.last_tick, path.rounds_at(path.last_tick + 1)) == (5 + n_rounds - 1, n_rounds)


@pytest.mark.parametrize("law", LAWS)
def test_path_goes_on_as_it_would_have_without_a_break(law: RoundLaw):
    whole = path_of(law)
    for broken in (1, 2, 7):
        emitted = whole.emitted_at(5 + broken)
        rest = path_of(law, tokens=33 + emitted, rest=50 - emitted, rounds=broken)
        assert rest.steps[EMITTED].tolist() == whole.steps[EMITTED, broken:].tolist()


def test_path_counts_the_drafts_that_a_cut_leaves():
    path = path_of(counted_law({0: [1], 2: [1, 2, 3]}))
    drafted = path.steps[REACHED:].sum(axis=0)
    assert set(drafted) == {0, 2}
    assert path.drafted_at(5) == 0
    assert path.drafted_at(9) == drafted[:4].sum()
    assert path_of(chain_law([0.8] * 3)).drafted_at(9) == 12
    assert path_of(no_draft()).drafted_at(9) == 0


def test_calendar_is_the_sum_of_the_paths_in_it():
    rng, calendar, paths = np.random.default_rng(0), Calendar(REACHED + 3), []
    expected = np.zeros((2, 30_000), dtype=np.int64)
    for tick in range(0, 12_000, 400):
        path = path_of(LAWS[tick // 400 % 4], rest=int(rng.integers(1, 3000)), tick=tick)
        calendar.add(path, tick)
        expected[:, tick : path.last_tick + 1] += path.steps[:2]
        paths.append(path)
        if tick % 1200 == 800 and (old := paths[int(rng.integers(len(paths)))]).last_tick >= tick:
            calendar.remove(old, tick)
            expected[:, tick : old.last_tick + 1] -= old.steps[:2, tick - old.start_tick :]
            paths.remove(old)
        assert calendar.emitted(tick, 300).tolist() == expected[0, tick : tick + 300].tolist()
        assert calendar.blocks(tick, 300).tolist() == expected[1, tick : tick + 300].tolist()
        assert calendar.blocks_at(tick) == expected[1, tick]
