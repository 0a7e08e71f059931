"""GGUF: tiny random files written with the package's writer, read back, run, and damaged in every way we know."""

from __future__ import annotations

import builtins
import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind

from specbook.checks import BadInput
from specbook.engine import gguf_weights
from specbook.engine.gguf_weights import read_gguf
from specbook.engine.transformer import Transformer

N_VOCAB, WIDTH, INNER, N_LAYERS, N_HEADS, N_KV_HEADS, HEAD_SIZE = 40, 64, 96, 2, 4, 2, 16
THETA, EPSILON = 5000.0, 1e-5
FIELDS: dict[str, Any] = {
    "llama.block_count": N_LAYERS,
    "llama.context_length": 32,
    "llama.embedding_length": WIDTH,
    "llama.feed_forward_length": INNER,
    "llama.attention.head_count": N_HEADS,
    "llama.attention.head_count_kv": N_KV_HEADS,
    "llama.rope.dimension_count": HEAD_SIZE,
    "llama.rope.freq_base": THETA,
    "llama.attention.layer_norm_rms_epsilon": EPSILON,
    "llama.vocab_size": N_VOCAB,
}


def tensors_of_a_tiny_model() -> dict[str, np.ndarray]:
    """Random weights under the names of GGUF, in the order of its rows: the numbers that RoPE turns are neighbours."""
    rng = np.random.default_rng(7)
    shapes: dict[str, tuple[int, ...]] = {"token_embd": (N_VOCAB, WIDTH), "output_norm": (WIDTH,)}
    for block in range(N_LAYERS):
        inside = {
            "attn_norm": (WIDTH,),
            "attn_q": (N_HEADS * HEAD_SIZE, WIDTH),
            "attn_k": (N_KV_HEADS * HEAD_SIZE, WIDTH),
            "attn_v": (N_KV_HEADS * HEAD_SIZE, WIDTH),
            "attn_output": (WIDTH, N_HEADS * HEAD_SIZE),
            "ffn_norm": (WIDTH,),
            "ffn_gate": (INNER, WIDTH),
            "ffn_up": (INNER, WIDTH),
            "ffn_down": (WIDTH, INNER),
        }
        shapes |= {f"blk.{block}.{name}": shape for name, shape in inside.items()}
    scale = {1: 1.0, 2: 0.3}
    return {
        f"{name}.weight": (scale[len(shape)] * rng.standard_normal(shape) + (len(shape) == 1)).astype(np.float32)
        for name, shape in shapes.items()
    }


def write_gguf(
    path: Path,
    tensors: dict[str, np.ndarray] | None = None,
    fields: dict[str, Any] | None = None,
    kind: Kind = Kind.F32,
    architecture: str = "llama",
) -> Path:
    """A GGUF file of ``tensors``, the matrices stored as ``kind``; a field of None is left out."""
    writer = gguf.GGUFWriter(path, architecture)
    for name, value in (FIELDS | (fields or {})).items():
        if value is not None:
            writer.add_key_value(name, value, *_types_of(value))
    for name, values in (tensors_of_a_tiny_model() if tensors is None else tensors).items():
        if values.ndim == 2 and kind != Kind.F32:
            writer.add_tensor(name, gguf.quantize(values, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _types_of(value: Any) -> tuple[gguf.GGUFValueType, ...]:
    kind = gguf.GGUFValueType
    if isinstance(value, list):
        return kind.ARRAY, kind.get_type(value[0])
    return (kind.UINT32 if isinstance(value, int) and not isinstance(value, bool) else kind.get_type(value),)


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return write_gguf(tmp_path / "tiny.gguf")


def unpacked(values: np.ndarray, kind: Kind) -> np.ndarray:
    """What a matrix is after storage, from the definition of the format: 32 numbers share a scale, or two."""
    if kind == Kind.F32:
        return values
    if kind == Kind.F16:
        return values.astype(np.float16).astype(np.float32)
    blocks = values.reshape(-1, 32)
    if kind == Kind.Q8_0:
        step = np.abs(blocks).max(axis=1, keepdims=True) / np.float32(127)
        steps = np.round(blocks * (np.float32(1) / step))
        return (step.astype(np.float16).astype(np.float32) * steps).reshape(values.shape)
    low = blocks.min(axis=1, keepdims=True)
    step = (blocks.max(axis=1, keepdims=True) - low) / np.float32(15)
    steps = np.clip(np.floor((blocks - low) * (np.float32(1) / step) + np.float32(0.5)), 0, 15)
    return (step.astype(np.float16).astype(np.float32) * steps + low.astype(np.float16)).reshape(values.shape)


@pytest.mark.parametrize("kind", [Kind.F32, Kind.F16, Kind.Q8_0, Kind.Q4_1])
def test_tensors_are_what_was_stored(tmp_path: Path, kind: Kind):
    stored = tensors_of_a_tiny_model()
    found = read_gguf(write_gguf(tmp_path / "t.gguf", kind=kind)).tensors
    np.testing.assert_array_equal(found["embedding"], unpacked(stored["token_embd.weight"], kind))
    np.testing.assert_array_equal(found["layers.1.down"], unpacked(stored["blk.1.ffn_down.weight"], kind))
    np.testing.assert_array_equal(found["layers.0.gate_up"][INNER:], unpacked(stored["blk.0.ffn_up.weight"], kind))
    np.testing.assert_array_equal(found["final_norm"], stored["output_norm.weight"])
    assert {values.dtype for values in found.values()} == {np.dtype(np.float32)}


def test_spec_and_shapes(tiny: Path):
    model = read_gguf(tiny)
    assert model.spec.n_vocab == N_VOCAB
    assert model.spec.n_kv_heads == N_KV_HEADS
    assert model.spec.rope_theta == THETA
    assert model.spec.norm_epsilon == pytest.approx(EPSILON)
    assert model.spec.max_context == 32
    assert {name: values.shape for name, values in model.tensors.items()} == model.spec.shapes()
    assert model.fields["llama.block_count"] == N_LAYERS


def test_rows_of_query_and_key_lie_half_a_head_apart(tiny: Path):
    stored, found = tensors_of_a_tiny_model(), read_gguf(tiny).tensors["layers.0.query_key_value"]
    query, key = stored["blk.0.attn_q.weight"], stored["blk.0.attn_k.weight"]
    np.testing.assert_array_equal(found[3], query[6])
    np.testing.assert_array_equal(found[HEAD_SIZE // 2 + 3], query[7])
    np.testing.assert_array_equal(found[HEAD_SIZE], query[HEAD_SIZE])
    np.testing.assert_array_equal(found[N_HEADS * HEAD_SIZE + 1], key[2])
    np.testing.assert_array_equal(found[-N_KV_HEADS * HEAD_SIZE :], stored["blk.0.attn_v.weight"])


def test_head_is_read_where_there_is_one(tmp_path: Path):
    head = {"output.weight": np.ones((N_VOCAB, WIDTH), np.float32)}
    found = read_gguf(write_gguf(tmp_path / "t.gguf", tensors_of_a_tiny_model() | head))
    np.testing.assert_array_equal(found.tensors["head"], head["output.weight"])


def test_sizes_with_a_rule_may_be_left_out(tmp_path: Path):
    left_out = ("llama.rope.dimension_count", "llama.vocab_size", "llama.rope.freq_base")
    spec = read_gguf(write_gguf(tmp_path / "t.gguf", fields=dict.fromkeys(left_out))).spec
    assert (spec.head_size, spec.n_vocab, spec.rope_theta) == (HEAD_SIZE, N_VOCAB, 10_000.0)


def reference_logits(tensors: dict[str, np.ndarray], tokens: list[int]) -> np.ndarray:
    """The textbook's forward pass in float64 over GGUF's own rows: neighbours rotate, keys of the past are seen."""
    weights = {name.removesuffix(".weight"): values.astype(np.float64) for name, values in tensors.items()}
    x = weights["token_embd"][tokens]
    for block in range(N_LAYERS):
        part = {name.split(".")[2]: w for name, w in weights.items() if name.startswith(f"blk.{block}.")}
        normed = _rms_normed(x, part["attn_norm"])
        query = _rotated((normed @ part["attn_q"].T).reshape(len(tokens), N_HEADS, HEAD_SIZE))
        key = _rotated((normed @ part["attn_k"].T).reshape(len(tokens), N_KV_HEADS, HEAD_SIZE))
        value = (normed @ part["attn_v"].T).reshape(len(tokens), N_KV_HEADS, HEAD_SIZE)
        mixed = np.zeros((len(tokens), N_HEADS, HEAD_SIZE))
        for row in range(len(tokens)):
            for head in range(N_HEADS):
                shared = head * N_KV_HEADS // N_HEADS
                score = key[: row + 1, shared] @ query[row, head] / np.sqrt(HEAD_SIZE)
                weight = np.exp(score - score.max())
                mixed[row, head] = weight / weight.sum() @ value[: row + 1, shared]
        x = x + mixed.reshape(len(tokens), -1) @ part["attn_output"].T
        normed = _rms_normed(x, part["ffn_norm"])
        gate = normed @ part["ffn_gate"].T
        x = x + (gate / (1.0 + np.exp(-gate)) * (normed @ part["ffn_up"].T)) @ part["ffn_down"].T
    return _rms_normed(x, weights["output_norm"]) @ weights["token_embd"].T


def _rms_normed(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + EPSILON) * weight


def _rotated(heads: np.ndarray) -> np.ndarray:
    frequency = THETA ** (-np.arange(0, HEAD_SIZE, 2) / HEAD_SIZE)
    turn = np.exp(1j * np.arange(len(heads))[:, None, None] * frequency)
    turned = (heads[..., 0::2] + 1j * heads[..., 1::2]) * turn
    return np.stack([turned.real, turned.imag], axis=-1).reshape(heads.shape)


@pytest.mark.parametrize("kind", [Kind.F32, Kind.Q8_0, Kind.Q4_1])
def test_logits_are_the_textbooks(tmp_path: Path, kind: Kind):
    stored = tensors_of_a_tiny_model()
    weights = {name: unpacked(values, kind) if values.ndim == 2 else values for name, values in stored.items()}
    tokens = [3, 39, 0, 17, 17, 8, 21]
    model = read_gguf(write_gguf(tmp_path / "t.gguf", stored, kind=kind))
    transformer = Transformer(model.spec, model.tensors, "ref64")
    found = transformer.logits(transformer.prefill(tokens, transformer.new_cache(capacity=len(tokens))))
    expected = reference_logits(weights, tokens)
    assert np.abs(expected).max() > 1.0
    np.testing.assert_allclose(found, expected, atol=2e-5)


def test_hash_that_matches_is_accepted(tiny: Path):
    assert read_gguf(tiny, hashlib.sha256(tiny.read_bytes()).hexdigest().upper()).spec.n_layers == N_LAYERS


def refusal(path: Path, sha256: str | None = None) -> str:
    """The line with which a file is refused."""
    with pytest.raises(BadInput) as refused:
        read_gguf(path, sha256)
    line = str(refused.value)
    assert line.startswith(f"{path}: ")
    assert "\n" not in line
    return line


def test_hash_that_differs(tiny: Path):
    assert "not 000000000000" in refusal(tiny, "0" * 64)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is empty"),
        (b"PK a zip", "is not a GGUF file"),
        (b"GG", "is not a GGUF file"),
        (b"GGUF", "damaged"),
    ],
)
def test_no_gguf(tmp_path: Path, content: bytes, problem: str):
    path = tmp_path / "t.gguf"
    path.write_bytes(content)
    assert problem in refusal(path)


def test_no_file(tmp_path: Path):
    assert "no such file" in refusal(tmp_path / "absent.gguf")


def test_cut_anywhere(tiny: Path, tmp_path: Path):
    content = tiny.read_bytes()
    cut = tmp_path / "cut.gguf"
    for size in [*range(5, 1400, 61), *np.linspace(1400, len(content) - 400, 20).astype(int)]:
        cut.write_bytes(content[:size])
        assert "is damaged" in refusal(cut)


def test_bits_flipped_in_the_header_give_one_line_or_a_model(tiny: Path, tmp_path: Path):
    content = tiny.read_bytes()
    rng = np.random.default_rng(3)
    path = tmp_path / "flipped.gguf"
    for place in rng.integers(0, 2400, size=150):
        damaged = bytearray(content)
        damaged[place] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        try:
            read_gguf(path)
        except BadInput as refused:
            assert "\n" not in str(refused)  # noqa: PT017


def test_length_that_no_file_holds(tiny: Path, tmp_path: Path):
    damaged = bytearray(tiny.read_bytes())
    damaged[16:24] = (2**62).to_bytes(8, "little")  # the number of fields
    path = tmp_path / "t.gguf"
    path.write_bytes(damaged)
    assert "is damaged" in refusal(path)


def test_metadata_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = write_gguf(tmp_path / "t.gguf", fields={"tokenizer.ggml.scores": [0.5] * 500})
    monkeypatch.setattr(gguf_weights, "_MAX_READS", 400)
    assert "more than 400 values" in refusal(path)


def test_byte_order_of_other_machines(tmp_path: Path):
    writer = gguf.GGUFWriter(tmp_path / "t.gguf", "llama", endianess=gguf.GGUFEndian.BIG)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert "byte order" in refusal(tmp_path / "t.gguf")


def test_other_architecture(tmp_path: Path):
    assert "general.architecture = 'gpt2'" in refusal(write_gguf(tmp_path / "t.gguf", architecture="gpt2"))


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("llama.block_count", None, "llama.block_count: is missing"),
        ("llama.block_count", 0, "must be one number above 0"),
        ("llama.block_count", True, "must be one number above 0"),
        ("llama.block_count", 1, "blk.1."),
        ("llama.block_count", 2**31 - 1, "blk.2.attn_q.weight: is missing"),
        ("llama.embedding_length", 60, "must be the size of a head"),
        ("llama.embedding_length", 66, "token_embd.weight: has the shape (40, 64)"),
        ("llama.feed_forward_length", 95, "blk.0.ffn_gate.weight"),
        ("llama.feed_forward_length", 95.5, "must be whole"),
        ("llama.attention.head_count_kv", 3, "do not fit (n_kv_heads"),
        ("llama.attention.head_count_kv", [2, 2], "must be one number"),
        ("llama.attention.key_length", 15, "must be the size of a head"),
        ("llama.rope.dimension_count", 8, "must be the size of a head, 16"),
        ("llama.rope.freq_base", "10000", "must be one number"),
        ("llama.rope.freq_base", float("nan"), "must be one number"),
        ("llama.attention.layer_norm_rms_epsilon", None, "is missing"),
        ("llama.vocab_size", 41, "must be the number of rows of the embedding, 40"),
        ("llama.rope.scaling.type", "yarn", "a variant"),
        ("llama.expert_count", 8, "a variant"),
        ("split.count", 2, "a variant"),
    ],
)
def test_field_that_cannot_be(tmp_path: Path, field: str, value: Any, problem: str):
    assert problem in refusal(write_gguf(tmp_path / "t.gguf", fields={field: value}))


@pytest.mark.parametrize("name", ["token_embd", "output_norm", "blk.0.attn_q", "blk.1.ffn_down"])
def test_missing_tensor(tmp_path: Path, name: str):
    tensors = tensors_of_a_tiny_model()
    del tensors[f"{name}.weight"]
    assert f"{name}.weight: is missing" in refusal(write_gguf(tmp_path / "t.gguf", tensors))


def test_tensor_without_use(tmp_path: Path):
    tensors = tensors_of_a_tiny_model() | {"rope_freqs.weight": np.ones(8, np.float32)}
    assert "rope_freqs.weight: is a tensor that this engine has no use for" in refusal(
        write_gguf(tmp_path / "t.gguf", tensors)
    )


@pytest.mark.parametrize("name", ["output_norm", "blk.0.attn_k", "blk.1.ffn_down"])
def test_other_shape(tmp_path: Path, name: str):
    tensors = tensors_of_a_tiny_model()
    tensors[f"{name}.weight"] = tensors[f"{name}.weight"][:-1]
    assert f"{name}.weight: has the shape" in refusal(write_gguf(tmp_path / "t.gguf", tensors))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", [Kind.F32, Kind.F16])
def test_weight_that_is_not_finite(tmp_path: Path, kind: Kind, value: float):
    tensors = tensors_of_a_tiny_model()
    tensors["blk.1.ffn_up.weight"][3, 5] = value
    assert "blk.1.ffn_up.weight: holds a number that is not finite" in refusal(
        write_gguf(tmp_path / "t.gguf", tensors, kind=kind)
    )


def test_scale_that_is_not_finite(tmp_path: Path):
    path = write_gguf(tmp_path / "t.gguf", kind=Kind.Q8_0)
    (embedding,) = (t for t in gguf.GGUFReader(path).tensors if t.name == "token_embd.weight")
    content = bytearray(path.read_bytes())
    content[embedding.data_offset : embedding.data_offset + 2] = np.float16(np.nan).tobytes()
    path.write_bytes(content)
    assert "token_embd.weight: holds a number that is not finite" in refusal(path)


def test_type_that_cannot_be_unpacked(tmp_path: Path):
    tensors = tensors_of_a_tiny_model()
    tensors["output_norm.weight"] = np.ones(WIDTH, np.int32)  # type: ignore[assignment]
    assert "output_norm.weight: is stored as I32, which cannot be unpacked" in refusal(
        write_gguf(tmp_path / "t.gguf", tensors)
    )


def test_type_that_nobody_knows(tiny: Path):
    content = bytearray(tiny.read_bytes())
    name = content.index(b"output_norm.weight") + len("output_norm.weight")
    content[name + 12 : name + 16] = (999).to_bytes(4, "little")  # after the number of axes and the one axis
    tiny.write_bytes(content)
    assert "999" in refusal(tiny)


def test_package_that_is_not_installed(tiny: Path, monkeypatch: pytest.MonkeyPatch):
    def absent(name: str, *rest: Any, original: Callable[..., Any] = builtins.__import__) -> Any:
        if name == "gguf":
            raise ImportError(name)
        return original(name, *rest)

    monkeypatch.delitem(sys.modules, "gguf")
    monkeypatch.setattr(builtins, "__import__", absent)
    assert "pip install 'specbook[smollm]'" in refusal(tiny)
