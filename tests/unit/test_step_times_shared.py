"""Real tables of step times against their published figures; needs the data beside the checkout."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from specbook.checks import BadInput
from specbook.hardware.readers import StepTimeOptions, import_step_times
from specbook.roofline.measured_steps import MeasuredSteps

DATA = Path(__file__).parents[2].parent / "shared" / "data"
if not DATA.is_dir():
    pytest.skip("the folder of shared data is not here", allow_module_level=True)

TABLES = DATA / "series" / "steptime_tables_shared.csv"
SPLITWISE = DATA / "series" / "steptime_splitwise_perf_model.csv"


def test_shared_table_holds_several_series():
    with pytest.raises(BadInput, match=r"holds 9 series; choose one with --series: 'ggml-batch-costs-17034'"):
        import_step_times(TABLES)


@pytest.mark.parametrize(
    ("series", "cost", "width", "multiple"),
    [("ggml-batch-costs-17034", 0.605, 2, 1.21), ("ggml-batch-costs-14132", 0.213, 10, 2.13)],
)
def test_shared_batch_costs_multiply_one_pass(series: str, cost: float, width: int, multiple: float):
    table = import_step_times(TABLES, StepTimeOptions(series=series, context=4096))
    assert multiple == pytest.approx(width * cost)
    step = MeasuredSteps.from_table(table, one_pass_s=0.05)
    assert step(width, 1, 4096) == pytest.approx(0.05 * multiple, rel=1e-12)
    assert step(1, 1, 4096) == 0.05


def test_shared_batched_bench_times_are_as_published():
    table = import_step_times(TABLES, StepTimeOptions(series="llama-batched-bench-3545"))
    assert {point.batch: point.seconds for point in table.points} == pytest.approx(
        {1: 0.024054688, 2: 0.039289062, 4: 0.053734375, 8: 0.057375, 16: 0.066054688, 32: 0.068757812}, rel=1e-9
    )


@pytest.mark.parametrize("series", ["llama-batched-bench-16894-pp512", "vllm-mlx-763-verify", "llama 160M F16"])
def test_shared_series_by_a_part_of_their_names(series: str):
    assert import_step_times(TABLES, StepTimeOptions(series=series)).unit == "seconds"


def test_shared_verify_curve_of_mlx():
    table = import_step_times(TABLES, StepTimeOptions(series="vllm-mlx-763-verify", context=512))
    step = MeasuredSteps.from_table(table)
    assert step(5, 1, 512) / step(1, 1, 512) == pytest.approx(20.67 / 8.47)


def test_shared_splitwise_decode_times_are_medians_of_whole_runs():
    name = "llama2-70b, a100-80gb, tensor_parallel 8"
    table = import_step_times(SPLITWISE, StepTimeOptions(series=name, only={"context": (576,)}))
    frame = pl.read_csv(SPLITWISE).filter(
        model="llama2-70b", hardware="a100-80gb", tensor_parallel=8, prompt_size=512, token_size=128
    )
    frame = frame.filter(
        (pl.col("prompt_time") + 127 * pl.col("token_time") - pl.col("e2e_time")).abs() <= 0.1 * pl.col("e2e_time")
    )
    medians = dict(frame.group_by("batch_size").agg(pl.col("token_time").median() / 1e3).iter_rows())
    assert {point.batch: point.seconds for point in table.points} == pytest.approx(medians, rel=1e-12)
    assert (table.hardware, table.hole()) == ("8 × a100-80gb", None)


def test_shared_splitwise_batches_that_waited_are_left_out():
    name = "llama2-70b, a100-80gb, tensor_parallel 2"
    table = import_step_times(SPLITWISE, StepTimeOptions(series=name, only={"context": (576,)}))
    assert table.batches == [1, 2, 4, 8, 16]


def test_shared_run_of_a_server_started_apart_cannot_be_placed():
    with pytest.raises(BadInput, match=r"mtbench\[0\]: steps = None: the draft setting is not in the file"):
        import_step_times(DATA / "acceptance" / "sglang_bench_eagle3_skip_launch.json")


def test_shared_acceptance_files_hold_no_step_times():
    paths = [path for path in (DATA / "acceptance").iterdir() if path.is_file()]
    for path in [*paths, DATA / "series" / "series_shared.csv", DATA / "series" / "vllm_bench_gb10_aggregate.json"]:
        with pytest.raises(BadInput) as caught:
            import_step_times(path)
        assert len(str(caught.value).splitlines()) == 1
