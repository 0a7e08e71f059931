"""Tabulated step times against direct calls, at bends and steps too; drafting; and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from specbook.checks import BadInput
from specbook.hardware.profile import catalogue_device
from specbook.hardware.step_times import StepTimePoint, StepTimeTable
from specbook.roofline.calibrated import CalibratedRoofline, example_rates
from specbook.roofline.drafting import Drafter, HostLookup, Lookahead, ParallelHeads, SequentialDrafter
from specbook.roofline.hosted import HostedDrafter
from specbook.roofline.measured_steps import MeasuredSteps
from specbook.roofline.model_spec import model
from specbook.roofline.pass_cost import step_cost
from specbook.roofline.step_time import DoctrineRoofline, StepTime, device_rates
from specbook.serving.context_tables import by_distinct, context_nodes, table_over_context
from specbook.serving.draft_time import SteppedDraft
from specbook.serving.per_token_prefill import PerTokenPrefill
from specbook.serving.stepped_time import SteppedTime

LONGEST = 8192
COST = step_cost(model("Llama-3.1-8B"), "bf16")
DOCTRINE = DoctrineRoofline(cost=COST, device=device_rates(catalogue_device("h100-sxm5"), "bf16"))
CALIBRATED = CalibratedRoofline(cost=COST, rates=example_rates())
DRAFT = CalibratedRoofline(cost=step_cost(model("Llama-3.2-1B"), "bf16"), rates=example_rates())
WIDTHS, BATCHES, CONTEXTS = (1, 2, 5, 9), (1, 8, 32), (500, 513, 2000, 4096)


def _measured(**options: Any) -> MeasuredSteps:
    points = [
        StepTimePoint(batch=b, context=c, width=w, seconds=1e-3 * (8 + 0.3 * w * b**0.5 + 2e-5 * b * c**1.1))
        for w in WIDTHS
        for b in BATCHES
        for c in CONTEXTS
    ]
    return MeasuredSteps.from_table(StepTimeTable(source="by hand", points=points), **options)


@pytest.mark.parametrize("step", [DOCTRINE, CALIBRATED], ids=["doctrine", "calibrated"])
@pytest.mark.parametrize("n_decodes", [1, 16, 300])
@pytest.mark.parametrize("width", [1.0, 1.37, 5.0])
def test_stepped_decodes_equal_direct_calls(step: StepTime, n_decodes: int, width: float):
    contexts = np.random.default_rng(0).integers(0, LONGEST * n_decodes, 2000)
    seconds = SteppedTime(step=step, max_context_tokens=LONGEST).decode_seconds(n_decodes, width * n_decodes, contexts)
    np.testing.assert_allclose(seconds, step(width, n_decodes, contexts / n_decodes), rtol=1e-9)


def test_stepped_decodes_at_the_bend_of_a_roofline():
    contexts = np.arange(512 * LONGEST // 16, dtype=np.int64)  # bends at a mean context of about 80 tokens
    seconds = SteppedTime(step=DOCTRINE, max_context_tokens=LONGEST).decode_seconds(512, 512, contexts)
    direct = DOCTRINE(1.0, 512, contexts / 512)
    regimes = DOCTRINE.is_compute_bound(1.0, 512, contexts[[0, -1]] / 512)
    assert regimes.tolist() == [True, False]
    error = np.abs(seconds / direct - 1.0)
    assert np.max(error) < 1e-4
    assert np.mean(error > 1e-9) < 1e-3


def test_stepped_decodes_at_the_step_of_a_near_cache():
    edge_tokens = 3000.5
    near = replace(CALIBRATED.rates, kv_near_bytes=edge_tokens * COST.kv_bytes_per_token_and_layer, kv_near_gain=4.0)
    step = CalibratedRoofline(cost=COST, rates=near)
    contexts = np.arange(16 * 2900, 16 * 3100)
    seconds = SteppedTime(step=step, max_context_tokens=LONGEST).decode_seconds(16, 16, contexts)
    off = np.abs(seconds / step(1.0, 16, contexts / 16) - 1.0) > 1e-9
    assert np.all(np.abs(contexts[off] / 16 - edge_tokens) <= 1 / 64)


def test_stepped_decodes_of_a_measured_table_equal_direct_calls():
    step = _measured()
    iteration = SteppedTime(step=step, min_context_tokens=500, max_context_tokens=4096)
    contexts = np.arange(8 * 500, 8 * 4096, 7)
    seconds = iteration.decode_seconds(8, 20, contexts)
    np.testing.assert_allclose(seconds, step(2.5, 8, contexts / 8), rtol=1e-12)
    assert iteration.kind == "measured"


def test_stepped_decodes_whose_tokens_vary():
    iteration = SteppedTime(step=CALIBRATED, max_context_tokens=LONGEST)
    tokens, contexts = np.array([16, 80, 16, 33]), np.array([16, 5000, 32000, 70000])
    together = iteration.decode_seconds(16, tokens, contexts)
    alone = [iteration.decode_seconds(16, int(n), np.array([c]))[0] for n, c in zip(tokens, contexts, strict=True)]
    assert together.tolist() == alone
    assert iteration.decode_seconds(16, 16, np.array([], dtype=np.int64)).shape == (0,)


def test_stepped_iteration_without_chunks_is_the_decode():
    for prefill in (None, DOCTRINE):
        iteration = SteppedTime(step=CALIBRATED, prefill=prefill, max_context_tokens=LONGEST)
        alone = iteration.decode_seconds(4, 20, np.array([4 * 1000]))[0]
        assert iteration.mixed_seconds(4, 20, 4000, []) == alone


def test_stepped_prefill_alone_is_a_pass_over_its_tokens():
    iteration = SteppedTime(step=CALIBRATED, max_context_tokens=LONGEST)
    assert iteration.mixed_seconds(0, 0, 0, [(512, 0)]) == pytest.approx(CALIBRATED(512, 1, 256.0), rel=1e-9)
    assert iteration.mixed_seconds(0, 0, 0, [(512, 1024)]) == pytest.approx(CALIBRATED(512, 1, 1280.0), rel=1e-9)


@pytest.mark.parametrize("step", [DOCTRINE, CALIBRATED], ids=["doctrine", "calibrated"])
def test_stepped_prompts_by_the_same_step_are_the_default(step: StepTime):
    default = SteppedTime(step=step, max_context_tokens=LONGEST)
    named = SteppedTime(step=step, prefill=step, max_context_tokens=LONGEST)
    assert (default.kind, named.kind) == (step.kind, f"{step.kind}, prefill {step.kind}")
    for n_decodes, chunks in ((0, [(512, 0)]), (4, [(512, 64), (100, 0)]), (200, [(56, 8000)])):
        arguments = (n_decodes, n_decodes * 5, n_decodes * 777, chunks)
        assert default.mixed_seconds(*arguments) == named.mixed_seconds(*arguments)


def test_stepped_mixed_iteration_by_the_doctrine_is_one_pass_and_the_attention_of_each():
    iteration = SteppedTime(step=DOCTRINE, max_context_tokens=LONGEST)
    for n_decodes, chunks in ((4, [(512, 64), (100, 0)]), (200, [(56, 8000)])):
        rows_s = DOCTRINE(n_decodes * 5 + sum(tokens for tokens, _ in chunks), 1, 0.0)
        decodes_s = DOCTRINE(5, n_decodes, 777.0) - DOCTRINE(5, n_decodes, 0.0)
        chunks_s = sum(DOCTRINE(k, 1, done + k / 2) - DOCTRINE(k, 1, 0.0) for k, done in chunks)
        seconds = iteration.mixed_seconds(n_decodes, n_decodes * 5, n_decodes * 777, chunks)
        assert seconds == pytest.approx(rows_s + decodes_s + chunks_s, rel=1e-9)


@pytest.mark.parametrize("n_decodes", [1, 32, 128])
@pytest.mark.parametrize("chunk_tokens", [1, 16, 512])
@pytest.mark.parametrize("draft_length", [0, 4])
def test_stepped_chunk_never_makes_an_iteration_shorter(n_decodes: int, chunk_tokens: int, draft_length: int):
    iteration = SteppedTime(step=CALIBRATED, max_context_tokens=LONGEST)
    decodes = (n_decodes, n_decodes * (draft_length + 1), n_decodes * 1000)
    seconds = [
        iteration.mixed_seconds(*decodes, chunks)
        for chunks in ([], [(chunk_tokens, 0)], [(chunk_tokens, 1000)], [(chunk_tokens, 1000), (chunk_tokens, 0)])
    ]
    assert seconds == sorted(seconds)
    assert seconds[0] < seconds[1]
    assert seconds[0] == pytest.approx(CALIBRATED(draft_length + 1, n_decodes, 1000.0), rel=1e-9)


def test_stepped_chunks_beside_a_measured_table_by_a_model_of_their_own():
    iteration = SteppedTime(step=_measured(nearest=["context"]), prefill=CALIBRATED, max_context_tokens=LONGEST)
    assert iteration.kind == "measured, prefill calibrated"
    decode_s = float(_measured()(5, 8, 1000))
    rows_s = CALIBRATED(40 + 512, 1, 0.0) - CALIBRATED(40, 1, 0.0)
    attention_s = CALIBRATED(512, 1, 1024 + 256.0) - CALIBRATED(512, 1, 0.0)
    seconds = iteration.mixed_seconds(8, 40, 8000, [(512, 1024)])
    assert seconds == pytest.approx(decode_s + rows_s + attention_s, rel=1e-9)
    alone = iteration.mixed_seconds(0, 0, 0, [(512, 1024)])
    assert alone == pytest.approx(CALIBRATED(512, 1, 1280.0), rel=1e-9)


def test_stepped_chunks_at_so_much_a_token():
    prefill = PerTokenPrefill(seconds_per_token=2e-5)
    iteration = SteppedTime(step=CALIBRATED, prefill=prefill, max_context_tokens=LONGEST)
    assert iteration.kind == "calibrated, prefill per token"
    assert prefill(100, 3, 4096.0) == pytest.approx(300 * 2e-5, rel=1e-12)
    decode_s = iteration.mixed_seconds(4, 20, 4000, [])
    assert iteration.mixed_seconds(4, 20, 4000, [(100, 0), (50, 64)]) == pytest.approx(decode_s + 150 * 2e-5, rel=1e-12)
    assert iteration.mixed_seconds(0, 0, 0, [(100, 0)]) == pytest.approx(2e-3, rel=1e-12)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((1, 1, 4097, []), r"context_tokens = 4097.0: must lie in \[500, 4096\], which is tabulated; raise"),
        ((1, 1, 499, []), r"context_tokens = 499.0: must lie in \[500, 4096\]"),
        ((64, 64, 64 * 512, []), r"step time: batch must lie in \[1, 32\], where it was measured; got 64; bring"),
        ((1, 17, 512, []), r"width must lie in \[1, 9\], where it was measured; got 17"),
        ((0, 0, 0, [(512, 0)]), r"width must lie in \[1, 9\]|context must lie in"),
    ],
)
def test_stepped_times_refuse_what_was_not_measured(arguments: tuple[Any, ...], problem: str):
    iteration = SteppedTime(step=_measured(), min_context_tokens=500, max_context_tokens=4096)
    with pytest.raises(BadInput, match=problem) as caught:
        iteration.mixed_seconds(*arguments)
    assert "\n" not in str(caught.value)


def test_stepped_rows_that_were_not_measured_are_refused():
    iteration = SteppedTime(step=_measured(nearest=["context"]), max_context_tokens=4096)
    with pytest.raises(BadInput, match=r"step time: width must lie in \[1, 9\], where it was measured; got 10"):
        iteration.mixed_seconds(2, 2, 2000, [(8, 0)])


def test_stepped_limits_are_checked():
    with pytest.raises(ValueError, match="max_context_tokens must be at least min_context_tokens, which is 100"):
        SteppedTime(step=CALIBRATED, min_context_tokens=100, max_context_tokens=99)
    with pytest.raises(ValueError, match="min_context_tokens must be whole and at least 0; got -1"):
        SteppedDraft(drafter=HostLookup(), prefill_step=None, min_context_tokens=-1, max_context_tokens=99)
    one = SteppedTime(step=CALIBRATED, min_context_tokens=64, max_context_tokens=64)
    assert one.decode_seconds(1, 1, np.array([64]))[0] == CALIBRATED(1, 1, 64.0)
    with pytest.raises(ValueError, match="seconds_per_token must be greater than 0"):
        PerTokenPrefill(seconds_per_token=0.0)


def test_straight_times_are_called_once():
    calls = []

    def seconds(context: Any) -> Any:
        calls.append(context.size)
        return 1.0 + 0.1 * context

    contexts, _ = table_over_context(seconds, context_nodes(0, 4096))
    assert (calls, contexts.size) == ([65], 65)


@pytest.mark.parametrize("bend_tokens", [10.0, 100.0, 250.0])
def test_bends_are_found_in_the_first_and_last_interval_too(bend_tokens: float):
    table = table_over_context(lambda context: np.maximum(1.0, context / bend_tokens), context_nodes(0, 256))
    contexts = np.arange(257.0)
    np.testing.assert_allclose(np.interp(contexts, *table), np.maximum(1.0, contexts / bend_tokens), rtol=1e-3)


def test_settings_are_asked_for_once_each():
    asked = []

    def seconds(setting: float, contexts: Any) -> Any:
        asked.append((setting, contexts.tolist()))
        return setting * contexts

    settings, contexts = np.array([[2, 1], [1, 0]]), np.array([[10.0, 20.0], [30.0, 40.0]])
    assert by_distinct(settings, contexts, seconds).tolist() == [[20.0, 20.0], [30.0, 0.0]]
    assert asked == [(0, [40.0]), (1, [20.0, 30.0]), (2, [10.0])]


def test_tables_are_forgotten_before_they_fill_the_memory(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("specbook.serving.context_tables._MOST_TABLES", 3)
    iteration = SteppedTime(step=CALIBRATED, max_context_tokens=LONGEST)
    for batch in range(1, 9):
        assert iteration.decode_seconds(batch, batch, np.array([0]))[0] == pytest.approx(CALIBRATED(1, batch, 0.0))
        assert len(iteration._decode_tables._tables) <= 3


DRAFTERS = [
    SequentialDrafter(step=DRAFT),
    ParallelHeads(step=DRAFT),
    HostLookup(),
    Lookahead(),
    SequentialDrafter(step=_measured(nearest=["context"])),
    HostedDrafter(drafter=SequentialDrafter(step=DRAFT), pass_s=1e-4, round_s=6e-4),
    HostedDrafter(drafter=ParallelHeads(step=DRAFT), pass_s=1e-4, round_s=6e-4),
]
DRAFTER_NAMES = ["draft model", "heads", "lookup", "lookahead", "measured", "hosted draft model", "hosted heads"]


@pytest.mark.parametrize("drafter", DRAFTERS, ids=DRAFTER_NAMES)
@pytest.mark.parametrize(("draft_length", "n_nodes"), [(4, 4), (4, 20), (1, 1)])
def test_stepped_drafts_equal_direct_calls(drafter: Drafter, draft_length: int, n_nodes: int):
    draft = SteppedDraft(drafter=drafter, prefill_step=None, max_context_tokens=LONGEST)
    contexts = np.arange(0, 8 * LONGEST, 1001)
    direct = np.broadcast_to(drafter.seconds(draft_length, n_nodes, 8, contexts / 8), contexts.shape)
    np.testing.assert_allclose(draft.seconds(draft_length, n_nodes, 8, contexts), direct, rtol=1e-9)
    assert not np.any(draft.seconds(0, 0, 8, contexts))


def test_stepped_draft_passes_shrink_with_their_batch():
    draft = SteppedDraft(drafter=SequentialDrafter(step=DRAFT), prefill_step=None, max_context_tokens=LONGEST)
    reached = np.array([[8, 3, 0, 8], [2, 3, 0, 0], [2, 0, 0, 0]])
    contexts = np.array([8000, 24000, 400, 4004])
    seconds = draft.cut_seconds(reached, contexts, 8)
    expected = [
        sum(float(DRAFT(1.0, batch, context / 8)) for batch in batches if batch)
        for batches, context in zip(reached.T, contexts, strict=True)
    ]
    np.testing.assert_allclose(seconds, expected, rtol=1e-9)
    assert seconds[2] == 0.0


@pytest.mark.parametrize("drafter", DRAFTERS[1:4], ids=["heads", "lookup", "lookahead"])
def test_stepped_drafts_at_once_cost_what_the_longest_of_the_round_does(drafter: Drafter):
    draft = SteppedDraft(drafter=drafter, prefill_step=None, max_context_tokens=LONGEST)
    reached = np.array([[8, 3, 0, 8], [2, 3, 0, 0], [2, 0, 0, 0]])
    contexts = np.array([8000, 24000, 400, 4004])
    seconds = draft.cut_seconds(reached, contexts, 8)
    for at, longest in enumerate((3, 2, 0, 1)):
        assert seconds[at] == draft.seconds(longest, longest, 8, contexts[at : at + 1])[0]


def test_stepped_draft_inside_an_engine_pays_for_the_passes_that_are_made_and_for_the_round_once():
    bare = SequentialDrafter(step=DRAFT)
    hosted = HostedDrafter(drafter=bare, pass_s=1e-4, round_s=6e-4)
    reached, contexts = np.array([[8, 3, 0, 8], [2, 3, 0, 0], [2, 0, 0, 0]]), np.array([8000, 24000, 400, 4004])
    without, within = (
        SteppedDraft(drafter=drafter, prefill_step=None, max_context_tokens=LONGEST).cut_seconds(reached, contexts, 8)
        for drafter in (bare, hosted)
    )
    expected = [n_passes * 1e-4 + (6e-4 if n_passes else 0.0) for n_passes in (3, 2, 0, 1)]
    np.testing.assert_allclose(within - without, expected, rtol=1e-9, atol=1e-15)


def test_stepped_heads_inside_an_engine_pay_for_one_pass():
    hosted = HostedDrafter(drafter=ParallelHeads(step=DRAFT), pass_s=1e-4, round_s=6e-4)
    draft = SteppedDraft(drafter=hosted, prefill_step=None, max_context_tokens=LONGEST)
    bare = SteppedDraft(drafter=hosted.drafter, prefill_step=None, max_context_tokens=LONGEST)
    reached, contexts = np.array([[8, 0], [2, 0]]), np.array([8000, 400])
    added = draft.cut_seconds(reached, contexts, 8) - bare.cut_seconds(reached, contexts, 8)
    np.testing.assert_allclose(added, [7e-4, 0.0], rtol=1e-9, atol=1e-15)


def test_stepped_lookup_searches_once_a_round():
    draft = SteppedDraft(drafter=HostLookup(), prefill_step=None, max_context_tokens=LONGEST)
    all_draft_on, one_does = np.full((5, 1), 8), np.array([[8], [1], [1], [1], [1]])
    once = float(HostLookup().seconds(1, 1, 8, 1000.0))
    for reached in (all_draft_on, one_does):
        assert draft.cut_seconds(reached, np.array([8000]), 8) == pytest.approx([once], rel=1e-12)


@pytest.mark.parametrize("drafter", DRAFTERS, ids=DRAFTER_NAMES)
def test_stepped_cut_that_cuts_nothing_is_the_chain(drafter: Drafter):
    draft = SteppedDraft(drafter=drafter, prefill_step=None, max_context_tokens=LONGEST)
    contexts = np.arange(0, 8 * LONGEST, 1001)
    reached = np.zeros((6, contexts.size), dtype=np.int64)  # longer drafts than this law's have rows, too
    reached[:4] = 8
    np.testing.assert_allclose(draft.cut_seconds(reached, contexts, 8), draft.seconds(4, 4, 8, contexts), rtol=1e-12)


@pytest.mark.parametrize("drafter", DRAFTERS, ids=DRAFTER_NAMES)
def test_stepped_rounds_with_cuts_are_the_same_alone_and_together(drafter: Drafter):
    draft = SteppedDraft(drafter=drafter, prefill_step=None, max_context_tokens=LONGEST)
    generator = np.random.default_rng(1)
    reached = -np.sort(-generator.integers(0, 33, (12, 50)), axis=0)
    contexts = generator.integers(0, 32 * LONGEST, 50)
    together = draft.cut_seconds(reached, contexts, 32)
    alone = [draft.cut_seconds(reached[:, i : i + 1], contexts[i : i + 1], 32)[0] for i in range(50)]
    assert together.tolist() == alone


def test_stepped_cuts_refuse_what_was_not_measured():
    drafter = SequentialDrafter(step=_measured(nearest=["context"]))
    draft = SteppedDraft(drafter=drafter, prefill_step=None, max_context_tokens=LONGEST)
    with pytest.raises(BadInput, match=r"step time: batch must lie in \[1, 32\], where it was measured; got 33"):
        draft.cut_seconds(np.array([[33]]), np.array([33]), 64)
    with pytest.raises(BadInput, match=r"context_tokens = 9000.0: must lie in \[0, 8192\]"):
        draft.cut_seconds(np.array([[1]]), np.array([18000]), 2)


def test_stepped_draft_that_was_measured_above_a_context_processes_prompts_below_it():
    limits = {"min_context_tokens": 500, "max_context_tokens": 4096}
    draft = SteppedDraft(drafter=SequentialDrafter(step=_measured()), prefill_step=DRAFT, **limits)
    assert draft.seconds(1, 1, 8, np.array([8000])) == pytest.approx([float(_measured()(1, 8, 1000.0))], rel=1e-9)
    assert draft.prefill_seconds([(100, 0)]) == pytest.approx(DRAFT(100, 1, 50.0), rel=1e-9)
    with pytest.raises(BadInput, match=r"context_tokens = 499.0: must lie in \[500, 4096\]"):
        draft.seconds(1, 1, 8, np.array([8 * 499]))


def test_stepped_draft_model_processes_the_prompt_too():
    drafter = SequentialDrafter(step=DRAFT)
    chunks = [(512, 1024), (100, 0)]
    with_prompt = SteppedDraft(drafter=drafter, prefill_step=DRAFT, max_context_tokens=LONGEST)
    expected = (
        DRAFT(612, 1, 0.0) + DRAFT(512, 1, 1280.0) - DRAFT(512, 1, 0.0) + DRAFT(100, 1, 50.0) - DRAFT(100, 1, 0.0)
    )
    assert with_prompt.prefill_seconds(chunks) == pytest.approx(expected, rel=1e-9)
    assert with_prompt.prefill_seconds([]) == 0.0
    without = SteppedDraft(drafter=drafter, prefill_step=None, max_context_tokens=LONGEST)
    assert without.prefill_seconds(chunks) == 0.0
