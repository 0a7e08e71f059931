"""A witness without a clock or an engine: rounds take what they are told to, on time that they advance themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from zlib import crc32

from specbook.engine.decoding import Round, RoundRecord
from specbook.engine.draft import Draft
from specbook.engine.verification import Verdict
from specbook.witness.config import Configuration, WitnessConfig
from specbook.witness.jobs import Job, plan_jobs, prompts_of
from specbook.witness.result import WitnessResult
from specbook.witness.run import witness

# Powers of two, so that sums of them are exact.
STEP_S, POSITION_S, DRAFT_PASS_S, ACCEPT_S = 2.0**-7, 2.0**-10, 2.0**-11, 2.0**-14


@dataclass
class FakeClock:
    """Stands still until it is told to go on; a ``Clock``."""

    time_s: float = 0.0
    busy_s: float = 0.0
    share: float = 1.0
    load: float | None = 1.0

    def now_s(self) -> float:
        return self.time_s

    def processor_s(self) -> float:
        return self.busy_s

    def load_average(self) -> float | None:
        return self.load

    def go_on(self, seconds: float) -> None:
        self.time_s += seconds
        self.busy_s += self.share * seconds


def no_change(job: Job, number: int) -> float:  # noqa: ARG001
    return 1.0


@dataclass
class FakeDecoder:
    """Decodes the same text with and without drafts; a ``Decoder``.

    ``verify``, ``draft`` and ``step`` multiply the seconds of a round's parts by job and round; ``token`` changes what
    a job says.
    """

    clock: FakeClock
    verify: Callable[[Job, int], float] = no_change
    draft: Callable[[Job, int], float] = no_change
    overhead_s: Callable[[Job, int], float] = lambda _job, _number: 0.0
    token: Callable[[Job, int, int], int] = lambda _job, _place, token: token
    done: list[Job] = field(default_factory=list)

    def prompt_tokens(self, job: Job) -> int:
        return 8 + job.number

    def rounds(self, job: Job) -> Iterator[Round]:
        self.done.append(job)
        n_emitted = number = 0
        while n_emitted < job.new_tokens:
            drafted, depth, accepted = _round(job, number)
            emitted = min(accepted + 1, job.new_tokens - n_emitted)
            draft_s = depth * DRAFT_PASS_S * self.draft(job, number)
            verify_s = (STEP_S + drafted * POSITION_S) * self.verify(job, number)
            self.clock.go_on(draft_s + verify_s + ACCEPT_S + self.overhead_s(job, number))
            record = RoundRecord(
                drafted=drafted,
                depth=depth,
                accepted=accepted,
                emitted=emitted,
                tried=(),
                kept=(),
                draft_s=draft_s,
                verify_s=verify_s,
                accept_s=ACCEPT_S,
            )
            places = range(n_emitted, n_emitted + emitted)
            tokens = tuple(
                self.token(job, place, crc32(f"{job.prompt.identifier} {place}".encode())) for place in places
            )
            yield Round(
                record=record,
                tokens=tokens,
                draft=Draft(),
                target=(),
                verdict=Verdict(path=(), next_token=0),
                finish=None,
            )
            n_emitted, number = n_emitted + emitted, number + 1


def _round(job: Job, number: int) -> tuple[int, int, int]:
    """Drafted, depth and accepted tokens: the same luck whenever a job is run, cut chains where there is a cut."""
    if job.configuration is None:
        return 0, 0, 0
    shape = job.configuration.shape
    luck = crc32(f"{job.prompt.identifier} round {number}".encode())
    drafted = 1 + luck % shape.n_nodes if job.configuration.is_cut else shape.n_nodes
    depth = drafted if shape.is_chain else shape.depth
    return drafted, depth, (luck >> 8) % (depth + 1)


FOUR = Configuration(name="four", drafter="small", draft_length=4)
CONFIG = WitnessConfig(configurations=(FOUR,), new_tokens=48, n_prompts=8)


def fake_witness(decoder: FakeDecoder, config: WitnessConfig = CONFIG) -> WitnessResult:
    """A whole run on invented time, without a forecast."""
    jobs = plan_jobs(config, prompts_of(config))
    return witness(config, jobs, decoder, decoder.clock, known={}, start_s=decoder.clock.now_s())
