"""The series that ship with specbook: measured settings that others published, each with its source."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from specbook.files import read_json
from specbook.validation.series import SeriesFile, read_series

_FOLDER = Path(__file__).parent / "published"


@dataclass(frozen=True, kw_only=True, slots=True)
class SeriesLicence:
    """On what terms the figures of a source are here, and which they are.

    Attributes
    ----------
    source : str
        As in the column of that name.
    licence : str
        That of the source's files, or "figures only" where nothing but facts was taken.
    url, taken : str
        Where to read it, and what of it is here.
    holder : str or None
        Who has to be named.
    key : str or None
        Its key in the bibliography.
    """

    source: str
    licence: str
    url: str
    taken: str
    holder: str | None = None
    key: str | None = None


@cache
def published_series() -> SeriesFile:
    """Measured settings that others published: one model and device each, with K, batch or workload varied.

    Returns
    -------
    SeriesFile
        Chains, and trees where ``drafter`` or ``note`` says so. Many rows lack something, such as the device, the
        baseline or the acceptance: an empty cell is what the source does not state.

    References
    ----------
    specbundle, eagle2025, specbench, speedbench2026, magicdec2024, vllm20780, pocketllm60, illusion2026, llamacpp24508,
    llamacpp12603

    Examples
    --------
    >>> table = published_series()
    >>> [row.speedup for row in table.rows if row.source == "eagle2025 table 5" and row.batch == 56]
    [0.71, 1.01]
    """
    return read_series(_FOLDER / "series.csv")


@cache
def series_licences() -> dict[str, SeriesLicence]:
    """The terms of every source of :func:`published_series`, by source.

    Examples
    --------
    >>> series_licences()["specbench"].url
    'https://github.com/hemingkx/Spec-Bench'
    """
    entries = read_json(_FOLDER / "licences.json")["sources"]
    return {entry["source"]: SeriesLicence(**entry) for entry in entries}


def licence_text(licence: str) -> str | None:
    """What has to accompany the figures of a source under this licence; None if nothing has.

    Examples
    --------
    >>> licence_text("CC BY 4.0")
    'https://creativecommons.org/licenses/by/4.0/'
    """
    lines = read_json(_FOLDER / "licences.json")["licence_texts"].get(licence)
    return None if lines is None else "\n".join(lines)
