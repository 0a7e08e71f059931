"""Vidur's tables: looked up by its rules, never beyond them; and iterations that Vidur recorded, to the last bit.

The recorded iterations lie beside the checkout; where they do not, the small tables here prove the same rules.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from specbook.checks import BadInput
from specbook.serving.iteration_time import AffineIterationTime
from specbook.serving.vidur_tables import VidurTables

PAIRS = Path(__file__).parents[2].parent / "shared" / "vidur_pairs"
recorded = pytest.mark.skipif(not PAIRS.is_dir(), reason="the folder of shared data is not here")

LINEAR = "num_tokens,non_attention_ms_per_layer,kv_cache_save_ms_per_layer\n" + "".join(
    f"{n},{0.5 + 0.01 * n},{0.003 + 0.0001 * n}\n" for n in range(1, 33)
)
DECODE = "decode_batch_size,avg_kv_rounded_up_64,attn_decode_ms_per_layer\n" + "".join(
    f"{batch},{context},{0.01 * batch + 0.0001 * context}\n" for batch in (1, 2, 3) for context in (0, 64, 128)
)
PREFILL = "sum_kv_rounded_up_64,chunk_rms_tokens,attn_prefill_ms_per_layer\n" + "".join(
    f"{context},{tokens},{0.02 + 0.001 * tokens + 0.00001 * context}\n"
    for context in (0, 64, 128)
    for tokens in range(1, 25)
)


def _lin(n_tokens: int) -> float:
    return (0.5 + 0.01 * n_tokens) + (0.003 + 0.0001 * n_tokens)


@pytest.fixture
def tables(save: Callable[..., Path]) -> VidurTables:
    paths = {"linear": save("l.csv", LINEAR), "decode": save("d.csv", DECODE), "prefill": save("p.csv", PREFILL)}
    return VidurTables.read(**paths, n_layers=28)


@pytest.mark.parametrize(
    ("n_decodes", "context", "mean_up", "factor"),
    [(1, 0, 0, 1.0), (1, 1, 64, 1.0), (1, 64, 64, 1.0), (1, 65, 128, 1.0), (2, 129, 64, 1.1), (3, 3 * 128, 128, 1.1)],
)
def test_decodes_look_up_their_mean_context_rounded_up(
    tables: VidurTables, n_decodes: int, context: int, mean_up: int, factor: float
):
    layer_ms = _lin(n_decodes) + (0.01 * n_decodes + 0.0001 * mean_up) * factor
    seconds = tables.mixed_seconds(n_decodes, n_decodes, context, [])
    assert seconds == pytest.approx(28 * layer_ms * 1e-3, rel=1e-14)
    assert tables.decode_seconds(n_decodes, n_decodes, np.array([context])).tolist() == [seconds]


@pytest.mark.parametrize(
    ("prefills", "context", "tokens", "factor"),
    [
        ([(8, 0)], 0, 8, 1.0),
        ([(8, 1)], 64, 8, 1.0),
        ([(3, 0), (4, 0)], 0, 5, 1.1),
        ([(8, 1), (6, 64)], 128, 10, 1.1),
        ([(2, 0), (2, 0)], 0, 3, 1.1),  # the root of 8 is 2.83
    ],
)
def test_chunks_look_up_the_sum_of_contexts_and_the_root_of_squares(
    tables: VidurTables, prefills: list[tuple[int, int]], context: int, tokens: int, factor: float
):
    layer_ms = _lin(sum(k for k, _ in prefills)) + (0.02 + 0.001 * tokens + 0.00001 * context) * factor
    assert tables.mixed_seconds(0, 0, 0, prefills) == pytest.approx(28 * layer_ms * 1e-3, rel=1e-14)


def test_decodes_and_chunks_share_the_products(tables: VidurTables):
    layer_ms = _lin(2 + 8) + (0.02 + 0.0064) * 1.1 + (0.02 + 0.008)
    assert tables.mixed_seconds(2, 2, 100, [(8, 0)]) == pytest.approx(28 * layer_ms * 1e-3, rel=1e-14)


def test_several_iterations_are_those_alone(tables: VidurTables):
    contexts, tokens = np.array([0, 3, 100, 250, 384]), np.array([3, 15, 3, 4, 9])
    together = tables.decode_seconds(3, tokens, contexts)
    assert together.tolist() == [
        tables.mixed_seconds(3, int(n), int(context), []) for n, context in zip(tokens, contexts, strict=True)
    ]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((3, 33, 0, []), r"num_tokens = 33: the linear table holds 1 to 32; bring a table"),
        (
            (4, 4, 0, []),
            r"avg_kv_rounded_up_64 = \(4, 0\): the decode table holds decode_batch_size 1 to 3, avg_kv 0 to",
        ),
        ((2, 2, 258, []), r"= \(2, 192\): the decode table holds"),
        ((0, 0, 0, [(25, 0)]), r"chunk_rms_tokens = \(0, 25\): the prefill table holds sum_kv 0 to 128, chunk_rms_tok"),
        ((0, 0, 0, [(1, 129)]), r"= \(192, 1\): the prefill table holds"),
    ],
)
def test_look_up_outside_a_table_is_refused(tables: VidurTables, arguments: tuple, problem: str):
    with pytest.raises(BadInput, match=problem) as caught:
        tables.mixed_seconds(*arguments)
    assert "\n" not in str(caught.value)
    if arguments[0]:
        n_decodes, decode_tokens, context, _ = arguments
        with pytest.raises(BadInput, match=problem):
            tables.decode_seconds(n_decodes, decode_tokens, np.array([0, context]))


def test_look_up_in_a_hole_of_a_table_is_refused(save: Callable[..., Path]):
    holed = "\n".join(line for line in DECODE.splitlines() if not line.startswith("2,64,"))
    paths = {"linear": save("l.csv", LINEAR), "decode": save("d.csv", holed), "prefill": save("p.csv", PREFILL)}
    tables = VidurTables.read(**paths, n_layers=1)
    assert tables.decode_seconds(2, 2, np.array([0, 256])).shape == (2,)
    with pytest.raises(BadInput, match=r"\(2, 64\): the decode table holds"):
        tables.decode_seconds(2, 2, np.array([0, 128, 256]))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (DECODE, "l.csv: header = 'num_tokens': has no such column; a table of Vidur's predictor has the columns"),
        ("{}", "l.csv: header = 'num_tokens': has no such column"),
        (LINEAR + "7,0.1,0.1\n", r"l.csv line 34: num_tokens = \(7,\): stands in an earlier row too; keep one"),
        (LINEAR + "33,-0.1,0.1\n", "non_attention_ms_per_layer = -0.1: must lie in"),
        (LINEAR + "33,nan,0.1\n", "non_attention_ms_per_layer = 'nan': is no number"),
        (LINEAR + "33.5,0.1,0.1\n", "num_tokens = 33.5: must be a whole number"),
        (LINEAR + "33,0.1\n", "line 34: 2 cells under 3 names"),
        (LINEAR.splitlines()[0] + "\n", "l.csv: holds no row; export the table again"),
    ],
)
def test_damaged_tables_are_refused_in_one_line(save: Callable[..., Path], content: str, problem: str):
    paths = {"linear": save("l.csv", content), "decode": save("d.csv", DECODE), "prefill": save("p.csv", PREFILL)}
    with pytest.raises(BadInput, match=problem) as caught:
        VidurTables.read(**paths, n_layers=28)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"n_layers": 0}, "n_layers must be"),
        ({"decode_ms": {(1, 0): float("nan")}}, "decode_ms must hold finite times"),
    ],
)
def test_tables_check_what_they_are_made_of(change: dict, problem: str):
    parts = {"linear_ms": {1: 0.1}, "save_ms": {1: 0.1}, "decode_ms": {}, "prefill_ms": {}, "n_layers": 2}
    with pytest.raises(ValueError, match=problem):
        VidurTables(**(parts | change))


def test_tables_of_nothing_say_so():
    tables = VidurTables(linear_ms={1: 0.1}, save_ms={1: 0.1}, decode_ms={}, prefill_ms={}, n_layers=2)
    with pytest.raises(BadInput, match="the decode table holds decode_batch_size nothing, avg_kv nothing"):
        tables.decode_seconds(1, 1, np.array([10]))


class Batch(NamedTuple):
    """One recorded iteration."""

    scheduled_s: float
    completed_s: float
    n_decodes: int
    context_tokens: int
    prefills: list[tuple[int, int]]


def _batches(case: str) -> Iterator[Batch]:
    """Iterations of a case without restarts, with the tokens that each chunk found done."""
    with (PAIRS / "trace_small.csv").open() as stream:
        prompts = [int(row["num_prefill_tokens"]) for row in csv.DictReader(stream)]
    done = [0] * len(prompts)
    with (PAIRS / f"{case}.batches.csv").open() as stream:
        for row in csv.DictReader(stream):
            prefills: list[tuple[int, int]] = []
            for entry in row["request_id:tokens"].split(";"):
                request, tokens = (int(float(part)) for part in entry.split(":"))
                if done[request] < prompts[request]:
                    prefills.append((tokens, done[request]))
                done[request] += tokens + (done[request] + tokens == prompts[request])  # the first token of the answer
            decodes = int(row["num_decode_requests"]), int(float(row["sum_decode_context"]))
            assert sum(tokens for tokens, _ in prefills) == float(row["num_prefill_tokens"])
            yield Batch(float(row["scheduled_at"]), float(row["completed_at"]), *decodes, prefills)


@recorded
@pytest.mark.parametrize("case", ["sarathi_affine", "vllm_affine"])
def test_recorded_affine_iterations_end_at_the_very_same_float(case: str):
    affine = AffineIterationTime(c0_ms=9.0, c1_ms=0.06, c2_ms=0.0004, c3_ms=0.00002)
    ends = [
        (batch.scheduled_s + affine.mixed_seconds(batch.n_decodes, batch.n_decodes, *batch[3:]), batch.completed_s)
        for batch in _batches(case)
    ]
    assert len(ends) > 500
    assert [mine for mine, _ in ends] == [theirs for _, theirs in ends]


@recorded
def test_recorded_a30_iterations_take_what_the_tables_say():
    names = {name: PAIRS / f"a30_qwen2_7b_{file}_ms.csv" for name, file in _A30_FILES.items()}
    tables = VidurTables.read(**names, n_layers=28)
    count = 0
    for batch in _batches("sarathi_a30_qwen2_7b"):
        seconds = tables.mixed_seconds(batch.n_decodes, batch.n_decodes, *batch[3:])
        assert batch.scheduled_s + seconds == pytest.approx(batch.completed_s, abs=1e-12)
        if not batch.prefills:
            contexts = np.array([batch.context_tokens])
            assert tables.decode_seconds(batch.n_decodes, batch.n_decodes, contexts).tolist() == [seconds]
        count += 1
    assert count == 361


_A30_FILES = {"linear": "linear", "decode": "attn_decode", "prefill": "attn_prefill"}
