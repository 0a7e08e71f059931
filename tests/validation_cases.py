"""Validations with chosen figures, and small series files, for tests of what people see of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from specbook.validation.rounds import TERMS
from specbook.validation.scores import NEAR_ONE, scored
from specbook.validation.series import RowProblem
from specbook.validation.validate import Validation, example_validation

SCHEMA = example_validation().frame.schema
SHA256 = "5" * 64
CONDITION = "Acceptance is taken as given."
HEADER = "series,hardware,engine,target,drafter,K,batch,context,acc_len_incl_bonus,tok_s,baseline_tok_s,unit"
# Six rows of one series at two batches, one row that lacks its device and its baseline, one that is impossible.
SERIES = f"""{HEADER}
mine,H200,SGLang,Llama-3.1-8B-Instruct,EAGLE-3,3,1,512,2.9,404,190,tok/s
mine,H200,SGLang,Llama-3.1-8B-Instruct,EAGLE-3,5,1,512,3.5,447,190,tok/s
mine,H200,SGLang,Llama-3.1-8B-Instruct,EAGLE-3,7,1,512,3.9,450,190,tok/s
mine,H200,SGLang,Llama-3.1-8B-Instruct,EAGLE-3,3,8,512,2.9,2400,1300,tok/s
mine,H200,SGLang,Llama-3.1-8B-Instruct,EAGLE-3,5,8,512,3.5,2500,1300,tok/s
mine,H200,SGLang,Llama-3.1-8B-Instruct,EAGLE-3,7,8,512,3.9,2450,1300,tok/s
yours,,SGLang,Llama-3.1-8B-Instruct,EAGLE-3,3,1,512,2.9,404,,tok/s
theirs,H200,SGLang,Llama-3.1-8B-Instruct,EAGLE-3,3,1,512,7.5,404,190,tok/s
"""
_LABELS: dict[str, Any] = {
    "series": "mine", "source": "", "hardware": "H200", "engine": "SGLang", "target": "Llama 8B", "drafter": "EAGLE-3",
    "workload": "chat", "status": "complete", "device": "h200-sxm", "target_model": "Llama-3.1-8B",
    "method": "eagle3", "draft_length": 3.0, "batch": 1, "tokens_per_round": 2.5, "baseline_s": 0.01, "outside_s": 0.0,
}  # fmt: skip


def compared(line: int, measured: float, predicted: float, **labels: Any) -> dict[str, Any]:
    """A row that was predicted and compared; every term of its round takes the same time."""
    row = _LABELS | labels
    round_s = row["tokens_per_round"] * row["baseline_s"] / predicted
    return row | {
        "line": line,
        "measured_speedup": measured,
        "predicted_speedup": predicted,
        "error": predicted / measured - 1.0,
        "measured_wins": measured > 1.0,
        "predicted_wins": predicted > 1.0,
        "is_near_one": abs(measured - 1.0) <= NEAR_ONE,
        "round_s": round_s,
        **dict.fromkeys(TERMS, round_s / len(TERMS)),
    }


def incomplete(line: int, missing: str, **labels: Any) -> dict[str, Any]:
    """A row that lacks something."""
    return {**_LABELS, "line": line, "device": None, **labels, "status": "incomplete", "missing": missing}


def validation_of(*rows: dict[str, Any], problems: Sequence[RowProblem] = ()) -> Validation:
    """A validation of chosen rows, whose scores follow from them."""
    frame = pl.DataFrame(list(rows), schema=SCHEMA)
    return Validation(
        name="mine.csv",
        sha256=SHA256,
        frame=frame,
        scores=scored(frame),
        problems=tuple(problems),
        conditions=(CONDITION,),
    )


def problem(line: int, value: str = "0", *, is_fatal: bool = True) -> RowProblem:
    """Something wrong with the speed of a row."""
    return RowProblem(
        line=line, column="tok_s", value=value, problem="is not above 0", remedy="leave it empty", is_fatal=is_fatal
    )
