"""``python -m specbook.parity.record_kernels``: what is bit for bit the same, on each family of BLAS kernels.

Every family runs in a process of its own, since OpenBLAS chooses once. A processor without a family's instructions
cannot run it; such a family is left out with a word about it. What was recorded for the book stands in
``kernels.json``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from specbook.engine.arithmetic import ARITHMETICS
from specbook.engine.decoding import DecodingConfig, generate, speculative
from specbook.engine.layout import chain_positions
from specbook.engine.library import END_OF_TEXT, load_target, tokenizer
from specbook.engine.library.drafters import shipped_drafter
from specbook.engine.sampling import SamplingConfig
from specbook.engine.threads import blas_description, processor_name
from specbook.engine.transformer import Transformer
from specbook.files import to_json, write_text

FILE = Path(__file__).parent / "kernels.json"
FAMILIES = ("SkylakeX", "Haswell", "Sandybridge", "Prescott")
_WIDTH = 5
_TEXTS = (
    'def area(width, height):\n    """Return the area of a rectangle.\n\n    Both sides are numbers.\n    """\n    if',
    "User: What does `open` do?\nAssistant: It opens a file and returns a file object. If the file cannot be",
    "Question: Ann has 12 apples. Ben gives Ann 7 more. How many apples does Ann have now?\nAnswer: Ann starts with 12",
)
_N_NEW = 64


def measured() -> Iterator[dict[str, Any]]:
    """Yield one row an arithmetic, on the kernels of this process."""
    for name in ARITHMETICS:
        target = load_target(name)
        singles, blocks = zip(*(_logits(target, text) for text in _TEXTS), strict=True)
        single, block = np.concatenate(singles), np.concatenate(blocks)
        yield {
            "kernels": str(blas_description()["kernel"]),
            "arithmetic": name,
            "positions": len(single),
            "bit_equal": int((single == block).all(axis=1).sum()),
            "largest_difference": float(np.abs(single - block).max()),
            "tokens_flipped": int((single.argmax(axis=1) != block.argmax(axis=1)).sum()),
            "logits": sha256(single.tobytes()).hexdigest()[:12],
            "tokens": _tokens_hash(target),
        }


def _ids(text: str) -> list[int]:
    return [END_OF_TEXT, *tokenizer().encode(text)]


def _logits(target: Transformer, text: str) -> tuple[Any, Any]:
    """Logits of all positions from single steps, and from passes of five rows."""
    return tuple(_in_passes(target, _ids(text), width) for width in (1, _WIDTH))


def _in_passes(target: Transformer, ids: list[int], width: int) -> Any:
    cache = target.new_cache(len(ids))
    parts = []
    for start in range(0, len(ids), width):
        rows = np.array([ids[start : start + width]])
        hidden = target.forward(rows, chain_positions(cache, rows.shape[1]), None, cache)
        cache.commit_all()
        parts.append(target.logits(hidden)[0])
    return np.concatenate(parts)


def _tokens_hash(target: Transformer) -> str:
    """Hash of tokens and accepted counts of speculative decoding, greedy and at temperature 1."""
    traces = []
    for temperature in (0.0, 1.0):
        config = DecodingConfig(max_new_tokens=_N_NEW, sampling=SamplingConfig(temperature=temperature), seed=1)
        for text in _TEXTS:
            rounds = speculative(target, shipped_drafter("small", target), _ids(text), config)
            run = generate(rounds, _ids(text), config)
            traces.append([run.tokens, [one.accepted for one in run.rounds]])
    return sha256(json.dumps(traces).encode()).hexdigest()[:12]


def record(family: str) -> list[dict[str, Any]]:
    """The rows of one family, from a process that is told to use it; none where the processor cannot."""
    environment = {**os.environ, "OPENBLAS_CORETYPE": family, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "specbook.parity.record_kernels", "--here"]
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.stderr.write(f"{family}: does not run here, left out (exit code {done.returncode})\n")
        return []
    return [{"family": family, **row} for row in json.loads(done.stdout)]


def recorded() -> pl.DataFrame:
    """What was recorded for the book, one row a family and arithmetic.

    Examples
    --------
    >>> recorded().filter(arithmetic="exact").select(equal=(pl.col("bit_equal") == pl.col("positions")).all()).item()
    True
    """
    return pl.DataFrame(json.loads(FILE.read_text(encoding="utf-8"))["rows"])


def main() -> None:
    """Print the rows of this process (``--here``), or record all families."""
    if sys.argv[1:] == ["--here"]:
        sys.stdout.write(json.dumps(list(measured())))
        return
    rows = [row for family in FAMILIES for row in record(family)]
    machine = {"processor": processor_name(), "version": blas_description()["version"]}
    write_text(FILE, to_json({"schema": "specbook-kernels/1", "machine": machine, "rows": rows}))


if __name__ == "__main__":
    main()
