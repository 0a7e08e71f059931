"""What serving engines spend beside the passes of a round: fitted to published measurements, and stated as such.

A pass of the model is products and attention. An engine schedules it, prepares its inputs, draws tokens from its
outputs and takes back what was rejected, and some of that the device waits for. The figures come from
``specbook.validation``, which fits them to the shipped series and says how far they are from series left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from specbook.checks import BadInput, check_non_negative
from specbook.files import read_json

_FIGURES = Path(__file__).with_name("engine_overheads.json")

# The constants of an engine, in the order in which they are fitted.
CONSTANTS = ("draft_pass_s", "round_s", "row_share", "outside_share")


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineOverheads:
    """Times of one engine beside the passes of target and drafter.

    Attributes
    ----------
    engine : str
    draft_pass_s : float
        Of each draft pass beyond its products: launches, and choosing the token that the next pass starts from.
    round_s : float
        Of each round: scheduling, preparing the verify pass, comparing, and taking back what was rejected.
    row_share : float
        Share of a step by which each further row of a small pass lengthens it, beyond the roofline: what kernels for
        few rows lose, up to :data:`~specbook.roofline.hosted.SMALL_ROWS`.
    outside_share : float
        Share of a token's time that is outside decoding in the fastest workload of a setting, such as prompts.
    evidence : str
        ``fitted``, or ``assumed`` where the figures are another engine's, or an order of magnitude from a few rows.
    source : str
    n_rows, n_series : int
        That the figures were fitted to.
    intervals : tuple of (str, float, float)
        95 % over series, by constant; of those that were fitted.
    ratio_interval : (low, high)
        Measured ÷ predicted speedup, 5 % and 95 % of the rows when their series was left out of the fit; None where
        the figures are assumed.

    Raises
    ------
    ValueError
        If a figure is negative.

    References
    ----------
    specbundle

    Examples
    --------
    >>> sglang = engine_overheads("sglang")
    >>> sglang.evidence, 0 < sglang.draft_pass_s < 1e-3
    ('fitted', True)
    """

    engine: str
    draft_pass_s: float
    round_s: float
    row_share: float
    outside_share: float
    evidence: str
    source: str
    n_rows: int
    n_series: int
    intervals: tuple[tuple[str, float, float], ...] = ()
    ratio_interval: tuple[float | None, float | None] = (None, None)

    def __post_init__(self) -> None:
        for name in CONSTANTS:
            check_non_negative(name, getattr(self, name))

    @property
    def n_constants(self) -> int:
        """How many of them were fitted; none of another engine's."""
        return len(self.intervals) if self.n_rows else 0

    @property
    def label(self) -> str:
        """Where the figures come from, in a few words; every row of a projection repeats it.

        Examples
        --------
        >>> engine_overheads("vllm").label
        'vllm: assumed, those of sglang'
        """
        if self.evidence == "none":
            return self.engine
        if self.evidence == "assumed":
            return f"{self.engine}: assumed, {self.source}"
        return f"{self.engine}: fitted to {self.n_rows} published rows"


@cache
def _figures() -> dict[str, dict[str, Any]]:
    return dict(read_json(_FIGURES))


def engine_names() -> list[str]:
    """Engines whose overheads are known or assumed.

    Examples
    --------
    >>> "sglang" in engine_names()
    True
    """
    return list(_figures())


def engine_overheads(engine: str) -> EngineOverheads:
    """Overheads of an engine by name.

    Raises
    ------
    BadInput
        If none are known.

    References
    ----------
    specbundle

    Examples
    --------
    >>> engine_overheads("SGLang").engine
    'sglang'
    """
    entry = _figures().get(engine.casefold())
    if entry is None:
        remedy = f"one of {', '.join(engine_names())}"
        raise BadInput("nobody fitted the overheads of this engine", field="engine", value=engine, remedy=remedy)
    if "as" in entry:
        entry = {**_figures()[entry["as"]], "evidence": "assumed", "source": f"those of {entry['as']}"}
        entry |= {"ratio_interval": [None, None]}
    intervals = tuple((name, low, high) for name, (low, high) in entry["intervals"].items())
    ratios = tuple(entry["ratio_interval"])
    return EngineOverheads(**{**entry, "engine": engine.casefold(), "intervals": intervals, "ratio_interval": ratios})
