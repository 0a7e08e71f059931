"""Weights files: what they keep, to which precision, and every way to spoil one."""

from __future__ import annotations

import json
import pickle
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from specbook.checks import BadInput
from specbook.engine.drafters.eagle import EagleHead
from specbook.engine.drafters.early_exit import EarlyExitDrafter
from specbook.engine.drafters.medusa import MedusaHeads
from specbook.engine.library import FOLDER, load_target, stored
from specbook.engine.weights import (
    SCHEMA,
    StoredWeights,
    check_shapes,
    quantised,
    read_weights,
    stored_number,
    stored_spec,
    write_weights,
)
from specbook.files import sha256_of
from tests.tiny_models import SIZES, random_tensors, tiny_spec

HEADER = {"schema": SCHEMA, "kind": "transformer", "config": {}}
SIZES_IN_BYTES = {"I8": 1, "F16": 2, "BF16": 2, "F32": 4, "F64": 8, "F8_E4M3": 1}


def safetensors(tensors: dict[str, tuple[str, list[int], bytes]], header: object = HEADER) -> bytes:
    """A safetensors file from element types, shapes and bytes, with any header of ours."""
    metadata = {} if header is None else {"specbook": header if isinstance(header, str) else json.dumps(header)}
    table: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    for name, (dtype, shape, raw) in tensors.items():
        table[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + len(raw)]}
        end += len(raw)
    text = json.dumps(table).encode()
    return struct.pack("<Q", len(text)) + text + b"".join(raw for _, _, raw in tensors.values())


def float32s(*values: float) -> tuple[str, list[int], bytes]:
    return "F32", [len(values)], struct.pack(f"<{len(values)}f", *values)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A good file of a tiny model."""
    path = tmp_path / "w.safetensors"
    write_weights(path, kind="transformer", config=dict(SIZES), tensors=random_tensors(tiny_spec()))
    return path


def test_write_and_read_keep_kind_configuration_names_and_shapes(written: Path):
    found, wanted = read_weights(written, sha256_of(written)), random_tensors(tiny_spec())
    assert (found.kind, found.config, found.sha256) == ("transformer", SIZES, sha256_of(written))
    assert {name: values.shape for name, values in found.tensors.items()} == tiny_spec().shapes()
    assert {values.dtype for values in found.tensors.values()} == {np.dtype(np.float32)}
    assert np.array_equal(found.tensors["final_norm"], wanted["final_norm"])


def test_write_what_was_read_is_byte_identical(written: Path, tmp_path: Path):
    read = read_weights(written)
    write_weights(tmp_path / "again.safetensors", kind=read.kind, config=read.config, tensors=read.tensors)
    assert (tmp_path / "again.safetensors").read_bytes() == written.read_bytes()


def test_write_twice_is_byte_identical(written: Path, tmp_path: Path):
    tensors = random_tensors(tiny_spec())
    write_weights(tmp_path / "again.safetensors", kind="transformer", config=dict(SIZES), tensors=tensors)
    assert (tmp_path / "again.safetensors").read_bytes() == written.read_bytes()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("shape", [(2,), (2, 2)])
def test_write_weight_that_is_not_finite_is_refused_and_nothing_written(tmp_path: Path, value: float, shape: tuple):
    with pytest.raises(ValueError, match=r"^down must be finite; got "):
        write_weights(tmp_path / "w", kind="t", config={}, tensors={"down": np.full(shape, value, np.float32)})
    assert list(tmp_path.iterdir()) == []


def test_write_weight_too_large_for_its_scale_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match=r"^scale must be finite; got inf$"):
        write_weights(tmp_path / "w", kind="t", config={}, tensors={"down": np.array([[1.0, 1e7]], np.float32)})


matrices = arrays(
    np.float32,
    array_shapes(min_dims=2, max_dims=2, max_side=6),
    elements=st.floats(-8e6, 8e6, width=32, allow_subnormal=False),
)


@given(matrices)
def test_quantised_any_matrix_is_off_by_half_a_scale_at_most(matrix: np.ndarray):
    rows, scale = quantised(matrix)
    step = scale.astype(np.float64)[:, None]
    error = np.abs(rows * step - matrix)
    assert rows.min() >= -127
    # A scale below 6e-5 is a subnormal float16 with a coarser grid, whose own step is 6e-8.
    assert (error <= step * (0.5 + 1e-6) + 127 * 2.0**-24).all()


@given(matrices)
def test_quantised_twice_is_quantised_once(matrix: np.ndarray):
    rows, scale = quantised(matrix)
    once = rows.astype(np.float32) * scale.astype(np.float32)[:, None]
    again, same_scale = quantised(once)
    assert (
        np.abs(again * same_scale.astype(np.float64)[:, None] - once).max()
        <= 127 * 2.0**-24 + 1e-6 * np.abs(once).max()
    )


def test_quantised_entry_beyond_a_coarse_scale_is_clipped_evenly():
    largest = np.float32(127 * 2.5 * 2.0**-24)  # its scale rounds down to 2 · 2⁻²⁴, of which it is 159
    rows, _ = quantised(np.array([[-largest, largest]]))
    assert rows.tolist() == [[-127, 127]]


def test_quantised_row_of_zeros_stays_zero():
    rows, scale = quantised(np.zeros((2, 3), np.float32))
    assert (rows.any(), scale.tolist()) == (False, [0.0, 0.0])


DAMAGES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "nothing but text": (lambda raw: b"hello, world", r"is no safetensors file \(.*\)"),  # noqa: ARG005
    "a pickle": (lambda raw: pickle.dumps({"down": [1.0]}), r"is no safetensors file \(.*\)"),  # noqa: ARG005
    "an archive": (lambda raw: b"PK\x03\x04" + raw, r"is no safetensors file \(.*\)"),
    "one byte short": (lambda raw: raw[:-1], r"is no safetensors file \(.*\)"),
    "half": (lambda raw: raw[: len(raw) // 2], r"is no safetensors file \(.*\)"),
    "cut in the header": (lambda raw: raw[:20], r"is no safetensors file \(.*\)"),
    "a length alone": (lambda raw: raw[:8], r"is no safetensors file \(.*\)"),
    "one byte more": (lambda raw: raw + b"\0", r"is no safetensors file \(.*\)"),
    "header said to be huge": (lambda raw: struct.pack("<Q", 2**62) + raw[8:], r"is no safetensors file \(.*\)"),
    "empty": (lambda raw: b"", r"is empty"),  # noqa: ARG005
}


@pytest.mark.parametrize(("damage", "problem"), DAMAGES.values(), ids=DAMAGES)
def test_read_damaged_file_is_refused_in_one_line(written: Path, damage: Callable[[bytes], bytes], problem: str):
    written.write_bytes(damage(written.read_bytes()))
    with pytest.raises(BadInput, match=rf"^{written}: {problem}; [a-z ,]+$"):
        read_weights(written)


CONTENTS: dict[str, tuple[bytes, str]] = {
    "no header": (safetensors({"a": float32s(1.0)}, None), r"schema = None: unknown schema"),
    "header no JSON": (safetensors({"a": float32s(1.0)}, "{"), r"schema = None: unknown schema"),
    "header nested deeply": (safetensors({"a": float32s(1.0)}, "[" * 100_000), r"schema = None: unknown schema"),
    "header a list": (safetensors({"a": float32s(1.0)}, []), r"schema = \[\]: unknown schema"),
    "other schema": (safetensors({}, {"schema": "specbook-weights/2"}), r"schema = 'specbook-weights/2': unknown"),
    "no kind": (safetensors({}, {"schema": SCHEMA, "config": {}}), r"specbook: states no kind and configuration"),
    "config a list": (safetensors({}, HEADER | {"config": []}), r"specbook: states no kind and configuration"),
    "NaN": (safetensors({"final_norm": float32s(1.0, np.nan)}), r"final_norm: holds NaN or infinite weights"),
    "NaN scale": (
        safetensors({"down.int8": ("I8", [1, 2], b"\1\2"), "down.scale": ("F16", [1], b"\0\x7e")}),
        r"down: holds NaN or infinite weights",
    ),
    "too large for float32": (
        safetensors({"final_norm": ("F64", [1], struct.pack("<d", 1e300))}),
        r"final_norm: holds NaN or infinite weights",
    ),
    "no scale": (safetensors({"down.int8": ("I8", [1, 2], b"\1\2")}), r"down: has no scale"),
    "scale of other rows": (
        safetensors({"down.int8": ("I8", [1, 2], b"\1\2"), "down.scale": ("F16", [2], b"\0\x3c\0\x3c")}),
        r"down: has int8 rows \(1, 2\) and scale \(2,\)",
    ),
    "rows a vector": (
        safetensors({"down.int8": ("I8", [2], b"\1\2"), "down.scale": ("F16", [2], b"\0\x3c\0\x3c")}),
        r"down: has int8 rows \(2,\) and scale \(2,\)",
    ),
    "rows of floats": (
        safetensors({"down.int8": ("F16", [1, 1], b"\0\x3c"), "down.scale": ("F16", [1], b"\0\x3c")}),
        r"down: has float16 rows \(1, 1\) and scale \(1,\)",
    ),
    "bfloat16": (safetensors({"a": ("BF16", [1], b"\0\0")}), r"is no safetensors file \(.*bfloat16.*\)"),
    "float8": (safetensors({"a": ("F8_E4M3", [1], b"\0")}), r"is no safetensors file \(.*float8.*\)"),
    "unknown element type": (safetensors({"a": ("F9", [1], b"\0")}), r"is no safetensors file \(.*\)"),
    "shape of other bytes": (safetensors({"a": ("F32", [2], b"\0\0\0\0")}), r"is no safetensors file \(.*\)"),
}


@pytest.mark.parametrize(("raw", "problem"), CONTENTS.values(), ids=CONTENTS)
def test_read_impossible_content_is_refused_in_one_line(save, raw: bytes, problem: str):
    path = save("w.safetensors", raw)
    with pytest.raises(BadInput, match=rf"^{path}: {problem}.*; [a-z ,]+({SCHEMA})?$") as caught:
        read_weights(path)
    assert "\n" not in str(caught.value)


@given(st.integers(0, 3999), st.binary(max_size=3))
def test_read_beginning_with_any_damage_is_refused_in_one_line(place: int, damage: bytes):
    raw = bytearray((FOLDER / "draft.safetensors").read_bytes()[:4000])
    raw[place : place + 1] = damage
    with tempfile.NamedTemporaryFile() as stream:
        stream.write(raw)
        stream.flush()
        with pytest.raises(BadInput, match=r"^[^\n]+$"):
            read_weights(Path(stream.name))


def test_read_other_hash_is_refused_before_anything_is_parsed(save):
    path = save("w.safetensors", b"hello, world")
    with pytest.raises(
        BadInput, match=rf"^{path}: hashes to 09ca7e4eaa6e…, not abababababab…; export the weights again"
    ):
        read_weights(path, "ab" * 32)


def test_read_folder_and_missing_file_are_refused(tmp_path: Path):
    with pytest.raises(BadInput, match=r"is a directory; name the file inside it$"):
        read_weights(tmp_path)
    with pytest.raises(BadInput, match=r"no such file or directory; check the path and its permissions$"):
        read_weights(tmp_path / "none.safetensors")


def test_check_shapes_missing_tensor_is_named():
    with pytest.raises(BadInput, match=r"^w: layers\.0\.down: is missing; "):
        check_shapes({}, {"layers.0.down": (2, 3)}, "w")


def test_check_shapes_other_shape_is_named():
    with pytest.raises(
        BadInput, match=r"^w: down: has shape \(3, 2\), not \(2, 3\); the configuration and the weights"
    ):
        check_shapes({"down": np.ones((3, 2), np.float32)}, {"down": (2, 3)}, "w")


def _stored(config: dict[str, object], tensors: dict[str, np.ndarray] | None = None) -> StoredWeights:
    return StoredWeights(kind="transformer", config=config, sha256="", tensors=tensors or {})


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"n_layers": "4"}, r"n_layers must be a number of type int; got '4'"),
        ({"n_layers": 4.0}, r"n_layers must be a number of type int; got 4\.0"),
        ({"n_layers": None}, r"n_layers must be a number of type int; got None"),
        ({"n_layers": 10**400}, r"int too large to convert to float"),
        ({"n_heads": 0}, r"n_heads must be whole and at least 1; got 0\.0"),
        ({"rope_theta": [1]}, r"rope_theta must be a number of type int \| float; got \[1\]"),
    ],
)
def test_stored_spec_impossible_configuration_is_refused(changes: dict[str, object], problem: str):
    with pytest.raises(BadInput, match=rf"^w: config: states no transformer \({problem}\); "):
        stored_spec(_stored(SIZES | changes), "w")


def test_stored_spec_incomplete_configuration_is_refused():
    with pytest.raises(BadInput, match=r"^w: config: states no transformer \(.*missing.*n_vocab.*\); "):
        stored_spec(_stored({}), "w")


@pytest.mark.parametrize("value", [None, "8", True, 0, -1.0, float("nan"), float("inf"), [8]])
def test_stored_number_that_is_none_above_zero_is_refused(value: object):
    with pytest.raises(BadInput, match=r"^w: config\.embedding_scale = .*: is no number above 0; "):
        stored_number(_stored({"embedding_scale": value}), "embedding_scale", "w")


@pytest.mark.parametrize(
    ("make", "name", "lacking"),
    [
        (EagleHead, "eagle", "config.embedding_scale"),
        (MedusaHeads, "medusa", "config.n_heads"),
        (EarlyExitDrafter, "medusa", "config.n_exits"),
        (EagleHead, "eagle", "combine"),
        (EagleHead, "eagle", "layers.0.down"),
        (MedusaHeads, "medusa", "heads.3.gain"),
        (EarlyExitDrafter, "medusa", "exits.1"),
    ],
)
def test_head_that_lacks_something_is_refused(make, name: str, lacking: str):
    good = stored(name)
    config = {key: value for key, value in good.config.items() if f"config.{key}" != lacking}
    tensors = {key: value for key, value in good.tensors.items() if key != lacking}
    with pytest.raises(BadInput, match=rf"^{name}: {lacking}( = None)?: is "):
        make(StoredWeights(kind=good.kind, config=config, sha256="", tensors=tensors), load_target())
