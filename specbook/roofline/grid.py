"""The whole grid of configurations in one vectorised call, and the table that it becomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl

from specbook.acceptance.candidates import DraftCandidates
from specbook.checks import BadInput, Floats, check_counts
from specbook.hardware.profile import HardwareProfile
from specbook.roofline.calibrated import CalibratedRoofline
from specbook.roofline.calibrations import calibration_label, stacked_rates
from specbook.roofline.drafting import MethodName, drafter_cost, drafter_of, drafter_weight_bytes
from specbook.roofline.engine_overheads import EngineOverheads
from specbook.roofline.hosted import EngineStep, engine_drafter, engine_step
from specbook.roofline.model_spec import ModelSpec
from specbook.roofline.pass_cost import StepCost, step_cost
from specbook.roofline.speedup import DraftingPair, kv_bytes, memory_bytes, round_times
from specbook.roofline.step_time import DeviceRates, DoctrineRoofline, StepTime, device_rates

StepTimeKind = Literal["doctrine", "calibrated", "measured"]

# Other people read these by name; the first twenty-one and their order are a contract.
COLUMNS = (
    "hardware", "target", "drafter", "method", "draft_length", "tree_nodes", "precision", "batch", "context",
    "step_time_kind", "draft_s", "verify_s", "round_s", "baseline_tpot_s", "tpot_s", "expected_tokens", "speedup",
    "throughput_tokens_per_s", "kv_bytes", "regime", "viable",
    "fits_memory", "draft_precision", "measured_target", "measured_drafter", "domain", "temperature",
    "acceptance_assumption", "speedup_low", "speedup_high", "step_time_source", "n_devices",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class MeasuredPair:
    """Measured step times of target and drafter on one device; a drafter without weights has none."""

    target: StepTime
    draft: StepTime | None = None


@dataclass(frozen=True, kw_only=True)
class GridConfig:
    """What to project: every combination of hardware, draft, batch and context, for one target and one method.

    Attributes
    ----------
    hardware : tuple of HardwareProfile
    target : ModelSpec
        The model that verifies.
    draft : ModelSpec or None
        The small one that drafts; None for a method that has no model of its own.
    candidates : DraftCandidates
        Drafts, chains or trees, and the tokens that each yields.
    batches, contexts : tuple of int
        Sequences in a pass, and tokens of context in each; at least 1.
    precision, draft_precision : str
        Weight formats.
    method : str
        What drafting costs like, one of :data:`~specbook.roofline.drafting.METHODS`.
    step_time : str
        ``doctrine``, the ideal bound; ``calibrated``; ``measured``, from ``measured_steps``.
    backend : str or None
        Which of a device's calibrations; None is the first.
    measured_steps : tuple of MeasuredPair
        For ``measured``, one a device.
    tensor_parallel : int
        Devices of a kind that share the models.
    overheads : EngineOverheads or None
        What an engine spends beside the passes; nothing is added without one.

    Raises
    ------
    ValueError
        If there is no hardware, a batch or context is not a whole number of at least 1, or measured steps are missing.
    BadInput
        If the method needs a draft model and there is none.
    """

    hardware: tuple[HardwareProfile, ...]
    target: ModelSpec
    draft: ModelSpec | None
    candidates: DraftCandidates
    batches: tuple[int, ...]
    contexts: tuple[int, ...]
    precision: str = "bf16"
    draft_precision: str = "bf16"
    method: MethodName = "draft_model"
    step_time: StepTimeKind = "calibrated"
    backend: str | None = None
    measured_steps: tuple[MeasuredPair, ...] = ()
    tensor_parallel: int = 1
    overheads: EngineOverheads | None = None

    def __post_init__(self) -> None:
        if not self.hardware:
            raise ValueError("hardware must name at least one device")
        for name in ("batches", "contexts"):
            if not check_counts(name, getattr(self, name), minimum=1).size:
                raise ValueError(f"{name} must not be empty")
        check_counts("tensor_parallel", self.tensor_parallel, minimum=1)
        if self.method == "draft_model" and self.draft is None:
            raise BadInput("no draft model is named", field="draft", value=None, remedy="name one with --draft")
        trees = any(n > k for n, k in zip(self.candidates.drafted_tokens, self.candidates.draft_lengths, strict=True))
        if self.method == "lookahead" and trees:
            remedy = "cost these trees by another --method"
            raise BadInput("lookahead drafts runs, no trees", field="method", value=self.method, remedy=remedy)
        if self.step_time == "measured" and len(self.measured_steps) != len(self.hardware):
            raise ValueError("measured_steps must hold one pair for each device")

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Lengths of the axes hardware, draft, batch, context."""
        return len(self.hardware), len(self.candidates.draft_lengths), len(self.batches), len(self.contexts)

    @property
    def drafter_name(self) -> str:
        """The draft model, or the method where it has none."""
        return self.draft.name if self.method == "draft_model" and self.draft is not None else self.method


@dataclass(frozen=True, kw_only=True)
class GridArrays:
    """The projection as arrays that broadcast to (n_hardware, n_drafts, n_batches, n_contexts)."""

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


def axis(values: Any, position: int) -> Floats:
    """Values along one of the four axes of a grid.

    Examples
    --------
    >>> axis([1, 2], 1).shape
    (1, 2, 1, 1)
    """
    shape = [1, 1, 1, 1]
    shape[position] = -1
    return np.asarray(values, dtype=np.float64).reshape(shape)


def draft_axes(config: GridConfig) -> tuple[Floats, Floats]:
    """Draft passes and drafted tokens of each draft, (1, n_drafts, n_batches or 1, 1).

    Examples
    --------
    >>> [values.ravel().tolist() for values in draft_axes(example_grid())]
    [[0.0, 1.0, 2.0, 4.0], [0.0, 1.0, 2.0, 4.0]]
    """
    candidates = config.candidates
    if candidates.dynamic is None:
        return axis(candidates.draft_lengths, 1), axis(candidates.drafted_tokens, 1)
    return candidates.draft_passes(config.batches)[None, :, :, None], axis(candidates.verified_drafts, 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class _PerDevice:
    """Step times of several devices, side by side along the first axis."""

    steps: tuple[StepTime, ...]
    kind: str = "measured"
    overhead_s: float = 0.0

    def __call__(self, tokens: Any, batch: Any, context: Any, xp: Any = np) -> Any:
        try:
            return np.concatenate([np.atleast_1d(step(tokens, batch, context, xp)) for step in self.steps])
        except ValueError as error:  # the choice of what to project reaches beyond somebody's table
            remedy = "measure it, name smaller trees with --tree-nodes, or take calibrated step times"
            raise BadInput(str(error), field="step_time", value=self.kind, remedy=remedy) from None


def _roofline(config: GridConfig, cost: StepCost, precision_name: str) -> StepTime:
    if config.step_time == "calibrated":
        rates = stacked_rates(config.hardware, precision_name, config.backend)
        return CalibratedRoofline(cost=cost, rates=rates)
    each = [device_rates(profile, precision_name) for profile in config.hardware]
    device = DeviceRates(
        flops_per_s=axis([rates.flops_per_s for rates in each], 0),
        bandwidth_bytes_per_s=axis([rates.bandwidth_bytes_per_s for rates in each], 0),
        overhead_s=axis([rates.overhead_s for rates in each], 0),
    )
    return DoctrineRoofline(cost=cost, device=device)


def _measured(config: GridConfig) -> tuple[StepTime, StepTime | None]:
    drafts = [pair.draft for pair in config.measured_steps if pair.draft is not None]
    draft = _PerDevice(steps=tuple(drafts)) if len(drafts) == len(config.hardware) else None
    return _PerDevice(steps=tuple(pair.target for pair in config.measured_steps)), draft


def drafting_pair(config: GridConfig) -> DraftingPair:
    """Step times and sizes of target and drafter, each device along the first axis.

    Raises
    ------
    ValueError
        If a drafter with weights has no measured steps where they are asked for.

    Examples
    --------
    >>> drafting_pair(example_grid()).target.kind
    'calibrated'
    """
    share = config.tensor_parallel
    cost = step_cost(config.target, config.precision, tensor_parallel=share)
    draft_cost = drafter_cost(config.method, config.target, config.draft, config.draft_precision, share)
    if config.step_time == "measured":
        target, draft = _measured(config)
    else:
        target = engine_step(config.overheads, _roofline(config, cost, config.precision))
        draft = None if draft_cost is None else _roofline(config, draft_cost, config.draft_precision)
    n_heads = max(config.candidates.draft_lengths)
    own = drafter_weight_bytes(config.method, config.target, config.draft, config.draft_precision, n_heads)
    return DraftingPair(
        target=target,
        drafter=engine_drafter(config.overheads, drafter_of(config.method, draft)),
        target_weight_bytes=config.target.weight_bytes(config.precision) / share,
        draft_weight_bytes=own / share,
        target_kv_bytes_per_token=cost.kv_bytes_per_token,
        draft_kv_bytes_per_token=0.0 if draft_cost is None else draft_cost.kv_bytes_per_token,
    )


def evaluate_grid(config: GridConfig) -> GridArrays:
    """Evaluate every configuration at once.

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
    depth, n_nodes = draft_axes(config)
    tokens = axis(config.candidates.expected_tokens, 1)
    batch, context = axis(config.batches, 2), axis(config.contexts, 3)
    pair = drafting_pair(config)
    times = round_times(depth, n_nodes, batch, context, tokens, pair)
    memory = axis([profile.memory_bytes.value for profile in config.hardware], 0)
    return GridArrays(
        draft_s=times.draft_s,
        verify_s=times.verify_s,
        round_s=times.round_s,
        baseline_tpot_s=times.baseline_tpot_s,
        tpot_s=times.tpot_s,
        expected_tokens=tokens,
        speedup=times.speedup,
        throughput_tokens_per_s=batch / times.tpot_s,
        kv_bytes=kv_bytes(depth, batch, context, pair),
        is_compute_bound=is_compute_bound(pair, n_nodes, batch, context),
        fits_memory=memory_bytes(depth, batch, context, pair) <= memory,
    )


def is_compute_bound(pair: DraftingPair, n_nodes: Any, batch: Any, context: Any) -> Any:
    """Whether the verify pass is bound by arithmetic; None for measured times, which do not say."""
    target = pair.target.step if isinstance(pair.target, EngineStep) else pair.target
    if not isinstance(target, CalibratedRoofline | DoctrineRoofline):
        return None
    return target.is_compute_bound(pair.drafter.verify_width(n_nodes), batch, context)


def project(config: GridConfig) -> pl.DataFrame:
    """The grid as a table, one row a configuration.

    Parameters
    ----------
    config : GridConfig

    Returns
    -------
    polars.DataFrame
        Columns :data:`COLUMNS`; seconds, bytes and tokens as their names say, ``speedup`` dimensionless.
        ``draft_s`` is the drafting of a whole round. ``viable``: the weights and the KV cache fit, and drafting is
        faster than not drafting; a row with ``draft_length`` 0 needs only to fit. ``tree_nodes`` is null for a chain,
        ``regime`` for measured times. ``speedup_low`` and ``speedup_high`` carry the 95 % interval of the acceptance
        evidence and nothing else; null where it has none.

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

    candidates = config.candidates
    lengths = column(np.asarray(candidates.draft_lengths, dtype=np.int64).reshape(1, -1, 1, 1))
    fits, gain = column(arrays.fits_memory), column(arrays.speedup)
    low, high = (axis([end[side] if end else np.nan for end in candidates.intervals], 1) for side in (0, 1))
    per_token = arrays.speedup / arrays.expected_tokens
    frame = pl.DataFrame(
        {
            "hardware": label([profile.name for profile in config.hardware], 0),
            "draft_length": lengths,
            "tree_nodes": label(pl.Series(_tree_nodes(candidates), dtype=pl.Int64), 1),
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
            "regime": _regimes(arrays, column),
            "viable": fits & ((gain > 1.0) | (lengths == 0)),
            "fits_memory": fits,
            "acceptance_assumption": label(list(candidates.assumptions), 1),
            "speedup_low": column(per_token * low),
            "speedup_high": column(per_token * high),
            "step_time_source": label(step_time_sources(config), 0),
        }
    )
    texts = {
        "target": config.target.name,
        "drafter": config.drafter_name,
        "method": candidates.method,
        "precision": config.precision,
        "step_time_kind": config.step_time,
        "draft_precision": config.draft_precision,
        "measured_target": candidates.target,
        "measured_drafter": candidates.drafter,
        "domain": candidates.domain,
    }
    return frame.with_columns(
        *(pl.lit(text, dtype=pl.String).alias(name) for name, text in texts.items()),
        pl.lit(candidates.temperature, dtype=pl.Float64).alias("temperature"),
        pl.lit(config.tensor_parallel, dtype=pl.Int64).alias("n_devices"),
        pl.col("speedup_low", "speedup_high").fill_nan(None),
    ).select(COLUMNS)


def _tree_nodes(candidates: DraftCandidates) -> list[int | None]:
    pairs = zip(candidates.draft_lengths, candidates.drafted_tokens, strict=True)
    return [n_nodes if n_nodes > depth else None for depth, n_nodes in pairs]


def _regimes(arrays: GridArrays, column: Any) -> pl.Series:
    if arrays.is_compute_bound is None:
        return pl.Series([None] * column(0).size, dtype=pl.String)
    names = pl.Series(["memory", "compute"])
    return names.gather(column(arrays.is_compute_bound).astype(np.uint32))


def step_time_sources(config: GridConfig) -> list[str]:
    """Where each device's step times come from, in a few words.

    Examples
    --------
    >>> step_time_sources(example_grid())
    ['fitted to published tables']
    """
    engine = "" if config.overheads is None else f"; {config.overheads.label}"
    if config.step_time == "calibrated":
        return [f"{calibration_label(profile, config.backend)}{engine}" for profile in config.hardware]
    text = "measured passes" if config.step_time == "measured" else "ideal bound"
    return [f"{text}{engine}"] * len(config.hardware)


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
