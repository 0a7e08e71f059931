"""What a run leaves behind: a row per request and iteration, gaps between tokens, and what was drafted in vain."""

from __future__ import annotations

from collections.abc import Callable, Collection

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
        Gaps between the bursts of each request: all of them, and batch by batch for intervals, with the number of
        tokens that came with no gap.
    tokens_in_bursts : int
        Tokens that came with them: all but first tokens.
    rejected_slot_seconds : float
        Cache slots of tokens that were drafted and not accepted, or accepted and beyond the end of the output, times
        the iterations in which they held them.
    """

    def __init__(
        self, emit_requests: Callable[[pl.DataFrame], None], emit_iterations: Callable[[pl.DataFrame], None]
    ) -> None:
        self.requests, self.iterations = RequestLog(emit_requests), IterationLog(emit_iterations)
        self.bursts, self.burst_batches = LatencySketch(), SketchBatches()
        self.tokens_in_bursts = 0
        self.rejected_slot_seconds = 0.0
        self._gaps: list[Floats] = []
        self._counts: list[int] = []
        self._first_gaps: list[tuple[float, int]] = []
        self._n_gaps = self._tokens_flushed = 0

    def ended(self, request: LiveRequest, end_s: float, replica: int) -> None:
        """Take a request that has ended."""
        self.requests.add(request, end_s, replica)

    def burst(self, gap_s: float) -> None:
        """Take a single token that follows another one of its request."""
        self.tokens_in_bursts += 1
        self._first_gaps.append((gap_s, 1))
        self._n_gaps += 1

    def round(
        self,
        start_s: float,
        end_s: float,
        emitted: int,
        positions: int,
        n_decodes: int,
        last_emission_s: float,
        fresh: Collection[LiveRequest],
    ) -> None:
        """Take one decode iteration; the parameters are those of :meth:`rounds`, and positions of its verify pass."""
        self.tokens_in_bursts += emitted
        self.rejected_slot_seconds += (positions - emitted) * (end_s - start_s)
        self._add_first_gaps(end_s, n_decodes, last_emission_s, fresh)

    def rounds(
        self,
        times_s: Floats,
        emitted: int,
        n_decodes: int,
        last_emission_s: float,
        fresh: Collection[LiveRequest],
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
        fresh : collection of LiveRequest
            Requests that were not in the decode iteration before.
        """
        self.tokens_in_bursts += emitted
        if times_s.size > 2:
            gaps_s = times_s[2:] - times_s[1:-1]
            self._gaps.append(gaps_s)
            self._counts.append(n_decodes)
            self._n_gaps += gaps_s.size
        self._add_first_gaps(float(times_s[1]), n_decodes, last_emission_s, fresh)

    def rejected(self, rejected: Integers, times_s: Floats) -> None:
        """Take the tokens that decode iterations drafted in vain, (n,) ndarray; ``times_s`` as in :meth:`rounds`."""
        self.rejected_slot_seconds += float((rejected * (times_s[1:] - times_s[:-1])).sum())

    def _add_first_gaps(
        self, end_s: float, n_decodes: int, last_emission_s: float, fresh: Collection[LiveRequest]
    ) -> None:
        """Add the gap before the first of some iterations, which those that joined have to themselves."""
        n_fresh = len(fresh)
        if n_fresh:
            self._first_gaps.extend([(end_s - request.last_emission_s, 1) for request in fresh])
        if n_decodes > n_fresh:
            self._first_gaps.append((end_s - last_emission_s, n_decodes - n_fresh))
        self._n_gaps += n_fresh + 1
        if self._n_gaps >= _GAPS:
            self._flush()

    def _flush(self) -> None:
        first = np.array(self._first_gaps).reshape(-1, 2)
        gaps_s = np.concatenate([*self._gaps, first[:, 0]])
        repeated = np.repeat(self._counts, [each.size for each in self._gaps])
        counts = np.concatenate([repeated, first[:, 1]]).astype(np.int64)
        if gaps_s.size:
            self.bursts.add(gaps_s, counts)
            n_without_gap = self.tokens_in_bursts - self._tokens_flushed - int(counts.sum())
            self.burst_batches.add(gaps_s, counts, n_without_gap)
        self._tokens_flushed = self.tokens_in_bursts
        self._gaps, self._counts, self._first_gaps, self._n_gaps = [], [], [], 0

    def close(self) -> None:
        """Hand on what is left."""
        self._flush()
        self.requests.close()
        self.iterations.close()
