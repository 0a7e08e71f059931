"""What a probe measures: as much as the time allows, and no more than fits in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from specbook.checks import BadInput
from specbook.engine.transformer_spec import TransformerSpec
from specbook.hardware.probe.backend import Backend
from specbook.hardware.probe.cases import AttentionCase, PassCase, ProductCase
from specbook.hardware.probe.extent import Extent, extent
from specbook.hardware.probe.models import (
    DIALLED,
    DRAFT,
    ROOM_TOKENS,
    SCRATCH_MODELS,
    SMOLLM_HEAD,
    SMOLLM_LAYER,
    TARGET,
    Weights,
    engine_weights,
)

LEAST_BUDGET_S, MOST_BUDGET_S = 5.0, 3600.0

# Assumed where the machine does not say how large its last-level cache is.
ASSUMED_CACHE_BYTES = 32 * 2**20

_LEAST_ARRAY_BYTES, _ARRAYS_PER_CACHE = 64 * 2**20, 4
_SMALLEST_ARRAY_BYTES = 2 * 2**20

# All passes over the arrays together take a third of the time on memory of 10 GB/s.
_ARRAY_BYTES_PER_S = 37_500_000

_SHARE_OF_FREE_MEMORY = 0.5
_TEMPORARIES_BYTES = 64 * 2**20

# Beyond so many cached tokens, passes and attention are measured at these widths alone: each takes up to seconds.
_MANY_TOKENS, _FEW_WIDTHS = 65536, (1, 5)


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbePlan:
    """What is measured, and the memory for it.

    Attributes
    ----------
    array_bytes : int
        Each of the three arrays of the bandwidth kernels.
    square_size : int
        Side of the large product.
    products, attention, passes : tuple of cases
    kv_values : int
        Keys set aside for attention and passes; as many values.
    scratch_bytes : int
        All of it at once.
    cache_bytes : int
        The last-level cache, or what is assumed for it.
    warnings : tuple of str
        What is smaller than it should be, and why.
    """

    array_bytes: int
    square_size: int
    products: tuple[ProductCase, ...]
    attention: tuple[AttentionCase, ...]
    passes: tuple[PassCase, ...]
    kv_values: int
    scratch_bytes: int
    cache_bytes: int
    warnings: tuple[str, ...]


def plan_probe(budget_s: float, backend: Backend) -> ProbePlan:
    """Plan a probe.

    Parameters
    ----------
    budget_s : float
        Wall time for everything.
    backend : Backend
        Half of its free memory is used at most.

    Raises
    ------
    BadInput
        If the budget is none, or the smallest plan does not fit in memory.

    Examples
    --------
    >>> from specbook.hardware.probe.numpy_backend import NumpyBackend
    >>> plan = plan_probe(5.0, NumpyBackend())
    >>> {case.context for case in plan.passes} <= {512, 4096}
    True
    """
    if not LEAST_BUDGET_S <= budget_s <= MOST_BUDGET_S:
        remedy = f"give {LEAST_BUDGET_S:g} to {MOST_BUDGET_S:g} seconds"
        raise BadInput("is no time to probe a machine in", field="--seconds", value=budget_s, remedy=remedy)
    wanted = _unlimited(budget_s, backend)
    free_bytes = backend.free_memory_bytes()
    found = _fitting(wanted, backend, int(free_bytes * _SHARE_OF_FREE_MEMORY))
    return replace(found, warnings=_warnings(wanted, found, backend, free_bytes))


def _unlimited(budget_s: float, backend: Backend) -> ProbePlan:
    """The plan for a machine with enough memory."""
    chosen = extent(budget_s)
    cache_bytes = backend.facts.last_level_cache_bytes or ASSUMED_CACHE_BYTES
    array_bytes = max(_ARRAYS_PER_CACHE * cache_bytes, _LEAST_ARRAY_BYTES)
    plan = ProbePlan(
        array_bytes=min(array_bytes, int(_ARRAY_BYTES_PER_S * budget_s)),
        square_size=chosen.square_size * backend.square_factor,
        products=tuple(_products(chosen, backend)),
        attention=tuple(_attention(chosen, backend)),
        passes=tuple(_passes(chosen, backend)),
        kv_values=0,
        scratch_bytes=0,
        cache_bytes=cache_bytes,
        warnings=(),
    )
    return _sized(plan, backend)


def _products(chosen: Extent, backend: Backend) -> list[ProductCase]:
    weights = [*engine_weights(), *SMOLLM_LAYER, *([SMOLLM_HEAD] if chosen.with_smollm_head else [])]
    return [
        ProductCase(arithmetic=arithmetic, weights=matrix, rows=rows)
        for arithmetic in backend.product_arithmetics
        for matrix in [*weights, *backend.further_weights]
        for rows in chosen.rows
    ]


def _widths(widths: Sequence[int], batch: int, context: int) -> list[int]:
    return [width for width in widths if batch * context <= _MANY_TOKENS or width in _FEW_WIDTHS]


def _attention(chosen: Extent, backend: Backend) -> list[AttentionCase]:
    return [
        AttentionCase(arithmetic=arithmetic, batch=batch, context=context, rows=rows)
        for arithmetic in backend.pass_arithmetics[: chosen.n_pass_arithmetics]
        for context in chosen.attention_contexts
        for batch in chosen.batches
        for rows in _widths(chosen.widths, batch, context)
    ]


def _passes(chosen: Extent, backend: Backend) -> list[PassCase]:
    batches = {DIALLED: chosen.batches, TARGET: (1,), DRAFT: chosen.batches}
    return [
        PassCase(model=model, arithmetic=arithmetic, batch=batch, context=context, width=width)
        for model, its_batches in batches.items()
        for arithmetic in backend.pass_arithmetics[: chosen.n_pass_arithmetics]
        for context in chosen.contexts
        for batch in its_batches
        for width in chosen.widths  # a table of passes needs every cell, however long it takes
    ]


def cache_values(spec: TransformerSpec, batch: int, context: int) -> int:
    """Keys of a model's cache; as many values.

    Examples
    --------
    >>> cache_values(SCRATCH_MODELS["specbook-draft"], batch=1, context=496)
    65536
    """
    return spec.n_layers * spec.n_kv_heads * spec.head_size * batch * (context + ROOM_TOKENS)


def _sized(plan: ProbePlan, backend: Backend) -> ProbePlan:
    """The same plan with the memory that it takes."""
    for_passes = [cache_values(SCRATCH_MODELS[case.model], case.batch, case.context) for case in plan.passes]
    for_attention = [case.kv_values(backend.heads, ROOM_TOKENS) for case in plan.attention]
    kv_values = max([*for_passes, *for_attention])
    prepared = {(case.arithmetic, case.weights) for case in plan.products}
    models = {(case.arithmetic, case.model) for case in plan.passes}
    products_bytes = sum(backend.product_bytes(*product) for product in prepared)
    sizes = {model: SCRATCH_MODELS[model].n_parameters for _, model in models}
    models_bytes = sum(sizes[model] * backend.weight_bytes(arithmetic) for arithmetic, model in models)
    preparing_bytes = 8 * max([*sizes.values(), *(weights.n_values for _, weights in prepared)])
    total = 3 * plan.array_bytes + 12 * plan.square_size**2 + products_bytes + models_bytes + preparing_bytes
    total += 2 * kv_values * backend.kv_value_bytes + _TEMPORARIES_BYTES
    return replace(plan, kv_values=kv_values, scratch_bytes=total)


def _fitting(plan: ProbePlan, backend: Backend, limit_bytes: int) -> ProbePlan:
    """The plan without its largest cells of batch × context, then weights, then models; last, with smaller arrays."""
    while plan.scratch_bytes > limit_bytes:
        smaller = next((found for reduce in _REDUCTIONS if (found := reduce(plan)) is not None), None)
        if smaller is None:
            problem = f"leaves {limit_bytes / 1e6:,.0f} MB for a probe, which takes {plan.scratch_bytes / 1e6:,.0f} MB"
            raise BadInput(problem, field="memory", remedy="close other programs, or probe a larger machine")
        plan = _sized(smaller, backend)
    return plan


def _cells(plan: ProbePlan) -> set[tuple[int, int]]:
    attention = {(case.batch, case.context) for case in plan.attention}
    return attention | {(case.batch, case.context) for case in plan.passes}


def _without_largest_cell(plan: ProbePlan) -> ProbePlan | None:
    cells = _cells(plan)
    if len(cells) == 1:
        return None
    largest = max(cells, key=lambda cell: (cell[0] * cell[1], cell))
    return replace(
        plan,
        attention=tuple(case for case in plan.attention if (case.batch, case.context) != largest),
        passes=tuple(case for case in plan.passes if (case.batch, case.context) != largest),
    )


def _matrices(plan: ProbePlan) -> set[Weights]:
    return {case.weights for case in plan.products}


_SMALL_WEIGHTS = 2**20


def _without_largest_weights(plan: ProbePlan) -> ProbePlan | None:
    largest = max(_matrices(plan), key=lambda weights: weights.n_values)
    if largest.n_values <= _SMALL_WEIGHTS:
        return None
    return replace(plan, products=tuple(case for case in plan.products if case.weights != largest))


def _models(plan: ProbePlan) -> list[str]:
    return list(dict.fromkeys(case.model for case in plan.passes))


def _without_largest_model(plan: ProbePlan) -> ProbePlan | None:
    largest, *others = sorted(_models(plan), key=lambda model: -SCRATCH_MODELS[model].n_parameters)
    if not others:
        return None
    return replace(plan, passes=tuple(case for case in plan.passes if case.model != largest))


def _with_smaller_arrays(plan: ProbePlan) -> ProbePlan | None:
    half = plan.array_bytes // 2
    return None if half < _SMALLEST_ARRAY_BYTES else replace(plan, array_bytes=half)


_REDUCTIONS = (_without_largest_cell, _without_largest_weights, _without_largest_model, _with_smaller_arrays)


def _warnings(wanted: ProbePlan, found: ProbePlan, backend: Backend, free_bytes: int) -> tuple[str, ...]:
    """What is smaller than it should be, a line each."""
    lines = []
    if not backend.facts.last_level_cache_bytes:
        lines.append(f"the machine does not state its last-level cache; {_mib(found.cache_bytes)} assumed")
    if found.scratch_bytes < wanted.scratch_bytes:
        sizes = f"{found.scratch_bytes / 1e6:,.0f} MB of scratch instead of {wanted.scratch_bytes / 1e6:,.0f} MB"
        lines.append(f"memory: {free_bytes / 1e6:,.0f} MB free, so {sizes}")
    if cells := sorted(_cells(wanted) - _cells(found)):
        names = ", ".join(f"batch {batch} × context {context:,}" for batch, context in cells)
        lines.append(f"left out for want of memory: {names}")
    if matrices := sorted(_matrices(wanted) - _matrices(found)):
        names = ", ".join(f"{weights.n_out} × {weights.n_in}" for weights in matrices)
        lines.append(f"left out for want of memory: products with weights {names}")
    if models := [model for model in _models(wanted) if model not in _models(found)]:
        lines.append(f"left out for want of memory: passes of {', '.join(models)}")
    if found.array_bytes < _ARRAYS_PER_CACHE * found.cache_bytes:
        sizes = f"{_mib(found.array_bytes)} each, the last-level cache {_mib(found.cache_bytes)}"
        lines.append(f"bandwidth may be partly the cache's: arrays of {sizes}")
    return tuple(lines)


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:,.0f} MiB"
