"""What a run leaves behind: a row per request and iteration, gaps between tokens, and what was drafted in vain."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

from specbook.checks import Floats
from specbook.serving.decode_path import Integers
from specbook.serving.iteration_log import IterationLog
from specbook.serving.latency_sketch import LatencySketch
from specbook.serving.live_request import LiveRequest
from specbook.serving.request_log import RequestLog
from specbook.serving.sketch_batches import SketchBatches

# Gaps that are counted together, and that a batch of the intervals is made of.
_GAPS = 1024


class Recorder:
    """Collects what the replicas of a run report.

    A request's tokens come out in bursts, one each round; the gap before a burst is what a client sees as inter-token
    latency. All but the first token of a burst come with no gap.

    Parameters
    ----------
    emit_requests, emit_iterations : callable
        Take frames as they fill up.

    Attributes
    ----------
    requests, iterations
        The logs.
    bursts, burst_batches
        Gaps between the bursts of each request: all of them, and batch by batch for intervals.
    tokens_in_bursts : int
        Tokens that came with them: all but first tokens.
    rejected_tokens : int
        Drafted and not accepted, or accepted and beyond the end of the output.
    rejected_slot_seconds : float
        Cache slots that such tokens held, times the iterations in which they did.
    """

    def __init__(
        self, emit_requests: Callable[[pl.DataFrame], None], emit_iterations: Callable[[pl.DataFrame], None]
    ) -> None:
        self.requests, self.iterations = RequestLog(emit_requests), IterationLog(emit_iterations)
        self.bursts, self.burst_batches = LatencySketch(), SketchBatches()
        self.tokens_in_bursts = self.rejected_tokens = 0
        self.rejected_slot_seconds = 0.0
        self._gaps: list[Floats] = []
        self._counts: list[int] = []
        self._steady_gaps: list[float] = []
        self._steady_counts: list[int] = []
        self._single_gaps: list[float] = []
        self._n_gaps = 0

    def ended(self, request: LiveRequest, end_s: float, replica: int) -> None:
        """Take a request that has ended."""
        self.requests.add(request, end_s, replica)

    def burst(self, gap_s: float) -> None:
        """Take a single token that follows another one of its request."""
        self.tokens_in_bursts += 1
        self._single_gaps.append(gap_s)

    def round(
        self,
        start_s: float,
        end_s: float,
        emitted: int,
        positions: int,
        n_decodes: int,
        last_emission_s: float,
        fresh: Sequence[LiveRequest],
    ) -> None:
        """Take one decode iteration; the parameters are those of :meth:`rounds`."""
        for request in fresh:
            self._single_gaps.append(end_s - request.last_emission_s)
        n_old = n_decodes - len(fresh)
        if n_old:
            self._steady_gaps.append(end_s - last_emission_s)
            self._steady_counts.append(n_old)
        self.tokens_in_bursts += emitted
        self.rejected_tokens += positions - emitted
        self.rejected_slot_seconds += (positions - emitted) * (end_s - start_s)

    def rounds(
        self,
        times_s: Floats,
        emitted: int,
        n_decodes: int,
        last_emission_s: float,
        fresh: Sequence[LiveRequest],
    ) -> None:
        """Take decode iterations of one set of requests, one after the other.

        Parameters
        ----------
        times_s : (n + 1,) ndarray of float64
            Start of each iteration, and end of the last.
        emitted : int
            Tokens of all requests and iterations.
        n_decodes : int
        last_emission_s : float
            When those that are not fresh emitted last.
        fresh : sequence of LiveRequest
            Requests that were not in the decode iteration before.
        """
        for request in fresh:
            self._single_gaps.append(float(times_s[1]) - request.last_emission_s)
        n_old = n_decodes - len(fresh)
        gaps_s = times_s[1:] - times_s[:-1]
        if n_old:
            self._steady_gaps.append(float(times_s[1]) - last_emission_s)
            self._steady_counts.append(n_old)
        self.tokens_in_bursts += emitted
        if gaps_s.size > 1:
            self._gaps.append(gaps_s[1:])
            self._counts.append(n_decodes)
            self._n_gaps += gaps_s.size
            if self._n_gaps >= _GAPS:
                self._flush()

    def rejected(self, rejected: Integers, times_s: Floats) -> None:
        """Take the tokens that decode iterations drafted in vain, (n,) ndarray; ``times_s`` as in :meth:`rounds`."""
        self.rejected_tokens += int(rejected.sum())
        self.rejected_slot_seconds += float(rejected @ (times_s[1:] - times_s[:-1]))

    def _flush(self) -> None:
        n_single = len(self._single_gaps)
        gaps_s = np.concatenate([*self._gaps, self._steady_gaps, self._single_gaps])
        sizes = [each.size for each in self._gaps]
        counts = np.concatenate(
            [np.repeat(self._counts, sizes).astype(np.int64), self._steady_counts, np.ones(n_single, dtype=np.int64)]
        ).astype(np.int64)
        if gaps_s.size:
            self.bursts.add(gaps_s, counts)
            self.burst_batches.add(gaps_s, counts)
        self._gaps, self._counts, self._n_gaps = [], [], 0
        self._steady_gaps, self._steady_counts, self._single_gaps = [], [], []

    def close(self) -> None:
        """Hand on what is left."""
        self._flush()
        self.requests.close()
        self.iterations.close()
