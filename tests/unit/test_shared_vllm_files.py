"""Real files of vLLM against answers worked out apart from this package; needs the data beside the checkout."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from specbook.acceptance.importing import ImportOptions, import_profile, import_profiles
from specbook.acceptance.profile import AcceptanceProfile, read_profile, write_profile
from specbook.checks import BadInput

DATA = Path(__file__).parents[2].parent / "shared" / "data"
if not DATA.is_dir():
    pytest.skip("the folder of shared data is not here", allow_module_level=True)

FOLDER = DATA / "acceptance"
BENCH = sorted(path.name for path in FOLDER.glob("vllm_bench_serve_*.json"))
LOGS = sorted(path.name for path in FOLDER.glob("vllm_log_*.txt"))


def _answer(name: str) -> dict[str, str]:
    with (DATA / "answers.csv").open(newline="", encoding="utf-8") as stream:
        return next(row for row in csv.DictReader(stream) if row["file"] == name)


@pytest.fixture(scope="module")
def imported() -> dict[str, AcceptanceProfile]:
    return {name: import_profile([FOLDER / name]) for name in (*BENCH, *LOGS)}


def test_shared_files_are_five_results_and_five_logs():
    assert (len(BENCH), len(LOGS)) == (5, 5)


@pytest.mark.parametrize("name", [*BENCH, *LOGS])
def test_import_profile_real_file_counts_are_right(imported: dict[str, AcceptanceProfile], name: str):
    profile, answer = imported[name], _answer(name)
    assert profile.n_rounds == int(answer["rounds"])
    assert profile.n_drafted_tokens == int(answer["drafted_tokens"])
    assert profile.n_accepted_tokens == int(answer["accepted_draft_tokens"])
    length = float(answer["mean_acceptance_length_incl_bonus"])
    assert profile.mean_acceptance_length == pytest.approx(length, abs=1e-6)


@pytest.mark.parametrize("name", [*BENCH, *LOGS])
def test_import_profile_real_file_marginals_are_right(imported: dict[str, AcceptanceProfile], name: str):
    published = [float(value) for value in _answer(name)["per_position_marginal_first_positions"].split()]
    profile = imported[name]
    assert profile.evidence == "marginal"
    assert profile.marginal_acceptance == pytest.approx(published, abs=1e-6)
    assert profile.draft_length == len(published)


@pytest.mark.parametrize("name", [*BENCH, *LOGS])
def test_import_profile_real_file_survives_the_round_trip(
    imported: dict[str, AcceptanceProfile], tmp_path: Path, name: str
):
    write_profile(imported[name], tmp_path / "p.json")
    assert read_profile(tmp_path / "p.json") == imported[name]


def test_import_profile_real_results_name_their_target(imported: dict[str, AcceptanceProfile]):
    assert {imported[name].target for name in BENCH} == {"Qwen/Qwen3.6-35B-A3B"}


def test_import_profile_real_results_of_several_draft_lengths_are_kept_apart():
    paths = [FOLDER / name for name in BENCH if "_mtp" in name]
    with pytest.raises(BadInput, match="totals of several runs"):
        import_profile(paths)
    code = [path for path in paths if "_code_" in path.name]
    with pytest.raises(BadInput, match="draft_length: requests disagree: 1, 2, 3"):
        import_profile(code, ImportOptions(labels=SAID))


def test_import_profile_real_results_of_one_draft_length_and_two_workloads_are_kept_apart():
    """Code at concurrency 4 and Japanese at concurrency 8: one target, one K, two lengths."""
    paths = [FOLDER / name for name in BENCH if "_mtp3_" in name]
    lengths = [profile.mean_acceptance_length for profile in import_profiles(paths).values()]
    assert lengths == pytest.approx([3.034508, 2.856293], abs=1e-6)


def test_import_profile_real_logs_are_pooled_only_if_somebody_says_so():
    paths = [FOLDER / name for name in LOGS if "dflash" not in name]
    with pytest.raises(BadInput, match="totals of several runs"):
        import_profile(paths)
    assert import_profile(paths, ImportOptions(labels=SAID)).n_rounds == 572 + 783 + 665 + 581


SAID = {"target": "m", "domain": "code", "temperature": 0.0}


def test_import_profiles_the_whole_folder_gives_every_profile_a_name():
    """Every real file in one call: what differs is apart, and what is no acceptance file is named."""
    profiles = import_profiles([FOLDER])
    assert len(profiles) > 400
    named = {origin.file for profile in profiles.values() for origin in profile.provenance}
    assert {*LOGS, *BENCH} <= named
