"""Many simulations on a terminal: a row a configuration, with the mean over the seeds and its range."""

from __future__ import annotations

from collections.abc import Sequence

from specbook.display.tables import fitting_table, open_console, say
from specbook.hardware.readers.rows import counted
from specbook.serving.runs_file import ServingRunsFile
from specbook.serving.spread import ConfigurationSpread, Spread

_TAILS = {"ttft_s": "TTFT", "tpot_s": "TPOT", "e2e_s": "request"}


def show_runs(document: ServingRunsFile, configurations: Sequence[ConfigurationSpread]) -> None:
    """A table of the configurations, then why any of them is dropped, and which one is best.

    Parameters
    ----------
    document : ServingRunsFile
    configurations : sequence of ConfigurationSpread
    """
    point = f"p{document.parameters.slo.percentile}"
    n_seeds = len(document.seeds)
    say(document.notes[0])
    many = n_seeds > 1
    title = f"{counted(n_seeds, 'seed')}, {document.step_time_kind} step times; {point}" + (
        ", mean over seeds and its range" if many else ""
    )
    rows = [_row(each, point, many) for each in configurations]
    # What a narrow terminal does without, the first of them first.
    spared = (">blocks", ">goodput", f">request {point} ms", ">tokens/s")
    open_console().print(fitting_table(rows, spared=spared, title=title))
    for each in configurations:
        _say_why_dropped(each)
    best = document.best
    say("nothing stays at every seed" if best is None else f"shortest TPOT of those that stay: {best}")


def _say_why_dropped(each: ConfigurationSpread) -> None:
    if not each.stays:
        seed, reason = next(iter(each.dropped.items()))
        say(
            f"{each.name} is dropped at {len(each.dropped)} of {counted(each.n_runs, 'seed')}, at {seed} since {reason}"
        )


def _row(each: ConfigurationSpread, point: str, many: bool) -> dict[str, str | None]:
    row: dict[str, str | None] = {"engine": each.name, ">blocks": f"{each.kv_blocks:,}"}
    for figure, text in _TAILS.items():
        row[f">{text} {point} ms"] = _text(each.figures[figure], 1e3, "{:,.1f}", many)
    row[">TPOT gain"] = _text(each.figures["tpot_gain"], 1.0, "{:.2f}", many)
    row[">tokens/s"] = _text(each.figures["throughput_tokens_per_s"], 1.0, "{:,.0f}", many)
    row[">goodput"] = _text(each.figures["goodput_requests_per_s"], 1.0, "{:,.2f}", many)
    row[">stays"] = f"{each.n_runs - len(each.dropped)} of {each.n_runs}"
    return row


def _text(spread: Spread | None, scale: float, form: str, many: bool) -> str | None:
    if spread is None:
        return None
    mean, lowest, highest = (form.format(scale * each) for each in (spread.mean, spread.lowest, spread.highest))
    return f"{mean} ({lowest}–{highest})" if many else mean
