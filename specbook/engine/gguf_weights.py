"""Weights of a Llama-like model in GGUF, read with the ``gguf`` package: dequantised, named and ordered as ours.

A GGUF file stores query and key rows so that the two numbers that RoPE turns are neighbours; the engine keeps them
half a head apart, so the rows are put back. What the file says beyond the plain architecture (scaled RoPE, experts,
biases) is refused rather than ignored. Nothing in the file is evaluated, and no length it states is believed before
the bytes are there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specbook.checks import BadInput
from specbook.engine.transformer_spec import TransformerSpec
from specbook.engine.weights import Float32s
from specbook.files import check_readable, sha256_of

# Vocabularies with their merges stay under two million values; a damaged length would otherwise read for minutes.
_MAX_READS = 8_000_000

# Keys that would change what is computed, with the values that leave it as it is.
_VARIANTS: dict[str, tuple[Any, ...]] = {
    "llama.rope.scaling.type": ("none",),
    "llama.rope.scale_linear": (1.0,),
    "llama.expert_count": (0,),
    "split.count": (0, 1),
}

_DAMAGED = (ValueError, KeyError, IndexError, TypeError, OverflowError, RecursionError, EOFError)
_AGAIN = "download or convert the file again"


@dataclass(frozen=True, kw_only=True)
class GgufModel:
    """What a GGUF file holds.

    Parameters
    ----------
    spec : TransformerSpec
        The sizes of the model.
    tensors : dict of str to ndarray of float32
        Weights under the engine's names, each matrix ``(n_out, n_in)``; no ``head`` where the embedding is tied.
    fields : dict of str to object
        Metadata under the file's own keys: numbers, strings, and lists of them (``tokenizer.ggml.tokens``).
    """

    spec: TransformerSpec
    tensors: dict[str, Float32s]
    fields: dict[str, Any]


def read_gguf(path: Path, sha256: str | None = None) -> GgufModel:
    r"""Read a Llama-like model from a GGUF file.

    Parameters
    ----------
    path : Path
        The file. Its matrices may be stored in any type that the ``gguf`` package can unpack.
    sha256 : str, optional
        SHA-256 of the file in hexadecimal; checked before anything is read.

    Returns
    -------
    GgufModel
        Float32 weights: four bytes a parameter, whatever the file takes.

    Raises
    ------
    BadInput
        If the file is not GGUF, breaks off, holds another architecture or a variant of it, lacks a tensor or has one
        too many, has one of another shape, of a type that cannot be unpacked or with a number that is not finite; if
        its hash differs; or if the ``gguf`` package is missing.

    Notes
    -----
    Row ``2 i + s`` of a head's query and key becomes row ``i + s h / 2``, for s in {0, 1} and heads of size h: the
    rotation of neighbours becomes the rotation of halves, and every dot product of query and key stays.

    References
    ----------
    su2021 for RoPE.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "model.gguf"
    >>> _ = path.write_bytes(b"PK")
    >>> try:
    ...     read_gguf(path)
    ... except BadInput as refused:
    ...     print(refused.problem)
    is not a GGUF file
    """
    check_readable(path)
    _check_sha256(path, sha256)
    reader = _reader(path)
    fields = {name: _content(path, name, field) for name, field in reader.fields.items()}
    source = _Source(path, {tensor.name: tensor for tensor in reader.tensors})
    spec = _spec(_Fields(path, fields), source)
    tensors = dict(_tensors(source, spec))
    if source.left:
        raise source.bad(min(source.left), "is a tensor that this engine has no use for", "use a plain Llama model")
    return GgufModel(spec=spec, tensors=tensors, fields=fields)


def _check_sha256(path: Path, expected: str | None) -> None:
    if expected is not None and (found := sha256_of(path)) != expected.lower():
        raise BadInput(f"hashes to {found[:12]}…, not {expected[:12]}…", file=str(path), remedy=_AGAIN)


def _reader(path: Path) -> Any:
    """The package's reader of the file, which sees only the bytes that are there."""
    with path.open("rb") as stream:
        if (magic := stream.read(4)) != b"GGUF":
            raise BadInput("is not a GGUF file", file=str(path), value=magic, remedy="name a file that ends in .gguf")
    try:
        import gguf
    except ImportError:
        remedy = "install it: pip install 'specbook[smollm]'"
        raise BadInput("needs the gguf package, which is not installed", file=str(path), remedy=remedy) from None

    class BoundedReader(gguf.GGUFReader):  # type: ignore[misc, unused-ignore]
        """The reader takes a slice past the end for a short array; this one says where the file breaks off."""

        n_reads = 0

        def _get(self, offset: int, dtype: Any, count: Any = 1, override_order: Any = None) -> NDArray[Any]:
            end, self.n_reads = offset + np.dtype(dtype).itemsize * int(count), self.n_reads + 1
            if end > self.data.size:
                raise EOFError(f"it ends at byte {self.data.size:,}, where {end:,} are needed")
            if self.n_reads > _MAX_READS:
                raise EOFError(f"it states more than {_MAX_READS:,} values of metadata")
            return np.asarray(super()._get(offset, dtype, count, override_order))

    try:
        reader = BoundedReader(path)
    except _DAMAGED as error:
        raise BadInput(f"is damaged ({error})", file=str(path), remedy=_AGAIN) from None
    if reader.byte_order == "S":
        raise BadInput("is stored in the byte order of other machines", file=str(path), remedy="convert it here")
    return reader


def _content(path: Path, name: str, field: Any) -> Any:
    try:
        return field.contents()
    except _DAMAGED as error:
        raise BadInput(f"is damaged ({error})", file=str(path), field=name, remedy=_AGAIN) from None


class _Source:
    """The tensors of one file, each taken once."""

    def __init__(self, path: Path, left: dict[str, Any]) -> None:
        self.path, self.left = path, left

    def bad(self, name: str, problem: str, remedy: str = _AGAIN) -> BadInput:
        return BadInput(problem, file=str(self.path), field=name, remedy=remedy)

    def n_rows(self, name: str) -> int:
        """Rows of a matrix that must be there."""
        if name not in self.left:
            raise self.bad(name, "is missing")
        return int(self.left[name].shape[-1])

    def take(self, name: str, *shape: int) -> Float32s:
        """The tensor as float32, of the shape it must have."""
        stored = self.left.pop(name, None)
        if stored is None:
            raise self.bad(name, "is missing")
        if (found := tuple(stored.shape.tolist()[::-1])) != shape:
            raise self.bad(name, f"has the shape {found}, where {shape} is needed")
        values = self._unpacked(name, stored)
        if not np.isfinite(values).all():
            raise self.bad(name, "holds a number that is not finite")
        return values

    def _unpacked(self, name: str, stored: Any) -> Float32s:
        import gguf

        try:
            with np.errstate(all="ignore"):
                return np.array(gguf.dequantize(stored.data, stored.tensor_type), dtype=np.float32)
        except (NotImplementedError, ValueError):
            remedy = "convert it to F32, F16, BF16, Q8_0 or Q4_1"
            raise self.bad(name, f"is stored as {stored.tensor_type.name}, which cannot be unpacked", remedy) from None


def _tensors(source: _Source, spec: TransformerSpec) -> Iterator[tuple[str, Float32s]]:
    """Name and weights of every tensor, in the order of a forward pass."""
    yield "embedding", source.take("token_embd.weight", spec.n_vocab, spec.n_embedding)
    for layer in range(spec.n_layers):
        for name, weights in _layer(source, spec, f"blk.{layer}"):
            yield f"layers.{layer}.{name}", weights
    yield "final_norm", source.take("output_norm.weight", spec.n_embedding)
    if "output.weight" in source.left:
        yield "head", source.take("output.weight", spec.n_vocab, spec.n_embedding)


def _layer(source: _Source, spec: TransformerSpec, block: str) -> Iterator[tuple[str, Float32s]]:
    def take(name: str, *shape: int) -> Float32s:
        return source.take(f"{block}.{name}.weight", *shape)

    width, inner = spec.n_embedding, spec.n_feed_forward
    n_query, n_kv = spec.n_heads * spec.head_size, spec.n_kv_heads * spec.head_size
    query, key = take("attn_q", n_query, width), take("attn_k", n_kv, width)
    rotated = [_halves_apart(rows, spec.head_size) for rows in (query, key)]
    yield "attention_norm", take("attn_norm", width)
    yield "query_key_value", np.concatenate([*rotated, take("attn_v", n_kv, width)])
    yield "attention_output", take("attn_output", width, n_query)
    yield "feed_forward_norm", take("ffn_norm", width)
    yield "gate_up", np.concatenate([take("ffn_gate", inner, width), take("ffn_up", inner, width)])
    yield "down", take("ffn_down", width, inner)


def _halves_apart(rows: Float32s, head_size: int) -> Float32s:
    """Rows of a query or key matrix, from neighbours that rotate together to halves of a head that do."""
    return rows.reshape(-1, head_size // 2, 2, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)


class _Fields:
    """The metadata of one file, as numbers that must be there."""

    def __init__(self, path: Path, values: dict[str, Any]) -> None:
        self.path, self.values = path, values

    def bad(self, name: str, problem: str, remedy: str = _AGAIN) -> BadInput:
        return BadInput(problem, file=str(self.path), field=name, value=self.values.get(name, ...), remedy=remedy)

    def number(self, name: str, default: float | None = None) -> float:
        """A number above 0 under ``llama.``; ``default`` where the key is left out."""
        name = f"llama.{name}"
        value = self.values.get(name, default)
        if value is None:
            raise self.bad(name, "is missing")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 2**31:
            raise self.bad(name, "must be one number above 0")
        return value

    def count(self, name: str, default: int | None = None) -> int:
        """A whole number above 0."""
        value = self.number(name, default)
        if value != int(value):
            raise self.bad(f"llama.{name}", "must be whole")
        return int(value)

    def check_equal(self, name: str, expected: int, meaning: str) -> None:
        """Raise if a size that follows from others is stated differently."""
        if self.count(name, expected) != expected:
            raise self.bad(f"llama.{name}", f"must be {meaning}, {expected}")

    def check_plain(self) -> None:
        """Raise if the file states another architecture, or a variant of it."""
        if self.values.get("general.architecture") != "llama":
            raise self.bad("general.architecture", "is not the engine's", "use a file of the architecture llama")
        for name, plain in _VARIANTS.items():
            if self.values.get(name, plain[0]) not in plain:
                raise self.bad(name, "is a variant that this engine does not compute", "use a plain Llama model")


def _spec(fields: _Fields, source: _Source) -> TransformerSpec:
    fields.check_plain()
    n_heads, n_embedding = fields.count("attention.head_count"), fields.count("embedding_length")
    head_size = fields.count("attention.key_length", n_embedding // n_heads)
    for name in ("attention.value_length", "rope.dimension_count"):
        fields.check_equal(name, head_size, "the size of a head")
    n_vocab = source.n_rows("token_embd.weight")
    fields.check_equal("vocab_size", n_vocab, "the number of rows of the embedding")
    try:
        return TransformerSpec(
            n_vocab=n_vocab,
            n_embedding=n_embedding,
            n_layers=fields.count("block_count"),
            n_heads=n_heads,
            n_kv_heads=fields.count("attention.head_count_kv", n_heads),
            head_size=head_size,
            n_feed_forward=fields.count("feed_forward_length"),
            rope_theta=fields.number("rope.freq_base", 10_000.0),
            norm_epsilon=fields.number("attention.layer_norm_rms_epsilon"),
            max_context=fields.count("context_length"),
        )
    except BadInput:
        raise
    except ValueError as error:
        raise BadInput(f"states sizes that do not fit ({error})", file=str(fields.path), remedy=_AGAIN) from None
