"""llama.cpp on the very weights that we compute with: a GGUF file with every tensor of another in float32."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf

_WRITTEN_ANYWAY = ("GGUF.version", "GGUF.tensor_count", "GGUF.kv_count", "general.architecture", "general.file_type")


def write_float32_gguf(source: Path, destination: Path) -> Path:
    """Write ``destination`` with the metadata of ``source`` and its tensors dequantised; 538 MB for SmolLM2."""
    stored = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(destination, "llama", use_temp_file=False)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    for name, field in stored.fields.items():
        if name not in _WRITTEN_ANYWAY:
            kind = field.types[0]
            writer.add_key_value(name, field.contents(), kind, field.types[-1] if kind == kind.ARRAY else None)
    for tensor in stored.tensors:
        writer.add_tensor(tensor.name, gguf.dequantize(tensor.data, tensor.tensor_type))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return destination


def float32_llama(path: Path) -> Any:
    """llama.cpp on one thread, with its cache in float32 too and the logits of every token kept."""
    import llama_cpp

    return llama_cpp.Llama(
        str(path),
        n_ctx=512,
        n_threads=1,
        n_threads_batch=1,
        use_mmap=False,  # memory of its own, which the system may give in large pages: faster by some per cent
        type_k=llama_cpp.GGML_TYPE_F32,
        type_v=llama_cpp.GGML_TYPE_F32,
        logits_all=True,
        verbose=False,
    )
