"""The whole grid of configurations in one vectorised call, and the table that it becomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from specbook.acceptance.candidates import DraftCandidates
from specbook.checks import Floats, check_counts
from specbook.hardware.profile import HardwareProfile
from specbook.roofline.model_spec import ModelSpec
from specbook.roofline.speedup import ChainPair, chain_round, kv_bytes, memory_bytes
from specbook.roofline.step_time import (
    DeviceRates,
    arithmetic_seconds,
    device_rates,
    memory_seconds,
    step_cost,
)

# Other people read these by name; the first twenty-one and their order are a contract.
COLUMNS = (
    "hardware", "target", "drafter", "method", "draft_length", "tree_nodes", "precision", "batch", "context",
    "step_time_kind", "draft_s", "verify_s", "round_s", "baseline_tpot_s", "tpot_s", "expected_tokens", "speedup",
    "throughput_tokens_per_s", "kv_bytes", "regime", "viable",
    "fits_memory", "draft_precision", "measured_target", "measured_drafter", "domain", "temperature",
    "acceptance_assumption",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class GridConfig:
    """What to project: every combination of hardware, draft length, batch and context.

    Attributes
    ----------
    hardware : tuple of HardwareProfile
    target, draft : ModelSpec
        The model that verifies, and the small one that drafts.
    candidates : DraftCandidates
        Draft lengths and the tokens that each yields.
    batches, contexts : tuple of int
        Sequences in a pass, and tokens of context in each; at least 1.
    precision, draft_precision : str
        Weight formats.

    Raises
    ------
    ValueError
        If there is no hardware, or a batch or context is not a whole number of at least 1.
    """

    hardware: tuple[HardwareProfile, ...]
    target: ModelSpec
    draft: ModelSpec
    candidates: DraftCandidates
    batches: tuple[int, ...]
    contexts: tuple[int, ...]
    precision: str = "bf16"
    draft_precision: str = "bf16"

    def __post_init__(self) -> None:
        if not self.hardware:
            raise ValueError("hardware must name at least one device")
        for name in ("batches", "contexts"):
            if not check_counts(name, getattr(self, name), minimum=1).size:
                raise ValueError(f"{name} must not be empty")

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Lengths of the axes hardware, draft length, batch, context."""
        return len(self.hardware), len(self.candidates.draft_lengths), len(self.batches), len(self.contexts)


@dataclass(frozen=True, kw_only=True)
class GridArrays:
    """The projection as arrays that broadcast to (n_hardware, n_draft_lengths, n_batches, n_contexts)."""

    draft_s: Any
    verify_s: Any
    round_s: Any
    baseline_tpot_s: Any
    tpot_s: Any
    expected_tokens: Any
    speedup: Any
    throughput_tokens_per_s: Any
    kv_bytes: Any
    is_compute_bound: Any
    fits_memory: Any


def _axis(values: Any, position: int) -> Floats:
    shape = [1, 1, 1, 1]
    shape[position] = -1
    return np.asarray(values, dtype=np.float64).reshape(shape)


def _rates(config: GridConfig, precision_name: str) -> DeviceRates:
    rates = [device_rates(profile, precision_name) for profile in config.hardware]
    return DeviceRates(
        flops_per_s=_axis([r.flops_per_s for r in rates], 0),
        bandwidth_bytes_per_s=_axis([r.bandwidth_bytes_per_s for r in rates], 0),
        overhead_s=_axis([r.overhead_s for r in rates], 0),
    )


def chain_pair(config: GridConfig) -> ChainPair:
    """Costs of target and draft, and the rates of each device along the first axis.

    Examples
    --------
    >>> chain_pair(example_grid()).target_device.bandwidth_bytes_per_s.shape
    (1, 1, 1, 1)
    """
    return ChainPair(
        target=step_cost(config.target, config.precision),
        draft=step_cost(config.draft, config.draft_precision),
        target_weight_bytes=config.target.weight_bytes(config.precision),
        draft_weight_bytes=config.draft.weight_bytes(config.draft_precision),
        target_device=_rates(config, config.precision),
        draft_device=_rates(config, config.draft_precision),
    )


def evaluate_grid(config: GridConfig) -> GridArrays:
    """Evaluate every configuration at once with the doctrine's roofline.

    Parameters
    ----------
    config : GridConfig

    Returns
    -------
    GridArrays
        Seconds, tokens and bytes, in arrays that broadcast to ``config.shape``.

    References
    ----------
    leviathan2023, williams2009

    Examples
    --------
    >>> arrays = evaluate_grid(example_grid())
    >>> np.broadcast_to(arrays.speedup, example_grid().shape)[0, 0].tolist()  # K = 0 changes nothing
    [[1.0, 1.0], [1.0, 1.0]]
    """
    length, batch, context = (
        _axis(config.candidates.draft_lengths, 1),
        _axis(config.batches, 2),
        _axis(config.contexts, 3),
    )
    tokens = _axis(config.candidates.expected_tokens, 1)
    pair = chain_pair(config)
    each = chain_round(length, batch, context, tokens, pair)
    arithmetic_s = arithmetic_seconds(length + 1.0, batch, context, pair.target, pair.target_device)
    memory_s = memory_seconds(length + 1.0, batch, context, pair.target, pair.target_device)
    memory = _axis([profile.memory_bytes.value for profile in config.hardware], 0)
    return GridArrays(
        draft_s=each.draft_s,
        verify_s=each.verify_s,
        round_s=each.round_s,
        baseline_tpot_s=each.baseline_tpot_s,
        tpot_s=each.tpot_s,
        expected_tokens=tokens,
        speedup=each.speedup,
        throughput_tokens_per_s=batch / each.tpot_s,
        kv_bytes=kv_bytes(length, batch, context, pair),
        is_compute_bound=arithmetic_s > memory_s,
        fits_memory=memory_bytes(length, batch, context, pair) <= memory,
    )


def project(config: GridConfig) -> pl.DataFrame:
    """The grid as a table, one row a configuration.

    Parameters
    ----------
    config : GridConfig

    Returns
    -------
    polars.DataFrame
        Columns :data:`COLUMNS`; seconds, bytes and tokens as their names say, ``speedup`` dimensionless.
        ``viable``: the weights and the KV cache fit, and drafting is faster than not drafting; a row with
        ``draft_length`` 0 needs only to fit.

    References
    ----------
    leviathan2023, williams2009

    Examples
    --------
    >>> table = project(example_grid())
    >>> table.height, table["regime"].unique().to_list()
    (16, ['memory'])
    """
    arrays = evaluate_grid(config)
    size = int(np.prod(config.shape))

    def column(values: Any) -> Any:
        return np.broadcast_to(values, config.shape).reshape(size)

    def label(values: Any, position: int) -> pl.Series:
        index = np.arange(len(values), dtype=np.uint32).reshape([-1 if i == position else 1 for i in range(4)])
        return pl.Series(values).gather(column(index))

    lengths = column(np.asarray(config.candidates.draft_lengths, dtype=np.int64).reshape(1, -1, 1, 1))
    fits, gain = column(arrays.fits_memory), column(arrays.speedup)
    frame = pl.DataFrame(
        {
            "hardware": label([profile.name for profile in config.hardware], 0),
            "draft_length": lengths,
            "batch": column(np.asarray(config.batches, dtype=np.int64).reshape(1, 1, -1, 1)),
            "context": column(np.asarray(config.contexts, dtype=np.int64).reshape(1, 1, 1, -1)),
            "draft_s": column(arrays.draft_s),
            "verify_s": column(arrays.verify_s),
            "round_s": column(arrays.round_s),
            "baseline_tpot_s": column(arrays.baseline_tpot_s),
            "tpot_s": column(arrays.tpot_s),
            "expected_tokens": column(arrays.expected_tokens),
            "speedup": gain,
            "throughput_tokens_per_s": column(arrays.throughput_tokens_per_s),
            "kv_bytes": column(arrays.kv_bytes),
            "is_compute_bound": column(arrays.is_compute_bound),
            "viable": fits & ((gain > 1.0) | (lengths == 0)),
            "fits_memory": fits,
            "acceptance_assumption": label(list(config.candidates.assumptions), 1),
        }
    )
    candidates = config.candidates
    texts = {
        "target": config.target.name,
        "drafter": config.draft.name,
        "method": candidates.method,
        "precision": config.precision,
        "step_time_kind": "doctrine",
        "draft_precision": config.draft_precision,
        "measured_target": candidates.target,
        "measured_drafter": candidates.drafter,
        "domain": candidates.domain,
    }
    return frame.with_columns(
        *(pl.lit(text, dtype=pl.String).alias(name) for name, text in texts.items()),
        pl.lit(candidates.temperature, dtype=pl.Float64).alias("temperature"),
        pl.lit(None, dtype=pl.Int64).alias("tree_nodes"),
        pl.when("is_compute_bound").then(pl.lit("compute")).otherwise(pl.lit("memory")).alias("regime"),
    ).select(COLUMNS)


def example_grid() -> GridConfig:
    """A small grid on one device, for examples and first steps.

    Examples
    --------
    >>> example_grid().shape
    (1, 4, 2, 2)
    """
    from specbook.hardware.profile import catalogue_device
    from specbook.roofline.model_spec import model

    candidates = DraftCandidates(
        draft_lengths=(0, 1, 2, 4),
        expected_tokens=(1.0, 1.8, 2.44, 3.3616),
        assumptions=("measured",) * 4,
        method="draft_model",
    )
    return GridConfig(
        hardware=(catalogue_device("h100-sxm5"),),
        target=model("Llama-3.1-8B"),
        draft=model("Llama-3.2-1B"),
        candidates=candidates,
        batches=(1, 8),
        contexts=(512, 4096),
    )
