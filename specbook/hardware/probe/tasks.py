"""The tasks of a probe: what is prepared once, what is timed together, and how long that should take."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from specbook.hardware.probe.backend import ARRAYS_MOVED, Backend, Calls, Work, seconds_of
from specbook.hardware.probe.cases import (
    CALL,
    MATMUL,
    AttentionCase,
    Case,
    PassCase,
    ProductCase,
    StreamCase,
)
from specbook.hardware.probe.models import SCRATCH_MODELS, Weights
from specbook.hardware.probe.plan import ProbePlan, cache_values
from specbook.hardware.probe.schedule import Task

# Widths that decide what speculation costs: a step, and a verify pass of four drafts.
_FIRST_WIDTHS = (1, 5)

# Less than twice the cache may still be in it when it is read again.
_CACHES = 2

# First calls are expected to be slow: a task that is wrongly thought short may break the budget, the other way round
# it is measured a round later.
_CAUTION = 3.0
_SOFTMAX_FLOPS = 200
_CALLS_EACH = 20

_PASSES_IN_A_ROW = 4

# Bandwidth is the figure that most others are read by.
_GENERAL_REPEATS = 3

# Weights are drawn, scaled, laid out and written: so many times the time of reading them.
_PREPARING = 40.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Rates:
    """What the first seconds showed, to expect the rest by."""

    bytes_per_s: float
    flops_per_s: float
    call_s: float

    def preparing(self, n_bytes: float) -> float:
        """Making weights of so many bytes."""
        return _PREPARING * n_bytes / self.bytes_per_s

    def seconds(self, n_bytes: float, n_flops: float, n_calls: int = 1) -> float:
        """A cautious expectation."""
        time_s = n_bytes / self.bytes_per_s + n_flops / self.flops_per_s + _CALLS_EACH * n_calls * self.call_s
        return _CAUTION * time_s


class Bench:
    """What all tasks share: a backend with its arrays and its cache filled.

    Parameters
    ----------
    backend : Backend
    plan : ProbePlan
        Its arrays become as large as the backend makes them.

    Attributes
    ----------
    kernels : dict of case to Calls
        The bandwidth kernels.
    general : dict of case to Calls
        These, the large product and the call of no size.
    """

    def __init__(self, backend: Backend, plan: ProbePlan) -> None:
        stream = backend.stream(plan.array_bytes)
        self.backend, self.plan = backend, replace(plan, array_bytes=stream.array_bytes)
        self.kernels = {StreamCase(name): calls for name, calls in stream.kernels.items()}
        single: dict[Case, Calls] = {MATMUL: backend.square_product(plan.square_size), CALL: backend.tiny_product()}
        self.general: dict[Case, Calls] = {**dict(self.kernels.items()), **single}
        backend.fill_cache(plan.kv_values)

    def empty_cache(self) -> None:
        """Read an array that no cache holds."""
        self.kernels[StreamCase("read")].work()

    def may_stay_cached(self, n_bytes: float) -> bool:
        """Whether so many bytes may still be in the cache when they are read again."""
        return n_bytes < _CACHES * self.plan.cache_bytes


class Tasks:
    """Builds the tasks of a plan.

    Parameters
    ----------
    bench : Bench
    rates : Rates
    rng : numpy.random.Generator
        Of the order within a task.
    """

    def __init__(self, bench: Bench, rates: Rates, rng: np.random.Generator) -> None:
        self.bench, self.backend, self.plan, self.rates, self._rng = bench, bench.backend, bench.plan, rates, rng
        self._products: dict[tuple[str, Weights], Callable[[int], Calls]] = {}
        self._models: dict[tuple[str, str], Callable[[int, int, int], Work]] = {}

    def all(self) -> list[Task]:
        """Every task of the plan."""
        return [self.general(), *self.products(), *self.attention(), *self.passes()]

    def general(self) -> Task:
        """Bandwidth, the large product and the call of no size."""
        n_flops = 2.0 * self.plan.square_size**3 * self.bench.general[MATMUL].n_calls
        time_s = self._stream_s() + self.rates.seconds(0.0, n_flops, self.bench.general[CALL].n_calls // _CALLS_EACH)
        return Task(
            name="bandwidth and rates",
            tier=0,
            expected_s=lambda: time_s,
            measure=lambda: self._timed(self.bench.general),
            repeats=_GENERAL_REPEATS,
        )

    def _stream_s(self) -> float:
        n_arrays = sum(ARRAYS_MOVED[case.kernel] * calls.n_calls for case, calls in self.bench.kernels.items())
        return self.rates.seconds(n_arrays * self.plan.array_bytes, 0.0)

    def _timed(self, cycle: Mapping[Case, Calls]) -> dict[Case, float]:
        """Seconds of each, in shuffled order."""
        cases = list(cycle)
        return {cases[i]: seconds_of(self.backend, cycle[cases[i]]) for i in self._rng.permutation(len(cases))}

    def products(self) -> list[Task]:
        """One task for each arithmetic and number of rows: a product with every matrix of the plan.

        Matrices that no cache holds have a task of their own, so that the others can be measured more often.
        """
        groups: dict[tuple[str, int, bool], list[ProductCase]] = defaultdict(list)
        for case in self.plan.products:
            is_large = self.backend.product_bytes(case.arithmetic, case.weights) > _CACHES * self.plan.cache_bytes
            groups[case.arithmetic, case.rows, is_large].append(case)
        return [self._product_task(cases) for cases in groups.values()]

    def _product_task(self, cases: list[ProductCase]) -> Task:
        arithmetic, rows = cases[0].arithmetic, cases[0].rows
        n_values = sum(case.weights.n_values for case in cases)
        n_bytes = sum(self.backend.product_bytes(arithmetic, case.weights) for case in cases)
        time_s = self.rates.seconds(n_bytes, 2.0 * rows * n_values, len(cases))
        time_s += self._stream_s() if self.bench.may_stay_cached(n_bytes) else 0.0

        def expected_s() -> float:
            known = (arithmetic, cases[0].weights) in self._products
            return time_s if known else time_s + self.rates.preparing(n_bytes)

        only = f"{cases[0].weights.n_out} × {cases[0].weights.n_in}, " if len(cases) == 1 else ""
        return Task(
            name=f"products, {only}{arithmetic}, {rows} rows",
            tier=1 if rows in _FIRST_WIDTHS else 2,
            expected_s=expected_s,
            measure=lambda: self._product_cycle(cases, n_bytes),
        )

    def _product_cycle(self, cases: list[ProductCase], n_bytes: int) -> dict[Case, float]:
        """Each matrix once, as a decode pass goes through its weights.

        Together the matrices are larger than the last-level cache, so that each has left it when its turn comes
        again: what is timed reads weights from memory, with the code that does it as warm as in a pass. Where they are
        not larger, reading a bandwidth array first empties the cache.
        """
        cycle: dict[Case, Calls] = {case: self._product(case)(case.rows) for case in cases}
        if self.bench.may_stay_cached(n_bytes):
            self.bench.empty_cache()
        return self._timed(cycle)

    def _product(self, case: ProductCase) -> Callable[[int], Calls]:
        key = (case.arithmetic, case.weights)
        if key not in self._products:
            self._products[key] = self.backend.product(*key)
        return self._products[key]

    def attention(self) -> list[Task]:
        """One task for each case."""
        return [self._attention_task(case) for case in self.plan.attention]

    def _attention_task(self, case: AttentionCase) -> Task:
        def measure() -> dict[Case, float]:
            calls = self.backend.attention(case.arithmetic, case.batch, case.context, case.rows)
            return {case: seconds_of(self.backend, calls)}

        return Task(
            name=f"attention, {case.arithmetic}, batch {case.batch} × context {case.context:,}, {case.rows} rows",
            tier=2 if case.rows in _FIRST_WIDTHS else 3,
            expected_s=lambda: self._attention_s(case.batch, case.context, case.rows),
            measure=measure,
        )

    def _attention_s(self, batch: int, context: int, rows: int) -> float:
        """As if every row read the whole cache, which by-row attention does."""
        heads, cells = self.backend.heads, float(batch * context * rows)
        n_bytes = 2.0 * cells * heads.kv_values_per_token * self.backend.kv_value_bytes
        n_flops = cells * heads.n_heads * (4 * heads.head_size + _SOFTMAX_FLOPS)
        return self.rates.seconds(n_bytes, n_flops, batch * rows)

    def passes(self) -> list[Task]:
        """One task for each case."""
        return [self._pass_task(case) for case in self.plan.passes]

    def _pass_task(self, case: PassCase) -> Task:
        spec = SCRATCH_MODELS[case.model]
        weights_bytes = spec.n_parameters * self.backend.weight_bytes(case.arithmetic)
        kv_bytes = 2 * cache_values(spec, case.batch, case.context) * self.backend.kv_value_bytes
        small = self.bench.may_stay_cached(weights_bytes + kv_bytes)
        time_s = self.rates.seconds(weights_bytes, 2.0 * spec.n_parameters * case.batch * case.width, 50)
        time_s += spec.n_layers * self._attention_s(case.batch, case.context, case.width)

        def expected_s() -> float:
            known = (case.model, case.arithmetic) in self._models
            return time_s if known else time_s + self.rates.preparing(weights_bytes)

        def measure() -> dict[Case, float]:
            work = self._model(case)(case.batch, case.context, case.width)
            return {case: seconds_of(self.backend, _in_a_row(work) if small else Calls(work=work))}

        return Task(
            name=f"{case.model}, {case.arithmetic}, batch {case.batch} × context {case.context:,}, width {case.width}",
            tier=1 if case.width in _FIRST_WIDTHS else 2,
            expected_s=expected_s,
            measure=measure,
        )

    def _model(self, case: PassCase) -> Callable[[int, int, int], Work]:
        key = (case.model, case.arithmetic)
        if key not in self._models:
            self._models[key] = self.backend.model(*key)
        return self._models[key]


def _in_a_row(work: Work) -> Calls:
    """Several passes, after one that is not counted.

    Decoding runs a small model again and again, so that it stays in the cache; other tasks have emptied it.
    """
    work()
    return Calls(work=lambda: [work() for _ in range(_PASSES_IN_A_ROW)], n_calls=_PASSES_IN_A_ROW)
