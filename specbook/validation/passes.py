"""The times of the passes of many settings, once; fitting and predicting then need nothing but arithmetic."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specbook.checks import Floats
from specbook.roofline.hosted import draft_passes, small_rows
from specbook.validation.device_counts import with_counts
from specbook.validation.settings import MissingRow, Setting
from specbook.validation.step_times import StepTimes


@dataclass(frozen=True, kw_only=True, slots=True)
class Passes:
    """What the model says of n settings, and what was measured of them without speculation; each (n,) of float64.

    Attributes
    ----------
    step_s, verify_s : ndarray
        The target's pass over one position of each sequence, and over all positions of a verify pass.
    draft_s : ndarray
        Drafting of a round, as products and attention.
    n_draft_passes : ndarray
        Sequential passes in it; 1 for heads that draft at once, 0 for a look-up.
    n_further_rows, n_small_rows : ndarray
        Positions of a verify pass beyond one of each sequence: all, and those that kernels for few rows take.
    tokens_per_round : ndarray
    baseline_tpot_s : ndarray
        Measured seconds a token of one stream without speculation; NaN where no speeds were published.
    fastest_tpot_s : ndarray
        The shortest of these in the same setting, whatever the workload.
    """

    step_s: Floats
    verify_s: Floats
    draft_s: Floats
    n_draft_passes: Floats
    n_further_rows: Floats
    n_small_rows: Floats
    tokens_per_round: Floats
    baseline_tpot_s: Floats
    fastest_tpot_s: Floats

    def part(self, chosen: NDArray[Any]) -> Passes:
        """Some of them, by index or mask."""
        return Passes(**{item.name: getattr(self, item.name)[chosen] for item in fields(self)})


def passes_of(found: Sequence[Setting], times: StepTimes | None = None) -> Passes:
    """Times of the passes of each setting.

    Parameters
    ----------
    found : sequence of Setting
        Each with a number of devices.
    times : StepTimes, optional

    Returns
    -------
    Passes

    Examples
    --------
    >>> from specbook.validation.settings import example_setting
    >>> passes = passes_of([example_setting()])
    >>> print((1e3 * passes.step_s).round(1), passes.n_draft_passes)
    [4.8] [3.]
    """
    known = times or StepTimes()
    rows = [_row(setting, known) for setting in found]
    columns = np.array(rows, dtype=np.float64).reshape(len(rows), 6).T
    return Passes(
        step_s=columns[0],
        verify_s=columns[1],
        draft_s=columns[2],
        n_draft_passes=columns[3],
        n_further_rows=columns[4],
        n_small_rows=columns[5],
        tokens_per_round=np.array([each.tokens_per_round for each in found], dtype=np.float64),
        baseline_tpot_s=baselines(found),
        fastest_tpot_s=fastest_baselines(found),
    )


def passes_of_rows(meanings: Iterable[Setting | MissingRow]) -> tuple[list[Setting], Passes]:
    """Times of the passes of those rows that can be predicted.

    Parameters
    ----------
    meanings : iterable of Setting or MissingRow

    Returns
    -------
    list of Setting
        Those among them, each with a number of devices.
    Passes

    Examples
    --------
    >>> from specbook.validation.settings import example_series, settings
    >>> found, passes = passes_of_rows(settings(example_series().rows))
    >>> [each.n_devices for each in found], passes.n_draft_passes
    ([1, 1, 1], array([3., 5., 7.]))
    """
    times = StepTimes()
    found = counted_settings(meanings, times)
    return found, passes_of(found, times)


def counted_settings(meanings: Iterable[Setting | MissingRow], times: StepTimes) -> list[Setting]:
    """Those rows that can be predicted, each with a number of devices, by the fastest run without speculation.

    Parameters
    ----------
    meanings : iterable of Setting or MissingRow
    times : StepTimes

    Examples
    --------
    >>> from specbook.validation.settings import example_series, settings
    >>> {each.devices_from for each in counted_settings(settings(example_series().rows), StepTimes())}
    {'inferred'}
    """
    found = [each for each in meanings if isinstance(each, Setting)]
    return with_counts(found, fastest_baselines(found).tolist(), times)


def _row(setting: Setting, times: StepTimes) -> tuple[float, ...]:
    step = times.target(setting.device, setting.target, setting.precision, setting.n_devices or 1)
    drafter = times.drafter(setting)
    at = (float(setting.batch), setting.context_tokens)
    width = float(drafter.verify_width(setting.n_nodes))
    step_s, verify_s = np.asarray(step(np.array([1.0, width]), *at)).tolist()
    draft_s = float(drafter.seconds(setting.depth, setting.n_nodes, *at)) if setting.depth else 0.0
    passes = float(draft_passes(drafter, setting.depth))
    small = float(small_rows(width, setting.batch))
    return step_s, verify_s, draft_s, passes, (width - 1.0) * setting.batch, small


def baselines(found: Sequence[Setting]) -> Floats:
    """Measured seconds a token of one stream without speculation, (n,); NaN where no speed was published."""
    return np.array([_or_nan(each.baseline_tpot_s) for each in found], dtype=np.float64)


def fastest_baselines(found: Sequence[Setting]) -> Floats:
    """The shortest baseline among all workloads of a setting's target, devices, engine and batch, (n,)."""
    shortest: dict[tuple[Any, ...], float] = {}
    keys = [_same_server(each) for each in found]
    for key, setting in zip(keys, found, strict=True):
        if setting.baseline_tpot_s is not None:
            shortest[key] = min(setting.baseline_tpot_s, shortest.get(key, math.inf))
    return np.array([shortest.get(key, math.nan) for key in keys], dtype=np.float64)


def _same_server(setting: Setting) -> tuple[Any, ...]:
    row = setting.row
    place = (row.source, row.hardware, row.engine, row.target, setting.precision, setting.batch, row.n_devices)
    return (*place, row.context_tokens, row.prompt_tokens)


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value
