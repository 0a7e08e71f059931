"""Reading a projection for one place, and the plan that comes of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from specbook.checks import BadInput
from specbook.deploy.cautions import cautions
from specbook.deploy.plan import PlanOptions, make_plan
from specbook.deploy.projection import Place, choose_place, read_projection
from specbook.deploy.rates import acceptance_rates
from tests.deploy_cases import EVIDENCE, FALLING, MARGINAL, TRUNCATED, projected, write_projection

MEASURED = dict.fromkeys((0, 1, 2, 3, 4), "measured")


@pytest.fixture
def place(tmp_path: Path) -> Callable[..., Place]:
    """The place of a projection that is made of frames, with wishes for what is several."""

    def make(*frames: pl.DataFrame, wanted: dict[str, Any] | None = None, **metadata: str) -> Place:
        return choose_place(
            read_projection(write_projection(tmp_path / "T.parquet", *frames, **metadata)), wanted or {}
        )

    return make


def _evidence(**changes: Any) -> str:
    return json.dumps([EVIDENCE | changes])


# Files that are refused


def test_a_file_that_is_no_parquet(save: Callable[..., Path]):
    with pytest.raises(BadInput, match="is not a complete Parquet file; make it with specbook project"):
        read_projection(save("T.parquet", "PAR1 and no more"))


def test_a_table_without_metadata(tmp_path: Path):
    projected(FALLING).write_parquet(tmp_path / "T.parquet")
    with pytest.raises(BadInput, match=r"specbook\.schema = None: is no projection; expected specbook-projection/1"):
        read_projection(tmp_path / "T.parquet")


@pytest.mark.parametrize("schema", ["specbook-projection/2", "specbook-sweep/1"])
def test_a_table_of_another_schema(tmp_path: Path, schema: str):
    path = write_projection(tmp_path / "T.parquet", projected(FALLING), schema=schema)
    with pytest.raises(BadInput, match=f"'{schema}': is not a projection of this version"):
        read_projection(path)


def test_a_column_that_is_missing(tmp_path: Path):
    path = write_projection(tmp_path / "T.parquet", projected(FALLING).drop("tpot_s"))
    with pytest.raises(BadInput, match="lacks the column tpot_s"):
        read_projection(path)


def test_a_projection_without_rows(tmp_path: Path):
    with pytest.raises(BadInput, match="holds no rows"):
        read_projection(write_projection(tmp_path / "T.parquet", projected(FALLING).head(0)))


@pytest.mark.parametrize("evidence", ["{", '"text"'])
def test_metadata_that_are_no_list(tmp_path: Path, evidence: str):
    path = write_projection(tmp_path / "T.parquet", projected(FALLING), evidence=evidence)
    with pytest.raises(BadInput, match=r"specbook\.evidence: is no list"):
        read_projection(path)


@pytest.mark.parametrize(
    ("evidence", "problem"),
    [
        ([EVIDENCE, 5], r"specbook\.evidence\.1 = 5"),
        ([EVIDENCE | {"marginal_acceptance": [0.8, "0.6"]}], r"evidence\.0\.marginal_acceptance\.1 = '0\.6'"),
        ([EVIDENCE | {"marginal_acceptance": [8.0]}], r"evidence\.0\.marginal_acceptance\.0 = 8\.0"),
        ([EVIDENCE | {"provenance": "none"}], r"evidence\.0\.provenance = 'none'"),
    ],
)
def test_metadata_that_are_no_evidence(tmp_path: Path, evidence: list[Any], problem: str):
    path = write_projection(tmp_path / "T.parquet", projected(FALLING), evidence=json.dumps(evidence))
    with pytest.raises(BadInput, match=problem):
        read_projection(path)


@pytest.mark.parametrize("tokens", [0.5, 5.1])
def test_tokens_that_no_draft_gives(tmp_path: Path, tokens: float):
    frame = projected(FALLING).with_columns(
        expected_tokens=pl.when(pl.col("draft_length") == 4).then(tokens).otherwise("expected_tokens")
    )
    frame = frame.with_columns(tpot_s=pl.col("round_s") / pl.col("expected_tokens"))
    frame = frame.with_columns(speedup=pl.col("baseline_tpot_s") / pl.col("tpot_s"))
    frame = frame.with_columns(viable=(pl.col("speedup") > 1.0) | (pl.col("draft_length") == 0))
    with pytest.raises(BadInput, match=rf"expected_tokens = {tokens}"):
        read_projection(write_projection(tmp_path / "T.parquet", frame))


@pytest.mark.parametrize(
    ("column", "field"),
    [
        ("tpot_s", "tpot_s"), ("round_s", "round_s"), ("draft_s", "round_s"), ("verify_s", "round_s"),
        ("speedup", "speedup"), ("baseline_tpot_s", "speedup"), ("expected_tokens", "tpot_s"),
    ],
)  # fmt: skip
def test_a_figure_that_somebody_edited(tmp_path: Path, column: str, field: str):
    changed = pl.when(pl.col("batch") == 4).then(pl.col(column) * 0.9).otherwise(pl.col(column))
    path = write_projection(tmp_path / "T.parquet", projected(FALLING).with_columns(changed.alias(column)))
    with pytest.raises(BadInput, match=rf"{field} = .*does not follow from the other columns of row [45]: somebody"):
        read_projection(path)


@pytest.mark.parametrize("value", [None, float("nan")])
def test_a_figure_that_is_none(tmp_path: Path, value: float | None):
    edited = projected(FALLING).with_columns(pl.lit(value, dtype=pl.Float64).alias("tpot_s"))
    with pytest.raises(BadInput, match="tpot_s = "):
        read_projection(write_projection(tmp_path / "T.parquet", edited))


def test_a_verdict_that_somebody_edited(tmp_path: Path):
    edited = projected(FALLING).with_columns(pl.lit(True).alias("viable"))
    with pytest.raises(BadInput, match=r"viable = True: does not follow"):
        read_projection(write_projection(tmp_path / "T.parquet", edited))


def test_figures_that_are_text(tmp_path: Path):
    edited = projected(FALLING).with_columns(pl.col("round_s").cast(pl.String))
    with pytest.raises(BadInput, match="holds columns that are no numbers"):
        read_projection(write_projection(tmp_path / "T.parquet", edited))


# Places


@pytest.mark.parametrize(
    ("column", "values", "remedy"),
    [
        ("hardware", ("h100-sxm5", "l4"), "name one with --hardware"),
        ("domain", ("code", "math"), "name one with --domain"),
        ("method", ("eagle3", "mtp"), "name one with --method"),
        ("temperature", (0.0, 0.7), "name one with --temperature"),
        ("precision", ("bf16", "fp8"), "project one of them alone"),
    ],
)
def test_what_is_several_must_be_chosen(place: Callable[..., Place], column: str, values: tuple[Any, ...], remedy: str):
    frames = [projected(FALLING, **{column: value}) for value in values]
    with pytest.raises(BadInput, match=rf"T\.parquet: {column}: holds several: {values[0]}, {values[1]}; {remedy}"):
        place(*frames)
    if "--" in remedy:
        assert place(*frames, wanted={column: values[1]}).labels[column] == values[1]
        with pytest.raises(BadInput, match=rf"--{column} = .*: is not in the projection; it holds {values[0]}"):
            place(*frames, wanted={column: 5 if column == "temperature" else "none such"})


def test_trees_and_cuts_are_left_out_and_counted(place: Callable[..., Place]):
    tree = projected(FALLING, tree_nodes=8).filter(pl.col("draft_length") > 0)
    cut = projected(FALLING, assumptions=dict.fromkeys(TRUNCATED, "measured, cut entropy:1.5"))
    found = place(projected(FALLING), tree, cut.filter(pl.col("draft_length") == 4))
    assert found.n_other_drafts == 8 + 4
    assert found.rows.height == 12
    assert any("trees and drafts with a cut were left out" in each for each in _cautions(found))


def test_trees_alone_are_no_schedule(place: Callable[..., Place]):
    with pytest.raises(BadInput, match="holds trees or drafts with a cut alone; project a profile of a chain"):
        place(projected(FALLING, tree_nodes=8))


def test_a_projection_without_its_yardstick(place: Callable[..., Place]):
    with pytest.raises(BadInput, match="lacks draft length 0"):
        place(projected(FALLING).filter(pl.col("draft_length") > 0))


def test_a_batch_without_its_yardstick(place: Callable[..., Place]):
    found = place(projected(FALLING).filter((pl.col("draft_length") > 0) | (pl.col("batch") != 8)))
    with pytest.raises(BadInput, match="lacks draft length 0 at a batch"):
        make_plan(found, PlanOptions())


def test_a_draft_length_that_stands_twice(place: Callable[..., Place]):
    with pytest.raises(BadInput, match="holds a draft length twice at one batch"):
        make_plan(place(projected(FALLING), projected(FALLING)), PlanOptions())


# Plans


def test_a_plan_is_the_best_length_of_each_range(place: Callable[..., Place]):
    plan = make_plan(place(projected(FALLING)), PlanOptions())
    assert [(each.first_batch, each.last_batch, each.draft_length) for each in plan.ranges] == [
        (1, 7, 4), (8, 15, 2), (16, 16, 0),
    ]  # fmt: skip
    assert (plan.target, plan.drafter, plan.method) == ("T", "D", "eagle3")
    assert plan.rates is not None
    assert plan.rates.marginal_acceptance == tuple(MARGINAL)


def test_one_batch_is_one_length_for_all_up_to_it(place: Callable[..., Place]):
    plan = make_plan(place(projected(FALLING)), PlanOptions(batch=8))
    (only,) = plan.ranges
    assert (only.first_batch, only.last_batch, only.draft_length, plan.batch) == (1, 8, 2, 8)
    assert only.largest_loss == pytest.approx(5.0 / 4.0 - 1.0)
    with pytest.raises(BadInput, match=r"--batch = 5: was not projected, or does not fit; one of 1, 4, 8, 16"):
        make_plan(place(projected(FALLING)), PlanOptions(batch=5))


def test_several_contexts_must_be_chosen_or_taken_all(place: Callable[..., Place]):
    found = place(projected(FALLING), projected(FALLING, context=8192))
    with pytest.raises(BadInput, match=r"context: holds several: 512, 8192; name one with --context, or write a table"):
        make_plan(found, PlanOptions())
    with pytest.raises(BadInput, match=r"--context = 1024: was not projected; it holds 512, 8192"):
        make_plan(found, PlanOptions(context=1024))
    assert [each.first_context for each in make_plan(found, PlanOptions(by_context=True)).schedules] == [512, 8192]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by_context": True, "batch": 4}, "--batch: is one, and --by-context is for all"),
        ({"by_context": True, "context": 4}, "--context: is one, and --by-context is for all"),
        ({"min_gain": 1.5}, r"--min-gain = 1\.5: must lie in \[0, 1\]"),
        ({"min_gain": float("nan")}, r"--min-gain = nan: must lie in \[0, 1\]"),
    ],
)
def test_options_that_contradict(options: dict[str, Any], message: str):
    with pytest.raises(BadInput, match=message):
        PlanOptions(**options)


@pytest.mark.parametrize(
    ("labels", "drafter", "method"),
    [
        ({}, "D", "eagle3"),
        ({"measured_drafter": None}, "D", "eagle3"),
        ({"measured_drafter": None, "drafter": "eagle"}, None, "eagle3"),
        ({"measured_drafter": None, "drafter": "mtp", "method": None}, None, "mtp"),
        ({"measured_drafter": None, "drafter": "Llama-3.2-1B", "method": None}, "Llama-3.2-1B", "draft_model"),
    ],
)
def test_names_are_those_of_the_evidence_and_no_method_is_one(
    place: Callable[..., Place], labels: dict[str, Any], drafter: str | None, method: str
):
    plan = make_plan(place(projected(FALLING, **labels)), PlanOptions())
    assert (plan.drafter, plan.method) == (drafter, method)
    assert make_plan(place(projected(FALLING, **labels)), PlanOptions(drafter="mine")).drafter == "mine"


# Acceptance


def test_positions_are_those_that_were_measured_at_the_length(place: Callable[..., Place]):
    only = {batch: {0: of[0], 4: of[4]} for batch, of in FALLING.items()}
    plan = make_plan(place(projected(only, assumptions=MEASURED)), PlanOptions())
    assert plan.rates is not None
    assert plan.rates.marginal_acceptance == tuple(MARGINAL)


@pytest.mark.parametrize("changes", [{"marginal_acceptance": None}, {"draft_length": 5}, {"domain": "math"}])
def test_positions_that_nobody_measured_are_not_made_up(place: Callable[..., Place], changes: dict[str, Any]):
    only = {batch: {0: of[0], 4: of[4]} for batch, of in FALLING.items()}
    found = place(projected(only, assumptions=MEASURED), evidence=_evidence(**changes))
    plan = make_plan(found, PlanOptions())
    assert plan.rates is not None
    assert plan.rates.marginal_acceptance is None
    assert plan.rates.expected_tokens == pytest.approx(3.2)


def test_truncations_of_a_longer_profile_say_nothing_of_one_that_was_measured_as_a_mean():
    longer = dict.fromkeys((1, 2), "truncation of a profile at K = 5")
    tokens = {0: 1.0, 1: 1.8, 2: 2.4, 3: 2.85}
    assert acceptance_rates(3, tokens, longer | {3: "measured"}).marginal_acceptance is None
    own = dict.fromkeys((1, 2), "truncation of a profile at K = 3")
    assert acceptance_rates(3, tokens, own | {3: "measured"}).marginal_acceptance == (0.8, 0.6, 0.45)


def test_positions_that_contradict_the_projection_are_not_taken():
    rates = acceptance_rates(2, {0: 1.0, 2: 2.4}, {2: "measured"}, measured=[0.8, 0.5])
    assert rates.marginal_acceptance is None


# Cautions


def _cautions(found: Place, **options: Any) -> tuple[str, ...]:
    return cautions(found, make_plan(found, PlanOptions(**options)))


def _quiet() -> pl.DataFrame:
    """Every batch, one length, measured: nothing to warn of."""
    return projected({batch: {0: 9.0, 4: 5.0} for batch in range(1, 5)}, assumptions=MEASURED)


def test_measured_counts_of_the_same_pair_raise_no_caution(place: Callable[..., Place]):
    assert _cautions(place(_quiet())) == ()


@pytest.mark.parametrize(
    ("kind", "words"), [("mean_length", "a mean acceptance length"), ("draft_rate", "a draft acceptance rate")]
)
def test_scalar_evidence_is_called_so(place: Callable[..., Place], kind: str, words: str):
    (only,) = _cautions(place(_quiet(), evidence=_evidence(evidence=kind)))
    assert only.startswith(f"the evidence is a scalar, {words}: it says nothing of positions")


def test_a_length_from_another_one_is_called_so(place: Callable[..., Place]):
    frame = projected({batch: {0: 9.0, 2: 5.0} for batch in range(1, 5)})
    (only,) = _cautions(place(frame))
    assert only.startswith("acceptance at K = 2 was not measured but assumed: truncation of a profile at K = 4;")


def test_speculation_that_never_pays_is_called_so_first(place: Callable[..., Place]):
    slow = projected({batch: {0: 9.0, 4: 9.5} for batch in range(1, 5)}, assumptions=MEASURED)
    assert _cautions(place(slow))[0].startswith("do not speculate: no draft length is faster than none at any batch")
    large = projected({batch: {0: 9.0, 4: 5.0} for batch in range(1, 5)}, assumptions=MEASURED, fits_memory=False)
    assert _cautions(place(large))[0].startswith("do not speculate: not even the target alone fits in memory")


def test_batches_that_do_not_fit_are_named(place: Callable[..., Place]):
    found = place(_quiet().with_columns((pl.col("batch") < 3).alias("fits_memory")).with_columns(
        (pl.col("viable") & pl.col("fits_memory")).alias("viable")
    ))  # fmt: skip
    assert "at context 512 the target alone does not fit in memory from batch 3 on, so no engine gets there" in (
        _cautions(found)
    )
    (only,) = make_plan(found, PlanOptions()).ranges
    assert (only.last_batch, only.draft_length) == (2, 4)


def test_other_traffic_is_a_caution_and_no_error(place: Callable[..., Place]):
    (only,) = _cautions(place(_quiet(), wanted={"domain": "math"}))
    assert only.startswith("acceptance was measured on the domain code, not on math")
    unnamed = place(
        _quiet().with_columns(pl.lit(None, dtype=pl.String).alias("domain")), evidence=_evidence(domain=None)
    )
    assert _cautions(unnamed)[0].startswith("the evidence does not name its domain")


def test_thresholds_between_projected_batches_are_named(place: Callable[..., Place]):
    found = _cautions(place(projected(FALLING)), min_batches=1)
    assert any(
        "lengths change somewhere between batches 4 and 8, 8 and 16, which were not projected" in each for each in found
    )
    high = projected({4: {0: 9.0, 4: 5.0}}, assumptions=MEASURED)
    assert _cautions(place(high)) == ("batches below 4 were not projected, and have its length",)


def test_a_merge_that_costs_much_is_named(place: Callable[..., Place]):
    frame = projected({1: {0: 9.0, 2: 5.0, 4: 4.6}, 2: {0: 9.0, 2: 5.0, 4: 6.0}, 3: {0: 9.0, 2: 5.0, 4: 6.0}},
                      assumptions=MEASURED)  # fmt: skip
    (only,) = _cautions(place(frame))
    assert only.startswith("batches 1 to 3 lose up to 9% to their best lengths")
    assert _cautions(place(frame), min_batches=1) == ()


def test_other_names_are_cautions(place: Callable[..., Place]):
    frame = _quiet().with_columns(target=pl.lit("U"), method=pl.lit("draft_model"), drafter=pl.lit("E"))
    found = _cautions(place(frame, evidence=_evidence(method="draft_model")))
    assert found == (
        "acceptance was measured on T, and the times are those of U",
        "acceptance was measured with D, and the times are those of E",
    )


def test_a_projection_of_another_version_is_called_so(place: Callable[..., Place]):
    (only,) = _cautions(place(_quiet(), version="0.0.7"))
    assert only.startswith("the projection was written by specbook 0.0.7, and this is ")
