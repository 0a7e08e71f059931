"""Tables on a disk that is full: one line, and nothing half there."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import polars as pl
import pytest

from specbook.checks import BadInput
from specbook.files import write_atomically
from specbook.parquet import join_parquet, parquet_bytes, write_parquet

FULL = Path("/dev/full")
FRAME = pl.DataFrame({"x": [1, 2], "y": ["a", None]})


def test_a_table_comes_back_with_what_it_says_of_itself(tmp_path: Path):
    path = tmp_path / "folder" / "t.parquet"
    write_parquet(path, FRAME, {"specbook.schema": "specbook-example/1"})
    assert pl.read_parquet(path).equals(FRAME)
    assert pl.read_parquet_metadata(path)["specbook.schema"] == "specbook-example/1"
    assert path.read_bytes() == parquet_bytes(FRAME, {"specbook.schema": "specbook-example/1"})


def test_parts_are_joined_in_their_order(tmp_path: Path):
    parts = [tmp_path / f"{number}.parquet" for number in (2, 1)]
    for part, number in zip(parts, (2, 1), strict=True):
        write_parquet(part, pl.DataFrame({"x": [number]}))
    write_atomically(tmp_path / "whole.parquet", lambda path: join_parquet(parts, path))
    assert pl.read_parquet(tmp_path / "whole.parquet")["x"].to_list() == [2, 1]


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is always full")
def test_a_full_disk_is_an_error_of_the_system(tmp_path: Path):
    write_parquet(tmp_path / "part.parquet", FRAME)
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)) as full:
        join_parquet([tmp_path / "part.parquet"], FULL)
    assert full.value.errno == errno.ENOSPC


def test_a_part_that_is_none_is_not_taken_for_one(tmp_path: Path):
    (tmp_path / "part.parquet").write_bytes(b"no table")
    with pytest.raises(pl.exceptions.ComputeError):
        join_parquet([tmp_path / "part.parquet"], tmp_path / "whole.parquet")


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot be written"):
        write_parquet(tmp_path / "file" / "t.parquet", FRAME)
