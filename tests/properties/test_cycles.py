"""The cycle simulator: what holds of every configuration."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from specbook.acceptance.cycle_audit import break_even_cost_ratio
from specbook.acceptance.cycle_config import CycleConfig
from specbook.acceptance.cycles import simulate_cycles
from specbook.acceptance.draft_models import EntropyAware, FixedAcceptance, PositionDecay

ROUNDING = 1e-12
PROBABILITY = st.floats(0.0, 1.0)
MODELS = st.one_of(
    st.builds(FixedAcceptance, acceptance=PROBABILITY),
    st.builds(PositionDecay, base=PROBABILITY, factor=PROBABILITY),
    st.builds(EntropyAware, easy_acceptance=PROBABILITY, hard_acceptance=PROBABILITY, hard_fraction=PROBABILITY),
)
CONFIGS = st.builds(
    CycleConfig,
    draft_model=MODELS,
    draft_length=st.integers(0, 12),
    draft_s=st.floats(0.0, 1.0),
    verify_s=st.floats(1e-6, 1.0),
    n_sequences=st.integers(1, 6),
    tokens_per_sequence=st.integers(1, 40),
    seed=st.integers(0, 2**32),
)


@given(CONFIGS)
def test_rounds_lie_between_the_fewest_and_the_most(config: CycleConfig):
    result = simulate_cycles(config)
    fewest = -(-config.tokens_per_sequence // (config.draft_length + 1))
    for rounds in (result.rounds, result.expected_rounds, result.mean_rounds):
        assert np.all(np.asarray(rounds) >= fewest * (1 - ROUNDING))
        assert np.all(np.asarray(rounds) <= config.tokens_per_sequence * (1 + ROUNDING))


@given(CONFIGS)
def test_tokens_add_up_whatever_the_draft_model(config: CycleConfig):
    result = simulate_cycles(config)
    assert np.all(result.drafted_tokens == config.draft_length * result.rounds)
    assert np.all((result.kept_tokens >= 0) & (result.kept_tokens <= result.accepted_tokens))
    assert np.all(result.accepted_tokens <= result.drafted_tokens)
    own = config.tokens_per_sequence - result.kept_tokens
    assert np.all((own == result.rounds) | (own == result.rounds - 1))


@given(CONFIGS)
def test_speedup_is_baseline_time_over_time(config: CycleConfig):
    result = simulate_cycles(config)
    spent = result.rounds.sum() * (config.draft_length * config.draft_s + config.verify_s)
    baseline = config.n_sequences * config.tokens_per_sequence * config.verify_s
    assert np.isclose(result.speedup, baseline / spent, rtol=ROUNDING)
    assert 0.0 <= config.overhead < 1.0
    assert result.expected_speedup <= result.untruncated_speedup * (1 + ROUNDING)


@given(CONFIGS)
def test_rows_have_the_same_columns_and_no_nan(config: CycleConfig):
    frame = simulate_cycles(config).frame
    assert frame.columns == simulate_cycles(CycleConfig(draft_model=FixedAcceptance(), n_sequences=1)).frame.columns
    assert not any(np.isnan(value) for value in frame.row(0) if isinstance(value, float))


@given(MODELS, st.integers(1, 10), st.one_of(st.none(), st.integers(1, 40)))
def test_break_even_cost_is_where_the_exact_speedup_is_one(model, draft_length: int, n_tokens: int | None):
    ratio = float(break_even_cost_ratio(model.conditional_acceptance(draft_length), n_tokens))
    assert -ROUNDING <= ratio <= model.conditional_acceptance(1)[0] + ROUNDING
    config = CycleConfig(
        draft_model=model,
        draft_length=draft_length,
        draft_s=max(ratio, 0.0),
        verify_s=1.0,
        n_sequences=1,
        tokens_per_sequence=n_tokens or 1,
    )
    result = simulate_cycles(config)
    assert np.isclose(result.untruncated_speedup if n_tokens is None else result.expected_speedup, 1.0, rtol=1e-9)
