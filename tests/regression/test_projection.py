"""The projection of a small fixed grid, against the table beside this file.

After a deliberate change: ``python -m tests.regression.test_projection``, then read the difference.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from specbook.acceptance.candidates import DraftCandidates
from specbook.hardware.profile import catalogue_device
from specbook.roofline.grid import GridConfig, project
from specbook.roofline.model_spec import model

TABLE = Path(__file__).with_name("projection.csv")

# Target, its format, drafter, its format.
PAIRS = (
    ("Llama-3.1-8B", "bf16", "Llama-3.2-1B", "bf16"),
    ("Llama-3.1-70B", "fp8", "Llama-3.1-8B", "int4"),
    ("Mixtral-8x7B", "int4", "TinyLlama-1.1B", "q4_k"),
)


def golden_projection() -> pl.DataFrame:
    candidates = DraftCandidates(
        draft_lengths=(0, 1, 4),
        expected_tokens=(1.0, 1.8, 3.3616),
        assumptions=("measured", "truncation of a profile at K = 4", "measured"),
        method="draft_model",
        domain="code",
    )
    frames = [
        project(
            GridConfig(
                step_time="doctrine",
                hardware=tuple(catalogue_device(name) for name in ("h100-sxm5", "l40s", "m3-max")),
                target=model(target),
                draft=model(draft),
                candidates=candidates,
                batches=(1, 64),
                contexts=(1024, 16384),
                precision=precision,
                draft_precision=draft_precision,
            )
        )
        for target, precision, draft, draft_precision in PAIRS
    ]
    derived = ("tree_nodes", "step_time_kind", "method", "domain", "acceptance_assumption", "expected_tokens",
               "round_s", "throughput_tokens_per_s", "measured_target", "measured_drafter", "temperature",
               "speedup_low", "speedup_high", "step_time_source", "n_devices")  # fmt: skip
    return pl.concat(frames).drop(derived)


def test_projection_equals_the_stored_table():
    ours = golden_projection()
    stored = pl.read_csv(TABLE, schema=ours.schema)
    floats = [name for name, kind in ours.schema.items() if kind.is_float()]
    assert ours.drop(floats).equals(stored.drop(floats))
    np.testing.assert_allclose(ours.select(floats).to_numpy(), stored.select(floats).to_numpy(), rtol=1e-9, atol=0.0)


def test_stored_table_is_small():
    assert TABLE.stat().st_size < 20_000


if __name__ == "__main__":
    golden_projection().write_csv(TABLE)
