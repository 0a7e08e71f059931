"""Recorded traces as workloads: one module a format, each recognised by content."""

from specbook.serving.traces.formats import FORMATS
from specbook.serving.traces.reading import Trace, example_trace, read_trace, stream_trace
from specbook.serving.traces.tally import Tally

__all__ = ["FORMATS", "Tally", "Trace", "example_trace", "read_trace", "stream_trace"]
