"""Weights as files: safetensors with int8 rows and a float16 scale a row, checked before anything is computed.

A matrix ``X`` is stored as ``X.int8`` (n_out, n_in) and ``X.scale`` (n_out,); a vector under its own name as float32.
The dequantised values are the model: nothing is computed in int8. No pickle is read or written.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from specbook.checks import BadInput, check_finite
from specbook.engine.transformer_spec import TransformerSpec
from specbook.files import check_readable, sha256_of, write_atomically

Float32s = NDArray[np.float32]
Tensors = Mapping[str, Float32s]

SCHEMA = "specbook-weights/1"

# One entry alone, since safetensors writes several in no fixed order and the file would hash differently each time.
_HEADER = "specbook"
_AGAIN = "export the weights again, or install specbook anew"
_LARGEST = 127.0


@dataclass(frozen=True, kw_only=True)
class StoredWeights:
    """What a weights file holds: its kind, its configuration, its SHA-256 and float32 tensors by name."""

    kind: str
    config: dict[str, Any]
    sha256: str
    tensors: dict[str, Float32s]


def read_weights(path: Path, sha256: str | None = None) -> StoredWeights:
    """Read and dequantise a weights file.

    Parameters
    ----------
    path : Path
        A safetensors file of :func:`write_weights`.
    sha256 : str, optional
        What the file must hash to.

    Returns
    -------
    StoredWeights
        Tensors in float32: matrices (n_out, n_in), vectors (n,).

    Raises
    ------
    BadInput
        If the file is missing, damaged, another schema, not finite, or hashes to something else.
    """
    check_readable(path)
    found = sha256_of(path)
    if sha256 is not None and found != sha256:
        raise BadInput(f"hashes to {found[:12]}…, not {sha256[:12]}…", file=str(path), remedy=_AGAIN)
    try:
        with safe_open(str(path), framework="numpy") as stored:
            metadata = dict(stored.metadata() or {})
            raw = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118  (no mapping)
    except (SafetensorError, ValueError, TypeError, AttributeError) as error:  # numpy knows fewer element types
        raise BadInput(f"is no safetensors file ({error})", file=str(path), remedy=_AGAIN) from None
    kind, config = _header(metadata.get(_HEADER), str(path))
    return StoredWeights(kind=kind, config=config, sha256=found, tensors=_dequantised(raw, str(path)))


def _header(text: str | None, file: str) -> tuple[str, dict[str, Any]]:
    try:
        header = json.loads(text or "{}")
    except (ValueError, RecursionError):
        header = None
    schema = header.get("schema") if isinstance(header, dict) else header
    if schema != SCHEMA:
        raise BadInput("unknown schema", file=file, field="schema", value=schema, remedy=f"expected {SCHEMA}")
    kind, config = header.get("kind"), header.get("config")
    if not isinstance(kind, str) or not isinstance(config, dict):
        raise BadInput("states no kind and configuration", file=file, field=_HEADER, remedy=_AGAIN)
    return kind, config


def _dequantised(raw: Mapping[str, NDArray[Any]], file: str) -> dict[str, Float32s]:
    tensors: dict[str, Float32s] = {}
    for name, values in raw.items():
        if name.endswith(".int8"):
            matrix = name.removesuffix(".int8")
            tensors[matrix] = _dequantised_matrix(matrix, values, raw.get(f"{matrix}.scale"), file)
        elif not name.endswith(".scale"):
            tensors[name] = _as_float32(values)
    check_finite_tensors(tensors, file)
    return tensors


def _dequantised_matrix(name: str, rows: NDArray[Any], scale: NDArray[Any] | None, file: str) -> Float32s:
    if scale is None:
        raise BadInput("has no scale", file=file, field=name, remedy=_AGAIN)
    if rows.ndim != 2 or scale.shape != rows.shape[:1] or rows.dtype != np.int8:
        problem = f"has {rows.dtype} rows {rows.shape} and scale {scale.shape}"
        raise BadInput(problem, file=file, field=name, remedy=_AGAIN)
    with np.errstate(over="ignore"):
        return np.asarray(rows.astype(np.float32) * _as_float32(scale)[:, None])


def _as_float32(values: NDArray[Any]) -> Float32s:
    """The values as float32; what is too large becomes infinite, and is refused as such."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def check_finite_tensors(tensors: Tensors, file: str) -> None:
    """Raise :class:`BadInput` if a weight is NaN or infinite: it would make every logit NaN without a word."""
    for name, values in tensors.items():
        if not np.isfinite(values).all():
            raise BadInput("holds NaN or infinite weights", file=file, field=name, remedy=_AGAIN)


def check_shapes(tensors: Tensors, shapes: Mapping[str, tuple[int, ...]], file: str) -> None:
    """Raise :class:`BadInput` if a tensor is missing or has another shape."""
    for name, shape in shapes.items():
        if name not in tensors:
            raise BadInput("is missing", file=file, field=name, remedy=_AGAIN)
        if tensors[name].shape != shape:
            problem = f"has shape {tensors[name].shape}, not {shape}"
            raise BadInput(problem, file=file, field=name, remedy="the configuration and the weights disagree")


def stored_spec(stored: StoredWeights, file: str) -> TransformerSpec:
    """The shape that a weights file states; other entries of its configuration are left alone."""
    given = {name: stored.config[name] for name in TransformerSpec.field_names() if name in stored.config}
    try:
        return TransformerSpec(**given)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadInput(f"states no transformer ({error})", file=file, field="config", remedy=_AGAIN) from None


def stored_number(stored: StoredWeights, name: str, file: str) -> float:
    """A number above 0 from the configuration of a weights file, or :class:`BadInput` if it states none."""
    value = stored.config.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise BadInput("is no number above 0", file=file, field=f"config.{name}", value=value, remedy=_AGAIN)
    return value


def write_weights(path: Path, *, kind: str, config: Mapping[str, Any], tensors: Tensors) -> None:
    """Write tensors atomically, matrices as int8 rows with a scale.

    Parameters
    ----------
    path : Path
        File to write.
    kind : str
        transformer, eagle or medusa.
    config : mapping
        Fields of :class:`TransformerSpec` and what else a reader needs; JSON.
    tensors : mapping of str to ndarray of float32
        Matrices (n_out, n_in) and vectors (n,).

    Raises
    ------
    ValueError
        If a weight is not finite, or too large for the scale of a row.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "w.safetensors"
    >>> write_weights(path, kind="transformer", config={}, tensors={"down": np.array([[1.0, -0.5]], np.float32)})
    >>> print(read_weights(path).tensors["down"].round(2))
    [[ 1.  -0.5]]
    """
    stored: dict[str, NDArray[Any]] = {}
    for name, values in tensors.items():
        check_finite(name, values)
        if values.ndim == 2:
            stored[f"{name}.int8"], stored[f"{name}.scale"] = quantised(values)
        else:
            stored[name] = np.ascontiguousarray(values, dtype=np.float32)
    header = json.dumps({"schema": SCHEMA, "kind": kind, "config": dict(config)}, sort_keys=True)
    write_atomically(path, lambda part: save_file(stored, str(part), metadata={_HEADER: header}))


def quantised(matrix: NDArray[Any]) -> tuple[NDArray[np.int8], NDArray[np.float16]]:
    """Rows as int8 with the scale that maps the largest entry of a row to 127.

    The error is at most half a scale, for entries up to 8 million; rows below a millionth become 0.

    Raises
    ------
    ValueError
        If a row's largest entry is too large for a scale in float16.

    Examples
    --------
    >>> rows, scale = quantised(np.array([[0.5, -1.0]], np.float32))
    >>> print(rows, scale)
    [[  64 -127]] [0.00787]
    """
    with np.errstate(over="ignore"):
        scale = (np.abs(matrix).max(axis=1) / _LARGEST).astype(np.float16)
    check_finite("scale", scale)
    divisor = np.where(scale > 0, scale, np.float16(1.0)).astype(np.float32)
    rows = np.clip(np.rint(matrix / divisor[:, None]), -_LARGEST, _LARGEST).astype(np.int8)
    return rows, scale
