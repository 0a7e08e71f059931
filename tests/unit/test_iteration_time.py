"""Affine and constant iteration times: one order of operations, whichever way they are asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from specbook.serving.draft_time import ConstantDraft, NoDraft
from specbook.serving.iteration_time import AffineIterationTime, ConstantIterationTime, prefill_pairs

AFFINE = AffineIterationTime(c0_ms=9.0, c1_ms=0.06, c2_ms=0.0004, c3_ms=0.00002)
CONTEXTS = np.array([0, 1, 153, 7919, 2**31])


def test_affine_seconds_add_up_in_the_order_of_the_formula():
    chunks = [(103, 152), (97, 0)]
    n_tokens, pairs = 7 + 103 + 97, 103 * (2 * 152 + 103) + 97 * 97
    expected = (9.0 + 0.06 * n_tokens + 0.0004 * 1234 + 0.00002 * pairs / 2) * 1e-3
    assert AFFINE.mixed_seconds(7, 7, 1234, chunks) == expected


@pytest.mark.parametrize("decode_tokens", [1, 7, 35])
def test_affine_decodes_are_the_same_alone_and_together(decode_tokens: int):
    together = AFFINE.decode_seconds(7, decode_tokens, CONTEXTS)
    alone = [AFFINE.mixed_seconds(7, decode_tokens, int(context), []) for context in CONTEXTS]
    assert together.tolist() == alone
    assert together.dtype == np.float64


def test_affine_decodes_whose_tokens_vary():
    tokens = np.array([7, 8, 9, 35, 7])
    together = AFFINE.decode_seconds(7, tokens, CONTEXTS)
    alone = [AFFINE.mixed_seconds(7, int(n), int(c), []) for n, c in zip(tokens, CONTEXTS, strict=True)]
    assert together.tolist() == alone


def test_affine_chunks_of_a_prompt_attend_over_as_many_pairs_as_the_whole():
    assert prefill_pairs([(100, 0), (50, 100), (1, 150)]) == prefill_pairs([(151, 0)]) == 151**2
    assert prefill_pairs([]) == 0


@pytest.mark.parametrize("bad", [-1e-9, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["c0_ms", "c1_ms", "c2_ms", "c3_ms"])
def test_affine_refuses_a_coefficient_by_name(name: str, bad: float):
    coefficients: dict[str, Any] = dict.fromkeys(("c0_ms", "c1_ms", "c2_ms", "c3_ms"), 1.0) | {name: bad}
    with pytest.raises(ValueError, match=f"{name} must"):
        AffineIterationTime(**coefficients)


def test_affine_refuses_to_take_no_time():
    with pytest.raises(ValueError, match="must not all be 0"):
        AffineIterationTime(c0_ms=0.0, c1_ms=0.0, c2_ms=0.0, c3_ms=0.0)


def test_constant_seconds_do_not_depend_on_the_batch():
    constant = ConstantIterationTime(seconds=0.01)
    assert constant.decode_seconds(7, np.array([7, 8]), np.array([0, 5])).tolist() == [0.01, 0.01]
    assert constant.mixed_seconds(0, 0, 0, [(1, 0)]) == constant.mixed_seconds(9, 45, 9999, [(512, 64)]) == 0.01
    assert (constant.kind, AFFINE.kind) == ("constant", "affine")


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan")])
def test_constant_refuses_what_is_no_time(seconds: float):
    with pytest.raises(ValueError, match="seconds must"):
        ConstantIterationTime(seconds=seconds)


def test_no_draft_costs_nothing_and_a_constant_one_each_pass():
    free, constant = NoDraft(), ConstantDraft(seconds_per_pass=0.002)
    assert free.seconds(4, 4, 8, CONTEXTS).tolist() == 5 * [0.0]
    assert constant.seconds(4, 12, 8, CONTEXTS).tolist() == 5 * [0.008]
    assert constant.seconds(0, 0, 8, CONTEXTS).tolist() == 5 * [0.0]
    reached = np.array([[8, 8, 3, 1, 0], [8, 5, 1, 0, 0], [8, 0, 0, 0, 0]])
    assert constant.cut_seconds(reached, CONTEXTS, 8).tolist() == [3 * 0.002, 2 * 0.002, 2 * 0.002, 0.002, 0.0]
    assert constant.cut_seconds(reached, CONTEXTS, 8)[0] == constant.seconds(3, 3, 8, CONTEXTS)[0]
    assert free.cut_seconds(reached, CONTEXTS, 8).tolist() == 5 * [0.0]
    assert free.prefill_seconds([(512, 0)]) == constant.prefill_seconds([(512, 0)]) == 0.0
    with pytest.raises(ValueError, match="seconds_per_pass must not be negative"):
        ConstantDraft(seconds_per_pass=-1e-9)
