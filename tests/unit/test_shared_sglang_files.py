"""Real SpecForge files against answers worked out apart from this package; needs the data beside the checkout."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from specbook.acceptance.importing import FORMATS, ImportOptions, import_profile, import_profiles
from specbook.acceptance.importing.records import read_records
from specbook.acceptance.profile import AcceptanceProfile, read_profile, write_profile
from specbook.checks import BadInput

DATA = Path(__file__).parents[2].parent / "shared" / "data"
if not DATA.is_dir():
    pytest.skip("the folder of shared data is not here", allow_module_level=True)

FOLDER = DATA / "acceptance"
EAGLE3 = FOLDER / "sglang_bench_eagle3_skip_launch.json"
TABLE = FOLDER / "specforge_spec_bundle_data.json"


def _answers(name: str) -> dict[str, dict[str, str]]:
    with (DATA / "answers.csv").open(newline="", encoding="utf-8") as stream:
        return {row["part"]: row for row in csv.DictReader(stream) if row["file"] == name}


@pytest.fixture(scope="module")
def table() -> dict[str, AcceptanceProfile]:
    return import_profiles([TABLE])


@pytest.mark.parametrize("domain", ["mtbench", "gsm8k"])
def test_import_profiles_real_benchmarks_have_the_right_lengths(domain: str):
    profile = import_profiles([EAGLE3])[domain]
    length = float(_answers(EAGLE3.name)[domain]["mean_acceptance_length_incl_bonus"])
    assert profile.mean_acceptance_length == pytest.approx(length, abs=1e-6)
    assert (profile.evidence, profile.domain, profile.draft_length) == ("mean_length", domain, None)
    assert (profile.n_accepted_tokens, profile.n_drafted_tokens) == (None, None)


def test_import_profiles_real_benchmarks_have_whole_rounds():
    """Latency × throughput is a whole number of tokens, and by the length a whole number of rounds."""
    rounds = {domain: profile.n_rounds for domain, profile in import_profiles([EAGLE3]).items()}
    assert rounds == {"mtbench": 1802, "gsm8k": 5289}


def test_import_profile_real_benchmarks_are_pooled_by_rounds():
    profile = import_profile([EAGLE3])
    assert profile.mean_acceptance_length == pytest.approx((3911 + 13981) / (1802 + 5289), abs=1e-9)


def test_import_profiles_real_table_has_every_drafter_once(table: dict[str, AcceptanceProfile]):
    models = json.loads(TABLE.read_text(encoding="utf-8"))
    settings = [result for model in models.values() for inner in model.values() for result in inner["results"]]
    drafters = [row for result in settings for row in result["metrics"] if row["Name"] != "Wihtout EAGLE3"]
    assert (len(models), len(settings)) == (10, 300)
    assert len(table) == len(drafters) == 440
    assert {profile.target for profile in table.values()} == set(models)
    lengths = sorted(profile.mean_acceptance_length or 0.0 for profile in table.values())
    assert lengths == pytest.approx(sorted(row["accept_length"] for row in drafters), abs=1e-12)


def test_import_profiles_real_table_has_no_baseline_and_no_counts(table: dict[str, AcceptanceProfile]):
    assert all((profile.mean_acceptance_length or 0.0) > 1.0 for profile in table.values())
    assert all(profile.n_rounds is None and profile.evidence == "mean_length" for profile in table.values())
    assert not any("Wihtout" in (profile.drafter or "Wihtout") for profile in table.values())


def test_import_profiles_real_table_keeps_trees_apart(table: dict[str, AcceptanceProfile]):
    chains = [profile for profile in table.values() if profile.tree is None]
    trees = [profile for profile in table.values() if profile.tree is not None]
    assert (len(chains), len(trees)) == (264, 176)
    assert {profile.draft_length for profile in chains} == {3, 5, 7}
    assert {(profile.draft_length, profile.tree.n_nodes) for profile in trees if profile.tree} == {(None, 6), (None, 8)}


def test_import_profile_real_row_is_found_by_its_labels():
    only = {
        "target": ("Qwen3-30B-A3B-Instruct-2507",),
        "domain": ("gsm8k",),
        "draft_length": ("5",),
    }
    profile = import_profile([TABLE], ImportOptions(only=only))
    assert profile.mean_acceptance_length == pytest.approx(3.0113471715954674, abs=1e-12)
    assert profile.drafter == "lmsys/SGLang-EAGLE3-Qwen3-30B-A3B-Instruct-2507-SpecForge"


def test_import_profile_real_table_is_not_averaged():
    with pytest.raises(BadInput, match="requests disagree"):
        import_profile([TABLE])


def test_real_table_survives_the_round_trip(table: dict[str, AcceptanceProfile], tmp_path: Path):
    for name, profile in list(table.items())[:20]:
        write_profile(profile, tmp_path / f"{name}.json")
        assert read_profile(tmp_path / f"{name}.json") == profile


OURS = (
    "model-optimizer",
    "speculation-profile",
    "sglang-meta-info",
    "sglang-bench-speculative",
    "specforge",
    "automodel",
)
RECORDS = sorted(path for path in FOLDER.iterdir() if path.suffix in {".json", ".jsonl"})


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.name)
def test_recognises_no_real_file_of_another_format(path: Path):
    expected = {"specforge"} if path in {EAGLE3, TABLE} else set()
    records = [record.value for record in read_records(path, lambda _: None)]
    claimed = {name for name in OURS for record in records if FORMATS[name].recognises(record)}  # type: ignore[attr-defined]
    assert claimed == expected
