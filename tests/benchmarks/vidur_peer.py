"""Run Vidur's own event loop on a trace, with an affine iteration time in place of its trained predictors.

To be run by a Python 3.11 that has ``vidur==0.0.26``; it needs nothing of ours, nor Vidur's data. Prints requests,
iterations, and seconds of the event loop alone. Vidur neither keeps metrics nor looks predictions up here: both would
add to its seconds.
"""

from __future__ import annotations

import argparse
import csv
import logging
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


class AffinePredictor:
    """Stands where Vidur's predictor of execution times does, and counts the batches.

    Milliseconds are those of :class:`specbook.serving.iteration_time.AffineIterationTime`, operation by operation.
    """

    def __init__(self, c0_ms: float, c1_ms: float, c2_ms: float, c3_ms: float) -> None:
        from vidur._native.entities import ExecutionTime  # type: ignore[import-not-found]

        self._execution_time = ExecutionTime
        self._coefficients_ms = (c0_ms, c1_ms, c2_ms, c3_ms)
        self.n_batches = 0

    def get_execution_time(self, batch: Any, _: int) -> Any:
        """Vidur's entity for a time, with all of it in one layer and one of its parts."""
        self.n_batches += 1
        c0, c1, c2, c3 = self._coefficients_ms
        context, pairs = _context_and_pairs(batch)
        milliseconds = c0 + c1 * batch.total_num_q_tokens + c2 * context + c3 * pairs / 2
        return self._execution_time(1, 0, 0, milliseconds, *[0] * 11)


def _context_and_pairs(batch: Any) -> tuple[int, int]:
    if batch.num_prefill_tokens == 0:
        return batch.total_num_kv_tokens - batch.size, 0
    context = pairs = 0
    for request, new, seen in zip(batch.requests, batch.num_q_tokens, batch.num_kv_tokens, strict=True):
        if request.is_prefill_complete:
            context += seen - new
        else:
            pairs += new * (2 * (seen - new) + new)
    return context, pairs


class GivenRequests:
    """Stands where Vidur's generator does that replays a trace, which would scale and cut it."""

    def __init__(self, path: Path) -> None:
        from vidur.entities import Request  # type: ignore[import-not-found]

        with path.open(encoding="utf-8", newline="") as stream:
            self.requests = [
                Request(float(row["arrived_at"]), int(row["num_prefill_tokens"]), int(row["num_decode_tokens"]))
                for row in csv.DictReader(stream)
            ]

    def generate(self) -> list[Any]:
        """All requests, in the order of arrival."""
        return self.requests


def _replace(registry: Any, settings: Any, make: Callable[..., Any]) -> None:
    registry.unregister(settings.get_type())
    registry.register(settings.get_type(), make)


def _simulator(options: argparse.Namespace, given: GivenRequests, affine: AffinePredictor, folder: str) -> Any:
    """Vidur's simulator of one replica, whose model and device are defaults that nothing depends on any more."""
    from vidur import config  # type: ignore[import-not-found]
    from vidur.execution_time_predictor import ExecutionTimePredictorRegistry  # type: ignore[import-not-found]
    from vidur.request_generator import RequestGeneratorRegistry  # type: ignore[import-not-found]
    from vidur.simulator import Simulator  # type: ignore[import-not-found]

    predictor, generator = config.RandomForrestExecutionTimePredictorConfig(), config.TraceRequestGeneratorConfig()
    _replace(ExecutionTimePredictorRegistry, predictor, lambda **_: affine)
    _replace(RequestGeneratorRegistry, generator, lambda _: given)
    cluster = config.ClusterConfig(
        replica_config=config.ReplicaConfig(num_pipeline_stages=1, tensor_parallel_size=1),
        cache_config=config.CacheConfig(num_blocks=options.blocks),
        replica_scheduler_config=config.SarathiSchedulerConfig(batch_size_cap=options.cap, chunk_size=options.chunk),
    )
    own = {"request_generator_config": generator, "execution_time_predictor_config": predictor}
    metrics = config.MetricsConfig(write_metrics=False, enable_chrome_trace=False, store_plots=False, output_dir=folder)
    return Simulator(config.SimulationConfig(cluster_config=cluster, metrics_config=metrics, **own))


def main() -> None:
    """Simulate, and print one line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path, help="CSV with arrived_at, num_prefill_tokens, num_decode_tokens")
    parser.add_argument("--affine-ms", type=float, nargs=4, required=True, metavar=("C0", "C1", "C2", "C3"))
    for name in ("cap", "chunk", "blocks"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--ends", type=Path, help="gets the second at which each request ended, one a line")
    options = parser.parse_args()
    logging.disable(logging.INFO)  # Vidur's would go to the standard output
    given, affine = GivenRequests(options.trace), AffinePredictor(*options.affine_ms)
    with tempfile.TemporaryDirectory() as folder:
        simulator = _simulator(options, given, affine, folder)
        start = time.perf_counter()
        simulator.run()
        seconds = time.perf_counter() - start
    if options.ends is not None:
        options.ends.write_text("".join(f"{each.completed_at!r}\n" for each in given.requests))
    sys.stdout.write(f"{len(given.requests)} {affine.n_batches} {seconds}\n")


if __name__ == "__main__":
    main()
