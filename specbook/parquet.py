"""Tables as Parquet files, encoded in memory: a full disk is met by our own atomic write and not by the encoder."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from specbook.files import write_bytes


def parquet_bytes(frame: pl.DataFrame, metadata: Mapping[str, str] | None = None) -> bytes:
    """A table as the bytes of a Parquet file.

    Parameters
    ----------
    frame : DataFrame
    metadata : mapping of str to str, or None
        What the file says of itself.

    Examples
    --------
    >>> parquet_bytes(pl.DataFrame({"x": [1]}), {"specbook.schema": "specbook-example/1"})[:4]
    b'PAR1'
    """
    buffer = io.BytesIO()
    frame.write_parquet(buffer, metadata=None if metadata is None else dict(metadata))
    return buffer.getvalue()


def write_parquet(path: Path, frame: pl.DataFrame, metadata: Mapping[str, str] | None = None) -> None:
    """Write a table, whole or not at all.

    Raises
    ------
    BadInput
        If it cannot be written.
    """
    write_bytes(path, parquet_bytes(frame, metadata))


def join_parquet(parts: Sequence[Path], path: Path) -> None:
    """Join files of the same columns, in little memory, into one that :func:`~specbook.files.write_atomically` names.

    Raises
    ------
    OSError
        If the system does not let it be written.
    """
    try:
        pl.scan_parquet(list(parts)).sink_parquet(path, engine="streaming")
    except pl.exceptions.ComputeError as error:
        # The encoder tells of the system's error by its number alone.
        number = re.search(r"os error (\d+)", str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1]))) from None
