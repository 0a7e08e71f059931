"""Bit-equality and tokens under other kernels of the same BLAS, as other processors would run them.

Each kernel family has a process of its own, since a library chooses its kernels when it is loaded. Float32 logits
differ between families; that a row does not depend on its company, and the tokens of float64 runs, must not.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specbook.engine.decoding import DecodingConfig, autoregressive, generate, speculative
from specbook.engine.draft import chain_shape, tree_shape
from specbook.engine.library import load_target, tokenizer
from specbook.engine.library.drafters import shipped_drafter
from specbook.engine.sampling import GREEDY, SamplingConfig
from specbook.engine.threads import blas_description, blas_threads
from specbook.engine.transformer import Transformer
from tests.tiny_models import chain_logits, copied, filled_cache, step_logits, tree_logits

ROOT = Path(__file__).parents[2]
KERNELS = ["Haswell", "SkylakeX", "Prescott"]
REPORTED = {"Prescott": "Katmai"}  # older kernels that are the same share a name
CONTEXTS = [1, 127, 2048]
PROMPT = [1023, *tokenizer().encode("def total(values):\n    result = 0\n    for value in values:\n")]
SHAPES = {"small": chain_shape(4), "eagle": tree_shape((2, 2))}
SAMPLINGS = {"greedy": GREEDY, "sampled": SamplingConfig(temperature=1.0)}


def _unequal_rows(target: Transformer, context: int) -> list[str]:
    """Widths of a verify pass whose rows differ from single steps, and nodes of a tree that differ from their path."""
    tokens = np.random.default_rng(context).integers(0, target.n_vocab, 12).tolist()
    rows = filled_cache(target, context, context + 12)
    alone = step_logits(target, tokens, copied(target, rows))
    unequal = []
    for width in range(1, 13):
        if not np.array_equal(chain_logits(target, tokens[:width], rows), alone[:width]):
            unequal.append(f"{target.arithmetic.name}, {width} rows behind {context}")
        rows.drop_pending()
    nodes = tree_logits(target, [tokens[0], 7, *tokens[1:4], 9], [-1, -1, 1, 2, 0], rows)
    if not np.array_equal(nodes[[0, 2, 3, 4]], alone[:4]):
        unequal.append(f"{target.arithmetic.name}, tree behind {context}")
    return unequal


def _traces(target: Transformer) -> dict[str, list[list[int]]]:
    """Tokens, and accepted tokens of each round, greedy and sampled, alone and with two drafters."""
    traces = {}
    for name, sampling in SAMPLINGS.items():
        config = DecodingConfig(max_new_tokens=20, sampling=sampling, seed=3)
        traces[f"{name}, alone"] = [generate(autoregressive(target, PROMPT, config), PROMPT, config).tokens]
        for drafter, shape in SHAPES.items():
            rounds = speculative(target, shipped_drafter(drafter, target), PROMPT, config, shape)
            found = generate(rounds, PROMPT, config)
            traces[f"{name}, {drafter}"] = [found.tokens, [record.accepted for record in found.rounds]]
    return traces


def print_report() -> None:
    """What this process's kernels give, as JSON on standard output."""
    with blas_threads(1):
        models = [load_target(name) for name in ("exact", "ref64")]
        unequal = [problem for model in models for context in CONTEXTS for problem in _unequal_rows(model, context)]
        report = {"kernel": blas_description()["kernel"], "unequal": unequal, "traces": _traces(models[1])}
    print(json.dumps(report))


def _lacks_avx512() -> bool:
    processor = Path("/proc/cpuinfo")
    return not processor.exists() or "avx512f" not in processor.read_text().split()


@cache
def report_of(kernel: str) -> dict[str, Any]:
    """Report of a process with these kernels; skipped where this processor cannot run them."""
    if kernel == "SkylakeX" and _lacks_avx512():
        pytest.skip("this processor has no AVX-512, so it cannot run OpenBLAS's SkylakeX kernels")
    child = subprocess.run(
        [sys.executable, "-c", "from tests.regression.test_blas_kernels import print_report; print_report()"],
        cwd=ROOT,
        env=os.environ | {"OPENBLAS_CORETYPE": kernel, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    report: dict[str, Any] = json.loads(child.stdout)
    if report["kernel"] not in {kernel, REPORTED.get(kernel)}:
        pytest.skip(f"this machine's BLAS runs {report['kernel']} kernels where {kernel} is asked for")
    return report


@pytest.mark.parametrize("kernel", KERNELS)
def test_rows_under_these_kernels_are_bit_equal_to_single_steps(kernel: str):
    assert report_of(kernel)["unequal"] == []


@pytest.mark.parametrize("kernel", KERNELS[1:])
def test_float64_tokens_and_accepted_counts_are_those_of_other_kernels(kernel: str):
    assert report_of(kernel)["traces"] == report_of(KERNELS[0])["traces"]


def test_greedy_tokens_with_a_drafter_are_those_without_one():
    traces = report_of(KERNELS[0])["traces"]
    assert traces["greedy, small"][0] == traces["greedy, eagle"][0] == traces["greedy, alone"][0]
