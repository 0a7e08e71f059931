"""Run a simulation, and keep its rows: in memory, or in files as it goes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl

from specbook.files import to_json, write_atomically, write_text
from specbook.parquet import join_parquet, write_parquet
from specbook.progress import Progress, silent
from specbook.serving.arrivals import ClosedLoop
from specbook.serving.chances import Chances
from specbook.serving.recorder import Recorder
from specbook.serving.serving_config import ServingConfig
from specbook.serving.simulator import drive
from specbook.serving.slo import Slo
from specbook.serving.sources import ClosedSource, OpenSource
from specbook.serving.summary import ServingSummary, summarise
from specbook.serving.workload import Workload


@dataclass(frozen=True, kw_only=True)
class ServingResult:
    """What a simulation gives back.

    Attributes
    ----------
    config : ServingConfig
    requests : DataFrame
        One row per request that ended, in the order of arrival.
    iterations : DataFrame
        One row per iteration, in the order of their ends within a replica.
    summary : ServingSummary
    """

    config: ServingConfig
    requests: pl.DataFrame
    iterations: pl.DataFrame
    summary: ServingSummary


def simulate_serving(
    config: ServingConfig,
    workload: Workload,
    *,
    rng: np.random.Generator | Chances,
    loop: ClosedLoop | None = None,
    slo: Slo | None = None,
    flops_per_token: float | None = None,
    progress: Progress = silent,
) -> ServingResult:
    """Simulate an engine under a workload.

    Parameters
    ----------
    config : ServingConfig
    workload : Workload
    rng : Generator or Chances
        For acceptance alone: the same one gives two configurations the same luck, request by request. Chances, such as
        :class:`~specbook.serving.recorded_chances.RecordedChances`, replay rounds that were recorded.
    loop : ClosedLoop or None
        Clients that wait for their answers; the workload's arrival times do not count then.
    slo : Slo or None
        For goodput.
    flops_per_token : float or None
        Arithmetic of one position of the target's pass, for the waste.
    progress : callable
        Called with 1 for each request that arrives.

    Returns
    -------
    ServingResult
        A pure function of the arguments and the generator's state.

    Raises
    ------
    BadInput
        If a request can never run, or requests preempt each other without end.

    References
    ----------
    vidur2024, kwon2023

    Examples
    --------
    >>> from specbook.serving.iteration_time import ConstantIterationTime
    >>> from specbook.serving.kv_blocks import KvConfig
    >>> workload = Workload(arrival_s=[0.0, 0.25], prompt_tokens=[100, 100], output_tokens=[3, 3])
    >>> config = ServingConfig(kv=KvConfig(n_blocks=64), iteration_time=ConstantIterationTime(seconds=0.5))
    >>> result = simulate_serving(config, workload, rng=np.random.default_rng(0))
    >>> print(result.requests.select("first_token_s", "end_s").rows())
    [(0.5, 1.5), (1.0, 2.0)]
    """
    requests: list[pl.DataFrame] = []
    iterations: list[pl.DataFrame] = []
    recorder = Recorder(requests.append, iterations.append)
    source = OpenSource([workload]) if loop is None else ClosedSource(workload, loop)
    n_unfinished = drive(config, source, recorder, rng, progress)
    recorder.close()
    rows = (pl.concat(requests, rechunk=True), pl.concat(iterations, rechunk=True))
    summary = summarise(rows[0].lazy(), recorder, config, n_unfinished, slo, flops_per_token, is_open=loop is None)
    return ServingResult(config=config, requests=rows[0], iterations=rows[1], summary=summary)


def stream_serving(
    config: ServingConfig,
    parts: Iterable[Workload],
    folder: Path,
    *,
    rng: np.random.Generator,
    slo: Slo | None = None,
    flops_per_token: float | None = None,
    progress: Progress = silent,
) -> ServingSummary:
    """Simulate a long trace, and write its rows to files as it goes.

    Memory hardly grows with the trace: rows are written in parts that are joined at the end, and percentiles are taken
    from one column at a time, some tens of bytes a request.

    Parameters
    ----------
    config, rng, slo, flops_per_token, progress
        As in :func:`simulate_serving`.
    parts : iterable of Workload
        Parts of the trace, one after the other, as
        :func:`~specbook.serving.traces.reading.stream_trace` gives them.
    folder : Path
        Gets ``requests.parquet`` and ``iterations.parquet``, each whole or not at all.

    Returns
    -------
    ServingSummary
    """
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".simulate-", dir=folder) as scratch:
        requests, iterations = (_PartWriter(Path(scratch), name) for name in ("requests", "iterations"))
        recorder = Recorder(requests.write, iterations.write)
        n_unfinished = drive(config, OpenSource(parts), recorder, rng, progress)
        recorder.close()
        write_atomically(folder / "requests.parquet", requests.join)
        write_atomically(folder / "iterations.parquet", iterations.join)
    rows = pl.scan_parquet(folder / "requests.parquet")
    return summarise(rows, recorder, config, n_unfinished, slo, flops_per_token)


class _PartWriter:
    """Writes frames as parts of one Parquet file."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self._paths: list[Path] = []

    def write(self, frame: pl.DataFrame) -> None:
        path = self._folder / f"{self._name}-{len(self._paths):06d}.parquet"
        write_parquet(path, frame)
        self._paths.append(path)

    def join(self, path: Path) -> None:
        join_parquet(self._paths, path)


def write_result(result: ServingResult, folder: Path, about: dict[str, object]) -> None:
    """Write a result's rows and figures, each file whole or not at all.

    Parameters
    ----------
    result : ServingResult
    folder : Path
    about : dict
        What else ``summary.json`` says: inputs, seeds, assumptions.
    """
    write_parquet(folder / "requests.parquet", result.requests)
    write_parquet(folder / "iterations.parquet", result.iterations)
    write_summary(result.summary, folder, about)


def write_summary(summary: ServingSummary, folder: Path, about: dict[str, object]) -> None:
    """Write ``summary.json``."""
    write_text(folder / "summary.json", to_json({**about, **summary.as_dict()}))
