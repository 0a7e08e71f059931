"""What ``specbook simulate`` is asked for: the load, the draft lengths, the objectives, out of the words of options."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specbook.checks import BadInput
from specbook.commands.option_names import in_options
from specbook.commands.output import reading

if TYPE_CHECKING:
    from specbook.serving.arrivals import Arrivals, ClosedLoop
    from specbook.serving.lengths import Lengths
    from specbook.serving.serving_config import ServingConfig
    from specbook.serving.slo import Slo
    from specbook.serving.traces.reading import WhyNot
    from specbook.serving.workload import Workload

# Longer traces are streamed: they are read again for each run, and rows go to files as they come.
MOST_IN_MEMORY = 200_000
_LONGEST_TOKENS = 32_768
_LONGEST_S = 1e9
_LENGTHS_REMEDY = "write 512, 100-900, lognormal:800,0.9 (median, sigma, and perhaps the most), or geometric:200 (mean)"
_SCHEDULE_REMEDY = "write batch:K pairs from batch 1 on, such as 1:4,16:2,32:0, or batch@context:K"


class SchedulerChoice(StrEnum):
    """How an engine fills its iterations."""

    vllm_v1 = "vllm-v1"
    vidur_sarathi = "vidur-sarathi"
    vidur_vllm = "vidur-vllm"


class ArrivalsChoice(StrEnum):
    """When requests come."""

    poisson = "poisson"
    gamma = "gamma"
    constant = "constant"
    closed = "closed"


class RoutingChoice(StrEnum):
    """Which replica a request goes to."""

    round_robin = "round-robin"
    least_outstanding = "least-outstanding"


@dataclass(frozen=True, kw_only=True)
class LoadOptions:
    """The options that say which requests come; None where one was not given."""

    trace: Path | None = None
    lenient: bool = False
    time_factor: float | None = None
    at_rate: float | None = None
    first: int | None = None
    arrivals: ArrivalsChoice | None = None
    rate: float | None = None
    burstiness: float | None = None
    clients: int | None = None
    think: float | None = None
    requests: int | None = None
    prompt_tokens: str | None = None
    output_tokens: str | None = None


@dataclass(frozen=True, kw_only=True)
class Load:
    """Requests to simulate.

    Attributes
    ----------
    parts : callable
        Gives the workloads of the load from its beginning, one after the other, as often as it is called.
    n_requests, longest_tokens, longest_prompt_tokens : int
        How many there are; most tokens of a request, prompt and output, and of a prompt.
    last_s : float
        When the last one arrives.
    loop : ClosedLoop or None
    trace_format : str or None
    skipped : dict of str to int
        Reason → rows of the trace that were left out for it.
    notes : tuple of str
        What a person should know of the trace.
    """

    parts: Callable[[], Iterator[Workload]]
    n_requests: int
    longest_tokens: int
    longest_prompt_tokens: int
    last_s: float
    loop: ClosedLoop | None = None
    trace_format: str | None = None
    skipped: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def runs_on(self, config: ServingConfig) -> bool:
        """Whether the engine can run even the longest prompt and the longest request."""
        from specbook.serving.simulator import why_never

        prompt, whole = self.longest_prompt_tokens, self.longest_tokens
        return why_never(prompt, whole - prompt, config) is None

    def whole(self) -> Workload:
        """All requests at once."""
        import numpy as np

        from specbook.serving.workload import Workload

        parts = list(self.parts())
        columns = ("arrival_s", "prompt_tokens", "output_tokens")
        joined: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in columns}
        return Workload(**joined, name=parts[0].name)


def load_of(options: LoadOptions, seed: int, config: ServingConfig | None = None) -> Load:
    """The load that the options describe.

    Parameters
    ----------
    options : LoadOptions
    seed : int
    config : ServingConfig or None
        An engine. Requests of a trace that it can never run are then refused, or skipped and counted if lenient.

    Raises
    ------
    BadInput
        If they contradict each other, one is missing or impossible, or the trace cannot be used.
    """
    _check_kind(options)
    if options.trace is None:
        return _checked(_drawn(options, seed))
    return _checked(_scaled(_traced(options.trace, options, config), options))


def _checked(load: Load) -> Load:
    if load.last_s <= _LONGEST_S:
        return load
    problem, remedy = "the last request comes over thirty years after the first", "offer them faster, or fewer"
    raise BadInput(problem, field="load", value=f"{load.last_s:g} s", remedy=remedy)


def _check_kind(options: LoadOptions) -> None:
    """A trace and a drawn load have options of their own."""
    drawn = ("arrivals", "rate", "burstiness", "clients", "think", "requests", "prompt_tokens", "output_tokens")
    traced = ("lenient", "time_factor", "at_rate", "first")
    has_trace = options.trace is not None
    for name in drawn if has_trace else traced:
        value = getattr(options, name)
        if value is not None and value is not False:
            problem = "describes a drawn load, beside a trace" if has_trace else "is for a trace, and there is none"
            raise BadInput(problem, field=_flag(name), value=value, remedy="leave it out, or the trace" if has_trace
                           else "name one with --trace, or leave it out")  # fmt: skip
    if options.time_factor is not None and options.at_rate is not None:
        problem, remedy = "scales time, as --at-rate does", "leave one of them out"
        raise BadInput(problem, field="--time-factor", value=options.time_factor, remedy=remedy)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _traced(path: Path, options: LoadOptions, config: ServingConfig | None) -> Load:
    """What the trace holds. It is kept unless it is long, which is then read again for each run."""
    from specbook.serving.traces import Tally, stream_trace

    why_not, tally = None if config is None else _why_not(config), Tally()
    how: dict[str, Any] = {"lenient": options.lenient, "first": options.first, "why_not": why_not}
    with reading([path]) as progress:
        load = _surveyed(
            stream_trace(path, **how, tally=tally, progress=progress), again=lambda: stream_trace(path, **how)
        )
    if options.first is not None and options.first > load.n_requests:
        problem, remedy = f"the trace has {load.n_requests:,} requests", "ask for fewer, or leave it out"
        raise BadInput(problem, field="--first", value=options.first, remedy=remedy)
    return replace(load, trace_format=tally.format, skipped=dict(tally.skipped), notes=tuple(tally.notes))


def _why_not(config: ServingConfig) -> WhyNot:
    """The rule of the engine, with what can be done about a request of a trace."""
    from specbook.serving.simulator import why_never

    def why_not(prompt_tokens: int, output_tokens: int) -> BadInput | None:
        error = why_never(prompt_tokens, output_tokens, config)
        if error is None:
            return None
        remedy = f"{in_options(error.remedy)}, or read with --lenient, which skips such requests and counts them"
        return BadInput(error.problem, field=error.field, value=error.value, remedy=remedy)

    return why_not


def _surveyed(parts: Iterable[Workload], again: Callable[[], Iterator[Workload]] | None = None) -> Load:
    """Go through the parts once, for what has to be known of all of them; few enough are kept."""
    kept: list[Workload] = []
    n, longest, longest_prompt, last_s = 0, 0, 0, 0.0
    for part in parts:
        n += part.n_requests
        longest = max(longest, int((part.prompt_tokens + part.output_tokens).max()))
        longest_prompt = max(longest_prompt, int(part.prompt_tokens.max()))
        last_s = float(part.arrival_s[-1])
        if again is None or n <= MOST_IN_MEMORY:
            kept.append(part)
        else:
            kept.clear()
    return Load(
        parts=again if again is not None and n > MOST_IN_MEMORY else lambda: iter(kept),
        n_requests=n,
        longest_tokens=longest,
        longest_prompt_tokens=longest_prompt,
        last_s=last_s,
    )


def _scaled(load: Load, options: LoadOptions) -> Load:
    factor = 1.0 if options.time_factor is None else positive("--time-factor", options.time_factor)
    if options.at_rate is not None:
        if load.last_s == 0.0:
            remedy = "leave it out, or take more of the trace"
            problem = "all requests arrive at one instant, which no factor turns into a rate"
            raise BadInput(problem, field="--at-rate", value=options.at_rate, remedy=remedy)
        factor = (load.n_requests - 1) / load.last_s / positive("--at-rate", options.at_rate)
    if factor == 1.0:
        return load
    return replace(load, parts=lambda: (part.scaled(factor) for part in load.parts()), last_s=load.last_s * factor)


def _drawn(options: LoadOptions, seed: int) -> Load:
    import numpy as np

    from specbook.serving.workload import make_workload

    arrivals, loop = _arrivals(options)
    with np.errstate(over="ignore"):  # an arrival beyond all bounds is refused
        workload = make_workload(
            arrivals=arrivals,
            prompts=lengths_of("--prompt-tokens", options.prompt_tokens or "512"),
            outputs=lengths_of("--output-tokens", options.output_tokens or "128"),
            n_requests=options.requests or 2000,
            # Another stream than that of acceptance, which the seed alone opens.
            rng=np.random.default_rng([seed, 1]),
            name=arrivals.name if loop is None else loop.name,
        )
    return replace(_surveyed([workload]), loop=loop)


def _arrivals(options: LoadOptions) -> tuple[Arrivals, ClosedLoop | None]:
    from specbook.serving.arrivals import (
        ClosedLoop,
        ConstantArrivals,
        GammaArrivals,
        PoissonArrivals,
        TogetherArrivals,
    )

    choice = options.arrivals or ArrivalsChoice.poisson
    _check_arrivals(options, choice)
    if choice is ArrivalsChoice.closed:
        think_s = 0.0 if options.think is None else positive("--think", options.think, least=0.0)
        return TogetherArrivals(), ClosedLoop(n_clients=options.clients or 1, think_s=think_s)
    rate = positive("--rate", options.rate or 0.0)
    if choice is ArrivalsChoice.gamma:
        burstiness = positive("--burstiness", options.burstiness or 0.0)
        return GammaArrivals(requests_per_s=rate, burstiness=burstiness), None
    kind = ConstantArrivals if choice is ArrivalsChoice.constant else PoissonArrivals
    return kind(requests_per_s=rate), None


# What each law of arrivals needs, and what else it takes.
_NEEDS = {"poisson": ("rate",), "constant": ("rate",), "gamma": ("rate", "burstiness"), "closed": ("clients",)}
_TAKES = {"closed": ("think",)}


def _check_arrivals(options: LoadOptions, choice: ArrivalsChoice) -> None:
    needs, takes = _NEEDS[choice.value], _TAKES.get(choice.value, ())
    for name in ("rate", "burstiness", "clients", "think"):
        value = getattr(options, name)
        if value is None and name in needs:
            remedy = f"state {_flag(name)}" + (", or bring a --trace" if options.arrivals is None else "")
            raise BadInput(f"needs {_flag(name)}", field="--arrivals", value=choice.value, remedy=remedy)
        if value is not None and name not in (*needs, *takes):
            problem = f"has no place in {choice.value} arrivals"
            raise BadInput(problem, field=_flag(name), value=value, remedy="leave it out, or choose other --arrivals")


def positive(option: str, value: float, *, least: float | None = None) -> float:
    """A number of an option that is finite, and above 0 or at least ``least``.

    Raises
    ------
    BadInput
        If it is not.

    Examples
    --------
    >>> positive("--rate", 2.5)
    2.5
    """
    if math.isfinite(value) and (value > 0.0 if least is None else value >= least):
        return value
    bound = "above 0" if least is None else f"of at least {least:g}"
    raise BadInput(f"is no number {bound}", field=option, value=value, remedy=f"give a number {bound}")


def watermark_of(text: str) -> int:
    """Blocks to keep free, out of the words of an option. Engines take a share there, which this is not.

    Raises
    ------
    BadInput
        If it is no whole number.

    Examples
    --------
    >>> watermark_of("170")
    170
    """
    if text.isascii() and text.isdigit() and len(text) <= 12:
        return int(text)
    remedy = "it counts blocks and is no share of them: give a whole number, or leave it out for 1 %"
    raise BadInput("is no number of blocks", field="--watermark-blocks", value=text, remedy=remedy)


def lengths_of(option: str, text: str) -> Lengths:
    """A law of lengths: ``512``, ``100-900``, ``lognormal:800,0.9`` or ``geometric:200``.

    Raises
    ------
    BadInput
        If the text is none of them.

    Examples
    --------
    >>> lengths_of("--prompt-tokens", "100-900")
    UniformLength(low=100, high=900)
    >>> lengths_of("--prompt-tokens", "lognormal:800,0.9")
    LogNormalLength(median=800.0, sigma=0.9, maximum=32768)
    """
    from specbook.serving.lengths import FixedLength, GeometricLength, LogNormalLength, UniformLength

    try:
        name, _, rest = text.rpartition(":")
        if name.casefold() == "lognormal":
            median, sigma, *most = rest.split(",")
            maximum = int(most[0]) if len(most) == 1 else _LONGEST_TOKENS if not most else int(rest)
            return LogNormalLength(median=float(median), sigma=float(sigma), maximum=maximum)
        if name.casefold() == "geometric":
            return GeometricLength(mean=float(rest))
        low, dash, high = text.partition("-")
        return UniformLength(low=int(low), high=int(high)) if dash else FixedLength(value=int(text))
    except ValueError as error:
        own = str(error)
        problem = own if "must" in own else "is no law of lengths"
        raise BadInput(problem, field=option, value=text, remedy=_LENGTHS_REMEDY) from None


def schedule_of(text: str) -> dict[tuple[int, int], int]:
    """Draft lengths by batch, or by batch and context: ``1:4,16:2,32:0``, ``1:4,16:0,16@8192:4``.

    Raises
    ------
    BadInput
        If the text is no such list, says something twice, or nothing of batch 1.

    Examples
    --------
    >>> schedule_of("1:4,16:0,16@8192:4")
    {(1, 0): 4, (16, 0): 0, (16, 8192): 4}
    """
    schedule: dict[tuple[int, int], int] = {}
    for pair in text.split(","):
        place, _, length = pair.strip().partition(":")
        batch, at, context = place.partition("@")
        parts = [batch, length, *([context] if at else [])]
        if not all(part.isascii() and part.isdigit() and len(part) <= 8 for part in parts):
            raise BadInput("is no schedule", field="--schedule", value=pair, remedy=_SCHEDULE_REMEDY)
        key = int(batch), int(context or 0)
        if key in schedule or key[0] < 1 or int(length) > 64:
            problem = "says it twice" if key in schedule else "is no batch and draft length of at most 64"
            raise BadInput(problem, field="--schedule", value=pair, remedy=_SCHEDULE_REMEDY)
        schedule[key] = int(length)
    if (1, 0) not in schedule:
        raise BadInput("does not say what holds at batch 1", field="--schedule", value=text, remedy=_SCHEDULE_REMEDY)
    return schedule


def slo_of(ttft: float | None, tpot: float | None, e2e: float | None, percentile: int) -> Slo:
    """The objectives; without limits where nothing is promised.

    Raises
    ------
    BadInput
        If a limit is not above 0, or the percentile is none that is reported.

    Examples
    --------
    >>> slo_of(2.0, None, None, 90).limits
    {'ttft_s': 2.0}
    """
    from specbook.serving.slo import Slo

    for option, limit in (("--slo-ttft", ttft), ("--slo-tpot", tpot), ("--slo-e2e", e2e)):
        if limit is not None:
            positive(option, limit)
    return Slo(ttft_s=ttft, tpot_s=tpot, e2e_s=e2e, percentile=percentile)
