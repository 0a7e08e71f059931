"""What a witness found: the machine, the engine, and what was predicted of each configuration and measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import polars as pl

from specbook.acceptance.profile import AcceptanceProfile
from specbook.checks import check_finite, check_non_negative, check_positive
from specbook.witness.config import Configuration, WitnessConfig
from specbook.witness.replay import Replay
from specbook.witness.statistics import P90

Verdict = Literal["pass", "fail", "inconclusive"]
When = Literal["before", "middle", "after"]
TermName = Literal["verify", "draft", "acceptance", "overhead"]

# Largest |predicted ÷ measured − 1| of the P90 TPOT of a replay.
GATE = 0.08


@dataclass(frozen=True, kw_only=True)
class ControlBlock:
    """Steps without drafts, all on one text, by which the machine is judged.

    Attributes
    ----------
    when : str
        ``before``, ``middle`` or ``after`` the jobs.
    mean_s, median_s, p90_s : float
        Of a step, cold ones left out.
    processor_share : float
        Processor time of the thread by wall time; below 1 where another process had the processor.
    """

    when: When
    mean_s: float
    median_s: float
    p90_s: float
    processor_share: float

    def __post_init__(self) -> None:
        check_positive("seconds of a step", [self.mean_s, self.median_s, self.p90_s])
        check_non_negative("processor_share", self.processor_share)


@dataclass(frozen=True, kw_only=True)
class Control:
    """Whether the machine was quiet enough to judge by.

    Attributes
    ----------
    blocks : tuple of ControlBlock
        In the order in which they ran; at least one.
    load_average : float or None
        Processes that ran meanwhile, this one included; None where the system does not say.
    reasons : tuple of str
        Why it was not quiet; none if it was.

    Examples
    --------
    >>> before = ControlBlock(when="before", mean_s=0.01, median_s=0.01, p90_s=0.011, processor_share=1.0)
    >>> control = Control(blocks=(before,), load_average=1.0, reasons=())
    >>> control.is_quiet, control.drift, round(control.spread, 3)
    (True, 0.0, 0.1)
    """

    blocks: tuple[ControlBlock, ...]
    load_average: float | None
    reasons: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.blocks:
            raise ValueError("blocks must number at least one")
        if self.load_average is not None:
            check_non_negative("load_average", self.load_average)

    @property
    def is_quiet(self) -> bool:
        """Whether nothing speaks against judging."""
        return not self.reasons

    @property
    def drift(self) -> float:
        """Largest ÷ smallest median of the blocks − 1."""
        medians_s = [block.median_s for block in self.blocks]
        return max(medians_s) / min(medians_s) - 1.0

    @property
    def spread(self) -> float:
        """Largest P90 ÷ median − 1 within a block."""
        return max(block.p90_s / block.median_s for block in self.blocks) - 1.0


@dataclass(frozen=True, kw_only=True)
class Parity:
    """Whether the run itself gave the tokens that decoding without drafts gave; greedy requests only.

    Attributes
    ----------
    n_requests, n_tokens : int
        Compared: 0 where nothing could be.
    n_equal_tokens : int
        Up to the first difference of each request.
    first_difference : str or None
        Where the first request that differs does so.
    why_not : str or None
        Why nothing was compared.

    Examples
    --------
    >>> Parity(n_requests=1, n_tokens=9, n_equal_tokens=9, first_difference=None, why_not=None).is_equal
    True
    """

    n_requests: int
    n_tokens: int
    n_equal_tokens: int
    first_difference: str | None
    why_not: str | None

    def __post_init__(self) -> None:
        check_non_negative("counts", [self.n_requests, self.n_tokens, self.n_equal_tokens])
        if self.n_equal_tokens > self.n_tokens:
            raise ValueError(f"n_equal_tokens must be at most n_tokens; got {self.n_equal_tokens} of {self.n_tokens}")
        if (self.first_difference is not None) != (self.n_equal_tokens < self.n_tokens):
            raise ValueError("first_difference must be told where tokens differ, and only there")
        if (self.why_not is not None) != (self.n_requests == 0):
            raise ValueError("why_not must be told where nothing was compared, and only there")

    @property
    def is_equal(self) -> bool:
        """Whether no token that was compared differs."""
        return self.n_equal_tokens == self.n_tokens


@dataclass(frozen=True, kw_only=True)
class Term:
    """A part of the mean seconds per token: what was predicted of it, and what it took.

    Attributes
    ----------
    name : str
        ``verify`` or ``draft``: passes of the target or of the drafter; ``acceptance``: rounds per token, at the
        predicted time of a round; ``overhead``: all else.
    predicted_s, measured_s : float
        Seconds per token. The differences of all terms add up to that of the whole.
    """

    name: TermName
    predicted_s: float
    measured_s: float

    def __post_init__(self) -> None:
        check_finite("seconds per token", [self.predicted_s, self.measured_s])

    @property
    def difference_s(self) -> float:
        """Predicted − measured."""
        return self.predicted_s - self.measured_s


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What was predicted from a hardware profile and an acceptance profile, both taken beforehand.

    Attributes
    ----------
    predicted : P90
        Seconds per token, with the interval in which runs of so many requests end up.
    error, error_low, error_high : float
        Predicted ÷ measured − 1, with a 95 % interval.
    speedup : float
        Mean seconds per token without ÷ with drafts, as predicted.
    terms : tuple of Term
        Of the mean seconds per token.
    hardware, step_time_kind : str
        What the step times come from.
    acceptance : AcceptanceProfile
    """

    predicted: P90
    error: float
    error_low: float
    error_high: float
    speedup: float
    terms: tuple[Term, ...]
    hardware: str
    step_time_kind: str
    acceptance: AcceptanceProfile

    def __post_init__(self) -> None:
        _check_interval("error", self.error, self.error_low, self.error_high)
        check_positive("speedup", self.speedup)


@dataclass(frozen=True, kw_only=True)
class FreshProbe:
    """What a second probe says after a failure; nothing is fitted to the answer, and the verdict stays.

    Attributes
    ----------
    error_before, error_after : float
        Of the replay with the first probe's step times, and with the second's.
    terms : tuple of Term
        As the second probe predicts them.
    """

    error_before: float
    error_after: float
    terms: tuple[Term, ...]

    def __post_init__(self) -> None:
        check_finite("error", [self.error_before, self.error_after])


@dataclass(frozen=True, kw_only=True)
class ConfigurationResult:
    """What a configuration was predicted to do, what it did, and what follows.

    Attributes
    ----------
    configuration : Configuration
    replay : Replay
        The prediction that is judged, and what was measured.
    autoregressive : P90
        Without drafts, same prompts.
    speedup, speedup_low, speedup_high : float
        Mean seconds per token without ÷ with drafts, with a 95 % interval over requests.
    forecast : Forecast or None
        None without a hardware profile.
    parity : Parity
    verdict : str
        As :func:`~specbook.witness.verdict.judge_replay` gives it.
    reasons : tuple of str
        Of the verdict.
    terms : tuple of Term
        Of the mean seconds per token of the replay.
    fresh_probe : FreshProbe or None
        After a failure of the replay.
    """

    configuration: Configuration
    replay: Replay
    autoregressive: P90
    speedup: float
    speedup_low: float
    speedup_high: float
    forecast: Forecast | None
    parity: Parity
    verdict: Verdict
    reasons: tuple[str, ...]
    terms: tuple[Term, ...]
    fresh_probe: FreshProbe | None

    def __post_init__(self) -> None:
        check_positive("speedup", self.speedup)
        _check_interval("speedup", self.speedup, self.speedup_low, self.speedup_high)
        if not self.reasons:
            raise ValueError("reasons must say what the verdict follows from")


@dataclass(frozen=True, kw_only=True)
class Engine:
    """What decoded, and where.

    Attributes
    ----------
    specbook_version, arithmetic : str
    replication : int
        The cost dial R.
    blas_kernel : str
    n_threads : int
        Of BLAS.
    host : mapping of str to str
        system, machine, processor, cores, memory; nothing that names a person or a machine.
    weights_sha256 : mapping of str to str
        Model → SHA-256 of its file of weights.
    """

    specbook_version: str
    arithmetic: str
    replication: int
    blas_kernel: str
    n_threads: int
    host: Mapping[str, str]
    weights_sha256: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class WitnessResult:
    """A run of a witness.

    Attributes
    ----------
    config : WitnessConfig
    engine : Engine
    control : Control
    results : tuple of ConfigurationResult
        In the order of the configurations.
    requests, rounds : DataFrame
        One row a job and one a round: :func:`~specbook.witness.frames.requests_frame`,
        :func:`~specbook.witness.frames.rounds_frame`.
    elapsed_s : float
    """

    config: WitnessConfig
    engine: Engine
    control: Control
    results: tuple[ConfigurationResult, ...]
    requests: pl.DataFrame
    rounds: pl.DataFrame
    elapsed_s: float

    def __post_init__(self) -> None:
        check_non_negative("elapsed_s", self.elapsed_s)
        if [each.configuration for each in self.results] != list(self.config.configurations):
            raise ValueError("results must be those of the configurations, in their order")

    @property
    def verdict(self) -> Verdict:
        """``fail`` if one configuration failed, ``pass`` if all passed, else ``inconclusive``."""
        return overall_verdict(each.verdict for each in self.results)


def overall_verdict(verdicts: Iterable[Verdict]) -> Verdict:
    """What the verdicts of all configurations say of a run.

    Examples
    --------
    >>> overall_verdict(["pass", "inconclusive"]), overall_verdict(["pass", "fail"])
    ('inconclusive', 'fail')
    """
    found = set(verdicts)
    if "fail" in found:
        return "fail"
    return "pass" if found == {"pass"} else "inconclusive"


def _check_interval(name: str, value: float, low: float, high: float) -> None:
    check_finite(name, [value, low, high])
    if not low <= value <= high:
        raise ValueError(f"{name} must lie in its interval; got {value} in [{low}, {high}]")
