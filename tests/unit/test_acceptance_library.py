"""The shipped evidence: each profile reads, names its source and agrees with itself; published figures are right."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest
import yaml

from specbook.acceptance.candidates import draft_candidates
from specbook.acceptance.importing import import_profile
from specbook.acceptance.library import (
    example_file,
    library_names,
    library_profile,
    library_series,
    names_beginning,
    published_sources,
    published_table,
)
from specbook.acceptance.profile import AcceptanceProfile
from specbook.acceptance.yields import expected_tokens_per_round
from specbook.checks import BadInput

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT.parent / "shared" / "data" / "acceptance" / "inferencex_golden_al"
PUBLISHED = [name for name in library_names() if library_profile(name).provenance[0].format == "published"]


def _golden(model: str) -> list[float]:
    return [library_profile(f"golden-al-{model}-k{k}").mean_acceptance_length or 0.0 for k in range(1, 9)]


@pytest.mark.parametrize("name", library_names())
def test_library_profile_says_where_it_was_published(name: str):
    profile = library_profile(name)
    assert profile.provenance
    assert all(item.source for item in profile.provenance)


@pytest.mark.parametrize("name", library_names())
def test_library_profile_survives_its_own_file(name: str):
    profile = library_profile(name)
    written = profile.model_dump_json(by_alias=True)
    assert AcceptanceProfile.model_validate_json(written, strict=True) == profile


# AMD's own length is above what its positions give, and its profile says so; printed digits explain the others.
GAPS = {"amd-2026": 0.06, "vllm-26498-k10": 2e-3}


@pytest.mark.parametrize("name", [name for name in library_names() if library_profile(name).marginal_acceptance])
def test_library_profile_one_plus_marginal_sum_is_its_length(name: str):
    profile = library_profile(name)
    tolerance = GAPS.get(name, 1e-3)
    assert 1 + sum(profile.marginal_acceptance or []) == pytest.approx(profile.mean_acceptance_length, abs=tolerance)


def test_library_domains_add_up_to_the_whole_run():
    whole = library_profile("spec-bench-sps-vicuna-7b")
    parts = [library_profile(name) for name in library_names() if name.startswith("spec-bench-sps-vicuna-7b-")]
    assert len(parts) == 6
    assert sum(part.n_rounds or 0 for part in parts) == whole.n_rounds == 40632
    assert sum(part.n_accepted_tokens or 0 for part in parts) == whole.n_accepted_tokens == 51932


@pytest.mark.parametrize("method", ["eagle", "hydra", "medusa"])
def test_library_tree_drafters_are_trees(method: str):
    assert library_profile(f"spec-bench-{method}-vicuna-7b").tree is not None


def test_library_profile_unknown_name_without_a_close_one_says_how_to_list():
    with pytest.raises(BadInput, match=r"'nope': no such profile in the library; specbook profile library lists them"):
        library_profile("nope")


def test_library_profile_unknown_name_names_a_few_close_ones():
    with pytest.raises(BadInput, match=r"close to it: golden-al-qwen3\.5-thinking-on-k4, ") as refusal:
        library_profile("golden-al-qwen3-thinking-on-k4")
    assert str(refusal.value).count("golden-al-") <= 5


@pytest.mark.parametrize("name", ["vllm-per-request.jsonl", "spec-bench.jsonl"])
def test_example_file_is_imported(name: str):
    assert import_profile([example_file(name)]).n_rounds


def test_library_series_keeps_every_name():
    assert sorted(name for names in library_series(library_names()).values() for name in names) == library_names()


def test_library_series_says_which_draft_lengths_there_are():
    assert list(library_series(["a-k10", "a-k2", "a-k1", "b-k3", "b-k7", "c-k5", "d"])) == [
        "a-k{1,2,10}",
        "b-k{3,7}",
        "c-k5",
        "d",
    ]


def test_names_beginning_keeps_to_the_beginning():
    assert len(names_beginning("golden-al-qwen3.5")) == 16
    assert names_beginning("") == library_names()
    with pytest.raises(BadInput, match="no such profile"):
        names_beginning("thinking-on")


# Published figures.


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_profile_names_a_key_and_invents_no_counts(name: str):
    profile = library_profile(name)
    (origin,) = profile.provenance
    assert origin.key in published_sources()
    assert origin.file is origin.sha256 is profile.intervals is None
    if profile.evidence in ("mean_length", "conditional"):
        assert profile.n_rounds is profile.n_drafted_tokens is profile.n_accepted_tokens is None


def test_published_sources_are_keys_of_the_bibliography():
    entries = (ROOT / "book" / "references.bib").read_text(encoding="utf-8")
    assert set(published_sources()) <= set(re.findall(r"^@\w+\{(\S+),", entries, re.MULTILINE))


@pytest.mark.parametrize("key", published_sources())
def test_published_table_agrees_with_the_profiles(key: str):
    table = published_table(key)
    assert table["key"].unique().to_list() == [key]
    for row in table.filter(pl.col("name").is_not_null()).iter_rows(named=True):
        profile = library_profile(row["name"])
        for column in ("target", "drafter", "method", "domain", "temperature", "draft_length", "evidence", "n_rounds"):
            assert row[column] == getattr(profile, column)
        assert row["mean_acceptance_length"] == profile.mean_acceptance_length
        assert bool(row["tree"]) == (profile.tree is not None)


def test_published_tables_hold_every_published_profile_once():
    tables = pl.concat([published_table(key) for key in published_sources()])
    assert sorted(tables["name"].drop_nulls()) == PUBLISHED


def test_published_table_unknown_source_names_the_known():
    with pytest.raises(BadInput, match=r"'nope': no published figures of that source; one of .*specbench"):
        published_table("nope")


@pytest.mark.parametrize("name", [name for name in PUBLISHED if library_profile(name).tree is not None])
def test_published_tree_is_refused_by_the_projection(name: str):
    with pytest.raises(BadInput, match="tree drafter"):
        draft_candidates([library_profile(name)], assume="truncation")


def test_published_profile_without_a_draft_length_offers_none():
    for name in PUBLISHED:
        profile = library_profile(name)
        if profile.draft_length is None and profile.tree is None:
            with pytest.raises(BadInput, match="draft_length"):
                draft_candidates([profile])


@pytest.mark.parametrize(
    ("model", "lengths"),
    [
        ("dsv4-dspark-thinking-on", [1.84, 2.51, 3.01, 3.36, 3.61, 3.77, 3.73, 3.47]),
        ("dsv4-thinking-off", [1.92, 2.61, 2.97, 3.00, 3.10, 3.16, 3.00, 3.11]),
        ("qwen3.5-thinking-on", [1.93, 2.73, 3.39, 3.97, 4.41, 4.80, 5.04, 5.21]),
        ("kimik3-block-thinking-on", [1.85, 2.51, 3.00, 3.36, 3.62, 3.75, 3.84, 4.00]),
    ],
)
def test_golden_lengths_are_those_of_the_source(model: str, lengths: list[float]):
    assert _golden(model) == lengths


def test_golden_lengths_equal_the_files_they_come_from():
    if not GOLDEN.is_dir():
        pytest.skip("the folder of shared data is not here")
    table = published_table("inferencex2026")
    told = 0
    for path in GOLDEN.glob("*.yaml"):
        ((model, modes),) = yaml.safe_load(path.read_text(encoding="utf-8")).items()
        block = "block" in path.name
        for mode, lengths in modes.items():
            rows = table.filter(
                pl.col("target") == f"{model}/{mode}", pl.col("method").str.contains("block") == block
            ).sort("draft_length")
            assert dict(zip(rows["draft_length"], rows["mean_acceptance_length"], strict=True)) == lengths
            told += len(lengths)
    assert told == table.height == 96


def test_golden_lengths_lie_between_one_and_a_full_round_and_need_not_rise():
    table = published_table("inferencex2026")
    assert table.filter(
        ~pl.col("mean_acceptance_length").is_between(1.0, pl.col("draft_length") + 1.0, closed="both")
    ).is_empty()
    falling = {
        target
        for (target,), rows in table.sort("draft_length").group_by("target", maintain_order=True)
        if rows.filter(pl.col("method") != "dspark, block rejection")["mean_acceptance_length"].diff().min() < 0
    }
    assert "deepseek-v4-pro-0813/thinking_on" in falling
    assert {"glm-5.2-fp8/thinking_on", "kimi-k3/thinking_on"}.isdisjoint(falling)
    lengths = _golden("dsv4-dspark-thinking-on")
    assert lengths[5] - lengths[7] == pytest.approx(0.30, abs=5e-3)


def test_golden_sampling_differs_with_thinking_where_the_source_says_so():
    for mode, temperature, setting in (("on", 0.6, "top_p 0.95"), ("off", 0.7, "presence penalty 1.5")):
        profile = library_profile(f"golden-al-qwen3.5-thinking-{mode}-k4")
        assert profile.temperature == temperature
        assert setting in (profile.provenance[0].source or "")
    assert library_profile("golden-al-kimik2.5-thinking-off-k1").temperature == 0.6
    assert library_profile("golden-al-kimik2.5-thinking-on-k1").temperature == 1.0


def test_golden_series_gives_one_measured_point_for_each_draft_length():
    profiles = [library_profile(name) for name in names_beginning("golden-al-qwen3.5-thinking-on")]
    candidates = draft_candidates(profiles)
    assert candidates.draft_lengths == tuple(range(9))
    assert candidates.expected_tokens == (1.0, *_golden("qwen3.5-thinking-on"))
    assert set(candidates.assumptions) == {"measured"}


def test_golden_thinking_modes_are_not_mixed():
    mixed = [library_profile(f"golden-al-dsv4-thinking-{mode}") for mode in ("on-k1", "off-k2")]
    with pytest.raises(BadInput, match="profiles disagree"):
        draft_candidates(mixed)


def test_eagle_chain_from_its_acceptances_is_below_the_tree_beside_it():
    chain, tree = library_profile("eagle-vicuna-7b-t0"), library_profile("eagle-vicuna-7b-t0-tree")
    assert expected_tokens_per_round(chain.conditional_acceptance) == pytest.approx(3.309, abs=5e-4)
    assert chain.mean_acceptance_length is None
    assert tree.mean_acceptance_length == 3.94
    longest = draft_candidates([chain], assume="truncation")
    assert longest.draft_lengths == (0, 1, 2, 3, 4, 5)
    assert longest.expected_tokens[-1] == pytest.approx(3.309, abs=5e-4)
    assert all("truncation" in assumption for assumption in longest.assumptions[1:])


def test_eagle_every_chain_is_below_its_tree_by_a_fifth_to_a_whole_token():
    names = [name for name in PUBLISHED if name.startswith("eagle-") and not name.endswith("-tree")]
    assert len(names) == 12
    for name in names:
        chain = float(expected_tokens_per_round(library_profile(name).conditional_acceptance))
        tree = library_profile(f"{name}-tree").mean_acceptance_length or 0.0
        assert 0.2 < tree - chain < 1.0, name


def _two_devices() -> pl.DataFrame:
    board = published_table("specbench").filter(pl.col("target") == "vicuna-7b-v1.3")
    on = {device: board.filter(pl.col("device").str.contains(device)) for device in ("3090", "A100")}
    return on["3090"].join(on["A100"], on="method", suffix="_a100")


def test_leaderboard_lengths_agree_between_devices_for_nine_methods_of_ten():
    both = _two_devices()
    apart = both.select("method", (pl.col("mean_acceptance_length") - pl.col("mean_acceptance_length_a100")).abs())
    differing = apart.filter(pl.col("mean_acceptance_length") > 0.03 + 1e-9)
    assert (both.height, differing["method"].to_list()) == (10, ["rest"])
    assert differing["mean_acceptance_length"].item() == pytest.approx(0.19, abs=5e-3)


def test_leaderboard_speedups_move_between_devices_by_up_to_1_59():
    ratios = _two_devices().select("method", ratio=pl.col("speedup_a100") / pl.col("speedup")).sort("ratio")
    assert ratios.row(-1)[0] == "recycling"
    assert ratios.row(-1)[1] == pytest.approx(1.59, abs=5e-3)
    assert ratios.row(0)[1] < 0.9  # one method gains the other way


def test_leaderboard_has_every_cell():
    board = published_table("specbench")
    assert board.height == 41
    assert board["method"].n_unique() == 11
    assert set(board.filter(~pl.col("tree"))["method"]) == {"draft_model", "prompt_lookup"}
    assert board["mean_acceptance_length"].min() >= 1.0


@pytest.mark.parametrize(
    ("name", "length", "tolerance"),
    [
        ("model-optimizer-2247", 2.925, 1e-9),
        ("vllm-48892-mtp-k8", 4.496, 5e-4),
        ("vllm-48892-mtp-k1", 1.834, 5e-4),
        ("vllm-26498-k10", 3.64, 2e-3),
        ("llama-cpp-24536", 2.92, 5e-3),
        ("sglang-33518", 106 / 43, 1e-12),
    ],
)
def test_fixture_both_routes_give_the_published_length(name: str, length: float, tolerance: float):
    profile = library_profile(name)
    assert 1 + sum(profile.marginal_acceptance or []) == pytest.approx(length, abs=max(tolerance, 1e-9))
    assert profile.mean_acceptance_length == pytest.approx(length, abs=tolerance)
    assert draft_candidates([profile]).expected_tokens[-1] == pytest.approx(length, abs=max(tolerance, 1e-9))


def test_fixture_sglang_counts_hold_all_identities():
    profile = library_profile("sglang-33518")
    assert profile.evidence == "counts"
    assert profile.table() == {5: [11, 14, 11, 4, 0, 3]}
    assert (profile.n_rounds, profile.n_drafted_tokens, profile.n_accepted_tokens) == (43, 215, 63)


def test_fixture_amd_gap_is_a_warning_and_no_draft_length_is_claimed():
    profile = library_profile("amd-2026")
    assert profile.mean_acceptance_length == 2.80
    assert 1 + sum(profile.marginal_acceptance or []) == pytest.approx(2.75, abs=1e-12)
    assert any("2.75" in warning and "2.80" in warning for warning in profile.warnings)
    assert profile.draft_length is None


def test_single_requests_say_that_they_are_single():
    for name in ("llama-cpp-24536", "sglang-33518"):
        profile = library_profile(name)
        assert profile.provenance[0].n_requests == 1
        assert any("one request" in warning for warning in profile.warnings)


def test_leviathan_holds_one_position_and_says_what_its_source_assumes():
    for name in [*names_beginning("leviathan-"), "soup-843"]:
        profile = library_profile(name)
        assert len(profile.conditional_acceptance or []) == 1
        assert profile.draft_acceptance_rate is None
        assert any("assumption" in warning for warning in profile.warnings)


def test_leviathan_table_reproduces_the_expected_speedups():
    table = published_table("leviathan2023").filter(pl.col("speedup_draft_length").is_not_null())
    assert table.height == 12
    for row in table.iter_rows(named=True):
        (alpha,), drafts = row["conditional_acceptance"], row["speedup_draft_length"]
        tokens = float(expected_tokens_per_round([alpha] * drafts))
        assert tokens / (drafts * row["draft_cost"] + 1.0) == pytest.approx(row["expected_speedup"], abs=0.07)


def test_p_eagle_lengths_count_the_bonus_token():
    lengths = published_table("peagle2026").filter(pl.col("draft_length") == 3)["mean_acceptance_length"]
    assert lengths.max() > 3.0
    assert lengths.max() <= 4.0


def test_published_files_are_small_and_hold_no_path():
    folder = ROOT / "specbook" / "acceptance" / "library" / "published"
    files = list(folder.glob("*.json"))
    assert len(files) == len(published_sources()) == 14
    assert sum(path.stat().st_size for path in files) < 60_000
    for path in files:
        assert json.loads(path.read_text(encoding="utf-8"))["key"] == path.stem


# On the command line.


def test_library_listing_gives_a_series_one_line_with_its_lengths(cli):
    listing = cli("profile", "library").out.splitlines()
    (line,) = [line for line in listing if "golden-al-qwen3.5-thinking-on" in line]
    assert line.split() == [
        "golden-al-qwen3.5-thinking-on-k{1..8}",
        *(f"{x:.2f}" for x in _golden("qwen3.5-thinking-on")),
    ]
    assert len(listing) < 180
    assert cli("profile", "show", "--library").out.splitlines() == listing


def test_library_listing_names_every_source_and_every_series(cli):
    listing = cli("profile", "library").out
    assert all(f"({key})" in listing for key in published_sources())
    assert all(name in listing.split() for name in library_series(library_names()))


@pytest.mark.parametrize("columns", ["60", "80", "200"])
def test_library_listing_keeps_names_whole(cli, monkeypatch, columns: str):
    monkeypatch.setenv("COLUMNS", columns)
    assert all(name in cli("profile", "library").out.split() for name in library_series(library_names()))


def test_library_beginning_of_a_name_lists_full_names(cli):
    listed = cli("profile", "library", "golden-al-qwen3.5")
    assert all(name in listed.out.split() for name in names_beginning("golden-al-qwen3.5"))
    document = json.loads(cli("profile", "show", "--library", "golden-al-qwen3.5", "--json").out)
    assert list(document) == names_beginning("golden-al-qwen3.5")


def test_library_exact_name_is_shown_even_if_others_begin_like_it(cli):
    shown = cli("profile", "show", "--library", "eagle-vicuna-7b-t0")
    assert shown.out == cli("profile", "show", "eagle-vicuna-7b-t0").out
    assert "conditional" in shown.out


@pytest.mark.parametrize("command", [("library",), ("show", "--library")])
def test_library_unknown_name_is_one_short_line(cli, command: tuple[str, ...]):
    outcome = cli("profile", *command, "golden-al-qwen3.5-thinking-on-k9")
    assert (outcome.code, outcome.out) == (2, "")
    assert len(outcome.err.splitlines()) == 1
    assert "golden-al-qwen3.5-thinking-on-k8" in outcome.err
    assert len(outcome.err) < 300


def test_profile_show_without_a_name_says_what_to_name(cli):
    outcome = cli("profile", "show")
    assert (outcome.code, outcome.out) == (2, "")
    assert "--library" in outcome.err
