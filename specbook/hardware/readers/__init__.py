"""Readers of step times that others have measured: one module a format, each recognised by content."""

from specbook.hardware.readers.formats import FORMATS
from specbook.hardware.readers.importing import StepTimeOptions, import_step_times

__all__ = ["FORMATS", "StepTimeOptions", "import_step_times"]
