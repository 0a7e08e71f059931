"""What of a fleet to fit, and how."""

from __future__ import annotations

from dataclasses import dataclass

from specbook.checks import BadInput
from specbook.validation.fleet_constants import CONSTANTS

_FEWEST_RESAMPLES = 200
_FEWEST_SERIES_HELD = 3


@dataclass(frozen=True, kw_only=True)
class FleetConfig:
    """What to fit, and how.

    Attributes
    ----------
    constants : tuple of str
        Of ``step``, ``layer``, ``kv_passes``, ``mbu``, ``mfu``; the others keep the base calibration's value.
    name : str or None
        Of the new calibration; without one, the engine's.
    hold_out_every : int
        Every so manieth series is held back, or row where there are fewer series.
    n_resamples : int
        At least 200.
    device, engine : str or None
        Which rows to take, where there are several kinds.
    series_name, series_sha256 : str
        Of the file, for the source of the calibration.

    Raises
    ------
    BadInput
        If a name is unknown or a number too small.

    Examples
    --------
    >>> FleetConfig(constants=("step", "mbu")).hold_out_every
    3
    """

    constants: tuple[str, ...] = CONSTANTS
    name: str | None = None
    hold_out_every: int = 3
    n_resamples: int = _FEWEST_RESAMPLES
    device: str | None = None
    engine: str | None = None
    series_name: str = "a series"
    series_sha256: str = ""

    def __post_init__(self) -> None:
        unknown = [each for each in self.constants if each not in CONSTANTS]
        if unknown or not self.constants or len(set(self.constants)) < len(self.constants):
            remedy = f"any of {', '.join(CONSTANTS)}, each once"
            value = unknown[0] if unknown else ",".join(self.constants)
            raise BadInput("no such constants to fit", field="fit", value=value, remedy=remedy)
        _check_least("hold_out_every", self.hold_out_every, 2)
        _check_least("n_resamples", self.n_resamples, _FEWEST_RESAMPLES)
        if self.name is not None and not (self.name.strip() and self.name.isprintable()):
            remedy = "a word such as the engine's, as --backend will take it"
            raise BadInput("names no calibration", field="name", value=self.name, remedy=remedy)

    def holds_back_series(self, n_series: int) -> bool:
        """Whether there are series enough to hold some back whole; if not, rows are held back.

        Examples
        --------
        >>> FleetConfig().holds_back_series(2)
        False
        """
        return n_series >= max(self.hold_out_every, _FEWEST_SERIES_HELD)


def _check_least(field: str, value: int, least: int) -> None:
    if value < least:
        raise BadInput("is too small", field=field, value=value, remedy=f"a whole number from {least}")
