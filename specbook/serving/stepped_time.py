"""Iteration times from any step time of the roofline: tabulated over the context once, then interpolated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specbook.checks import Floats
from specbook.roofline.step_time import StepTime
from specbook.serving.context_tables import ContextTables, by_distinct, check_context_range, context_nodes, evaluated


@dataclass(frozen=True, kw_only=True)
class SteppedTime:
    r"""Iterations by a step time of the roofline, doctrine, calibrated or measured; an ``IterationTime``.

    Attributes
    ----------
    step : StepTime
        Of the target.
    max_context_tokens : int
        The longest mean context of the decodes, and the longest context of a chunk.
    min_context_tokens : int
        The shortest mean context of the decodes, for measured times that begin above 0.
    prefill : StepTime, optional
        For the chunks of prompts, where ``step`` was measured at the few positions of a verify pass; ``step`` itself if
        left out.

    Raises
    ------
    ValueError
        If ``max_context_tokens`` is below ``min_context_tokens``, or one of them is no whole number.

    Notes
    -----
    Decodes of w positions each, at the mean context L of the b sequences, are one pass: ``T = step(w, b, L)``. Time is
    linear in the context of each sequence, but for bends, so that the mean stands for all of them.

    A pass with chunks in it reads the weights once for all of its N positions, and the keys and values of each sequence
    for that sequence alone. So the decodes cost their own pass, and the chunks add what more positions cost a pass
    without context, and attention: that of a chunk of k tokens behind d, whose mean context is d + k/2.

    .. math:: T = s(w, b, L) + [p(N, 1, 0) - p(bw, 1, 0)] + \sum [p(k, 1, d + k/2) - p(k, 1, 0)]

    Here p is the step time for prompts, ``prefill`` or else ``step``. Without decodes, ``p(N, 1, 0)`` and the
    attention remain. A chunk never makes an iteration shorter, as long as p rises with positions and context.

    What attention costs whatever the context, such as its launches for each sequence, counts for all decodes, and is
    left out for chunks: for all of them beside decodes, and for all but one without.

    References
    ----------
    scalingbook, vidur2024

    Examples
    --------
    >>> from specbook.hardware.profile import catalogue_device
    >>> from specbook.roofline.model_spec import model
    >>> from specbook.roofline.pass_cost import step_cost
    >>> from specbook.roofline.step_time import DoctrineRoofline, device_rates
    >>> h100 = device_rates(catalogue_device("h100-sxm5"), "bf16")
    >>> step = DoctrineRoofline(cost=step_cost(model("Llama-3.1-8B"), "bf16"), device=h100)
    >>> iteration = SteppedTime(step=step, max_context_tokens=8192)
    >>> print(1e3 * iteration.decode_seconds(16, 16, np.array([16 * 512, 16 * 4096])).round(5))
    [5.4  7.92]
    >>> print(f"{1e3 * iteration.mixed_seconds(16, 16, 16 * 512, [(512, 0)]):.2f} ms")
    8.45 ms
    """

    step: StepTime
    max_context_tokens: int
    min_context_tokens: int = 0
    prefill: StepTime | None = None
    _row_seconds: dict[int, float] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_context_range(self.min_context_tokens, self.max_context_tokens)

    @property
    def kind(self) -> str:
        """That of the step time; of both where prompts have their own."""
        return self.step.kind if self.prefill is None else f"{self.step.kind}, prefill {self.prefill.kind}"

    def decode_seconds(self, n_decodes: int, decode_tokens: Any, context_tokens: NDArray[np.int64]) -> Floats:
        """Seconds of n iterations without prefills, as in ``IterationTime``.

        Raises
        ------
        BadInput
            If a mean context was not tabulated, or the step time refuses width or batch.
        """
        mean_tokens = context_tokens / n_decodes
        if np.ndim(decode_tokens) == 0:
            seconds: Floats = self._decodes(decode_tokens / n_decodes, n_decodes, mean_tokens)
            return seconds
        widths = np.asarray(decode_tokens) / n_decodes
        return by_distinct(widths, mean_tokens, lambda width, mean: self._decodes(width, n_decodes, mean))

    def mixed_seconds(
        self, n_decodes: int, decode_tokens: int, context_tokens: int, prefills: Sequence[tuple[int, int]]
    ) -> float:
        """Seconds of one iteration, as in ``IterationTime``.

        Raises
        ------
        BadInput
            If a context was not tabulated, or a step time refuses width or batch.
        """
        if not prefills:
            return self._decodes_s(n_decodes, decode_tokens, context_tokens)
        n_tokens = decode_tokens + sum(tokens for tokens, _ in prefills)
        chunks_s = sum(self._chunk_attention_s(tokens, done) for tokens, done in prefills)
        if not n_decodes:
            return self._rows_s(n_tokens) + chunks_s
        rows_s = self._rows_s(n_tokens) - self._rows_s(decode_tokens)
        return self._decodes_s(n_decodes, decode_tokens, context_tokens) + rows_s + chunks_s

    @property
    def _prompt_step(self) -> StepTime:
        return self.step if self.prefill is None else self.prefill

    @cached_property
    def _decode_tables(self) -> ContextTables:
        nodes = context_nodes(self.min_context_tokens, self.max_context_tokens, self.step)
        return ContextTables(seconds=self.step, nodes=nodes)

    @cached_property
    def _chunk_tables(self) -> ContextTables:
        if self.prefill is None:
            return self._decode_tables
        return ContextTables(seconds=self.prefill, nodes=context_nodes(0, self.max_context_tokens, self.prefill))

    def _decodes(self, width: float, n_decodes: int, mean_tokens: Any) -> Any:
        return self._decode_tables.at((width, n_decodes), mean_tokens)

    def _decodes_s(self, n_decodes: int, decode_tokens: int, context_tokens: int) -> float:
        return float(self._decodes(decode_tokens / n_decodes, n_decodes, context_tokens / n_decodes))

    def _chunk_attention_s(self, tokens: int, done: int) -> float:
        """What the context of one chunk adds; its own tokens see half of each other in the mean."""
        bare, behind = self._chunk_tables.at((tokens, 1), np.array([0.0, done + tokens / 2]))
        return float(behind - bare)

    def _rows_s(self, n_tokens: int) -> float:
        """A pass over so many positions without context."""
        if n_tokens not in self._row_seconds:
            rows = evaluated(lambda context: self._prompt_step(n_tokens, 1, context), np.zeros(1))
            self._row_seconds[n_tokens] = float(rows[0])
        return self._row_seconds[n_tokens]
