"""The commands of the cycle simulator: ``specbook cycles`` and ``specbook cycles-sweep``.

Costs are asked for in microseconds, as people quote them; files and JSON hold seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specbook.checks import BadInput, printable
from specbook.commands.output import AssumptionName, JsonFlag, emit, load_profile, working
from specbook.files import DOCUMENT_LIMIT_BYTES, check_readable, folder_lock, write_bytes, write_text

if TYPE_CHECKING:
    import polars as pl

    from specbook.acceptance.cycle_config import CycleConfig
    from specbook.acceptance.draft_models import DraftModel

_MAX_COST_US = 1e9
_MIN_VERIFY_US = 1e-3


class DraftModelName(StrEnum):
    """Draft models of ``cycles``."""

    fixed = "fixed"
    position_decay = "position_decay"
    entropy_aware = "entropy_aware"
    empirical = "empirical"


class VariesName(StrEnum):
    """Draft models that a sweep's acceptances are for."""

    fixed = "fixed"
    every = "every"


SequencesOption = Annotated[int, typer.Option("--n-sequences", min=1, max=2**24, help="Sequences to simulate.")]
TokensOption = Annotated[int, typer.Option("--tokens-per-seq", min=1, max=100_000, help="Tokens of a sequence.")]
SeedOption = Annotated[int, typer.Option("--seed", min=0, max=2**53, help="Random seed.")]
VerifyOption = Annotated[float, typer.Option("--verify-cost-us", help="Time of one verify pass, µs.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command("cycles")(cycles)
    app.command("cycles-sweep")(cycles_sweep)


def cycles(
    draft_model: Annotated[
        DraftModelName, typer.Option("--draft-model", help="How acceptance depends on the token.")
    ] = DraftModelName.fixed,
    k: Annotated[int, typer.Option("--k", min=0, max=4096, help="Tokens drafted in a round; 0 drafts none.")] = 5,
    acceptance_rate: Annotated[float, typer.Option(help="fixed: acceptance of every draft token.")] = 0.8,
    draft_cost_us: Annotated[float, typer.Option(help="Time of one draft pass, µs.")] = 20.0,
    verify_cost_us: VerifyOption = 200.0,
    decay_base: Annotated[float, typer.Option(help="position_decay: acceptance of position 1.")] = 0.9,
    decay_factor: Annotated[float, typer.Option(help="position_decay: each position ÷ the one before.")] = 0.95,
    entropy_high: Annotated[float, typer.Option(help="entropy_aware: the high acceptance, of easy tokens.")] = 0.95,
    entropy_low: Annotated[float, typer.Option(help="entropy_aware: the low acceptance, of hard tokens.")] = 0.5,
    entropy_frac: Annotated[
        float, typer.Option(help="entropy_aware: share of high-entropy tokens, which are the hard ones.")
    ] = 0.3,
    profile: Annotated[
        str | None, typer.Option(metavar="P.json", help="empirical: a profile, or a name of the library.")
    ] = None,
    assume: Annotated[
        AssumptionName, typer.Option(help="empirical, truncation: shorter drafts from the positions of a longer one.")
    ] = AssumptionName.none,
    n_sequences: SequencesOption = 500,
    tokens_per_seq: TokensOption = 128,
    seed: SeedOption = 42,
    summary_out: Annotated[Path | None, typer.Option(metavar="FILE", help="Append the figures to this CSV.")] = None,
    json: JsonFlag = False,
) -> None:
    """Simulate rounds of drafting and verifying, beside the exact expectation."""
    from specbook.acceptance.cycles import simulate_cycles
    from specbook.display.cycles_terminal import show_cycles
    from specbook.display.tables import say

    fixed = _rate("--acceptance-rate", acceptance_rate)
    decay = _rate("--decay-base", decay_base), _rate("--decay-factor", decay_factor)
    shares = {"--entropy-high": entropy_high, "--entropy-low": entropy_low, "--entropy-frac": entropy_frac}
    entropy = [_rate(option, value) for option, value in shares.items()]
    config = _config(
        draft_model=_draft_model(draft_model, fixed, decay, entropy, profile, assume),
        draft_length=k,
        draft_s=_cost_s("--draft-cost-us", draft_cost_us, 0.0),
        verify_s=_cost_s("--verify-cost-us", verify_cost_us, _MIN_VERIFY_US),
        n_sequences=n_sequences,
        tokens_per_sequence=tokens_per_seq,
        seed=seed,
    )
    if summary_out is not None and summary_out.suffix.casefold() == ".parquet":
        remedy = "name a .csv file"
        raise BadInput("rows are appended to CSV", field="--summary-out", value=str(summary_out), remedy=remedy)
    with working("simulating", n_sequences * tokens_per_seq) as advance:
        result = simulate_cycles(config, advance)
    if summary_out is not None:
        _append(summary_out, result.frame)
    if json:
        emit(result.row() | ({} if summary_out is None else {"summary_out": str(summary_out)}))
        return
    show_cycles(result)
    if summary_out is not None:
        say(f"appended to {summary_out}")


def cycles_sweep(
    out: Annotated[Path, typer.Option("--out", metavar="F.csv", help="The table to write: CSV, or Parquet by suffix.")],
    verify_cost_us: VerifyOption = 200.0,
    n_sequences: SequencesOption = 500,
    tokens_per_seq: TokensOption = 128,
    seed: SeedOption = 42,
    varies: Annotated[
        VariesName, typer.Option(help="The acceptances are those of the fixed model only, or of every draft model.")
    ] = VariesName.fixed,
    json: JsonFlag = False,
) -> None:
    """Simulate 576 configurations: three draft models, 8 draft lengths, 6 acceptances, 4 draft costs."""
    from specbook.acceptance.cycle_sweep import SweepConfig, sweep_cycles
    from specbook.display.cycles_terminal import show_sweep
    from specbook.display.tables import say
    from specbook.parquet import write_parquet

    verify_s = _cost_s("--verify-cost-us", verify_cost_us, _MIN_VERIFY_US)
    with _refused():
        config = SweepConfig(
            verify_s=verify_s,
            n_sequences=n_sequences,
            tokens_per_sequence=tokens_per_seq,
            seed=seed,
            varies=varies.value,
        )
    with working("simulating", config.n_configurations) as advance:
        sweep = sweep_cycles(config, advance)
    if out.suffix.casefold() == ".parquet":
        write_parquet(out, sweep)
    else:
        write_text(out, sweep.write_csv())
    if json:
        emit({"out": str(out), "config": asdict(config)} | _summary(sweep))
        return
    show_sweep(sweep)
    say(f"wrote {out}")


def _summary(sweep: pl.DataFrame) -> dict[str, Any]:
    from specbook.acceptance.cycle_audit import best_row, losing, mean_speedup_by_cost_ratio, optimal_draft_lengths

    return {
        "n_configurations": sweep.height,
        "n_losing": losing(sweep, "speedup").height,
        "expected_n_losing": losing(sweep).height,
        "best": best_row(sweep),
        "mean_speedup_by_cost_ratio": {
            str(name): mean_speedup_by_cost_ratio(rows).to_dicts()
            for (name,), rows in sweep.group_by("draft_model", maintain_order=True)
        },
        "optimal_draft_lengths": optimal_draft_lengths(sweep).to_dicts(),
    }


def _rate(option: str, value: float) -> float:
    if not 0.0 <= value <= 1.0:
        raise BadInput("must lie in [0, 1]", field=option, value=value, remedy="give a share, such as 0.8")
    return value


def _cost_s(option: str, value: float, minimum_us: float) -> float:
    if not minimum_us <= value <= _MAX_COST_US:
        limits = f"must lie in [{minimum_us:g}, {_MAX_COST_US:g}]"
        raise BadInput(limits, field=option, value=value, remedy="give microseconds, such as 20")
    return value / 1e6


@contextmanager
def _refused() -> Iterator[None]:
    """A simulation that is too large for one machine is bad input."""
    try:
        yield
    except BadInput:
        raise
    except ValueError as error:
        raise BadInput(str(error), remedy="simulate fewer sequences or tokens") from None


def _config(**fields: Any) -> CycleConfig:
    from specbook.acceptance.cycle_config import CycleConfig

    with _refused():
        return CycleConfig(**fields)


def _draft_model(
    name: DraftModelName,
    acceptance: float,
    decay: tuple[float, float],
    entropy: list[float],
    profile: str | None,
    assume: AssumptionName,
) -> DraftModel:
    from specbook.acceptance.draft_models import Empirical, EntropyAware, FixedAcceptance, PositionDecay

    if (name is DraftModelName.empirical) != (profile is not None):
        problem = "goes with the empirical draft model, and the other way round"
        remedy = "give --draft-model empirical and --profile together"
        raise BadInput(problem, field="--profile", value=profile, remedy=remedy)
    if profile is not None:
        return Empirical.from_profile(load_profile(profile), assume=assume.value, source=printable(profile))
    if name is DraftModelName.position_decay:
        return PositionDecay(base=decay[0], factor=decay[1])
    if name is DraftModelName.entropy_aware:
        return EntropyAware(easy_acceptance=entropy[0], hard_acceptance=entropy[1], hard_fraction=entropy[2])
    return FixedAcceptance(acceptance=acceptance)


def _append(path: Path, frame: pl.DataFrame) -> None:
    """Add the row to a CSV of such rows, which is begun if there is none; the file is replaced in one step."""
    with folder_lock(path):
        write_bytes(path, _appended(path, frame))


def _appended(path: Path, frame: pl.DataFrame) -> bytes:
    header, row = frame.write_csv().encode().split(b"\n", 1)
    earlier = _earlier_rows(path)
    if earlier and earlier.split(b"\n", 1)[0] != header:
        found = earlier[:80].split(b"\n", 1)[0].decode(errors="replace")
        remedy = "choose another --summary-out"
        raise BadInput("its columns are not those of this summary", file=str(path), value=found, remedy=remedy)
    last = earlier.rstrip(b"\n").rpartition(b"\n")[2]
    if last.count(b",") != header.count(b",") and earlier:
        remedy = "complete or delete its last line"
        raise BadInput(
            "its last line breaks off", file=str(path), value=last[:60].decode(errors="replace"), remedy=remedy
        )
    ended = b"" if earlier.endswith(b"\n") or not earlier else b"\n"
    return (earlier or header + b"\n") + ended + row


def _earlier_rows(path: Path) -> bytes:
    if not path.exists() or (path.is_file() and path.stat().st_size == 0):
        return b""
    if check_readable(path) > DOCUMENT_LIMIT_BYTES:
        limit = f"is over the limit of {DOCUMENT_LIMIT_BYTES / 1e6:.0f} MB"
        raise BadInput(limit, file=str(path), remedy="choose another --summary-out")
    return path.read_bytes()
