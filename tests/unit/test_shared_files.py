"""Real acceptance files against answers worked out apart from this package; needs the data beside the checkout."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from specbook.acceptance.candidates import draft_candidates
from specbook.acceptance.importing import ImportOptions, import_profile
from specbook.acceptance.profile import AcceptanceProfile, read_profile, write_profile
from specbook.checks import BadInput

DATA = Path(__file__).parents[2].parent / "shared" / "data"
if not DATA.is_dir():
    pytest.skip("the folder of shared data is not here", allow_module_level=True)

FOLDER = DATA / "acceptance"
NAMES = sorted(path.name for path in FOLDER.glob("specbench_*.jsonl"))
FAILED = "specbench_eagle3_all_errors_nan.jsonl"
NUL_TAIL = "specbench_eagle_vicuna7b_specbench_nul_tail.jsonl"
READABLE = [name for name in NAMES if name != FAILED]


def _answer(name: str) -> dict[str, str]:
    with (DATA / "answers.csv").open(newline="", encoding="utf-8") as stream:
        return next(row for row in csv.DictReader(stream) if row["file"] == name)


@pytest.fixture(scope="module")
def imported() -> dict[str, AcceptanceProfile]:
    return {name: import_profile([FOLDER / name]) for name in READABLE}


def test_shared_files_are_the_nine_spec_bench_runs():
    assert len(NAMES) == 9


@pytest.mark.parametrize("name", READABLE)
def test_import_profile_real_file_counts_are_right(imported: dict[str, AcceptanceProfile], name: str):
    profile, answer = imported[name], _answer(name)
    assert profile.n_rounds == int(answer["rounds"])
    assert profile.n_accepted_tokens == int(answer["accepted_draft_tokens"])
    assert profile.n_drafted_tokens is None
    length = float(answer["mean_acceptance_length_incl_bonus"])
    assert profile.mean_acceptance_length == pytest.approx(length, abs=1e-6)


@pytest.mark.parametrize("name", READABLE)
def test_import_profile_real_file_marginals_are_right(imported: dict[str, AcceptanceProfile], name: str):
    published = [float(value) for value in _answer(name)["per_position_marginal_first_positions"].split()]
    marginal = imported[name].marginal_acceptance or []
    assert marginal[: len(published)] == pytest.approx(published, abs=1e-6)
    assert ("vanilla" in name) == (published == [] == marginal)


@pytest.mark.parametrize("name", READABLE)
def test_import_profile_real_file_survives_the_round_trip(
    imported: dict[str, AcceptanceProfile], tmp_path: Path, name: str
):
    write_profile(imported[name], tmp_path / "p.json")
    assert read_profile(tmp_path / "p.json") == imported[name]


def test_import_profile_run_of_errors_has_no_data():
    assert _answer(FAILED)["rounds"] == "0"
    with pytest.raises(BadInput, match="no rounds"):
        import_profile([FOLDER / FAILED])


def test_import_profile_nul_tail_is_left_out_with_a_warning(imported: dict[str, AcceptanceProfile]):
    profile = imported[NUL_TAIL]
    assert profile.provenance[0].n_requests == 164
    assert any("line 165, the last, is unreadable" in warning for warning in profile.warnings)


@pytest.mark.parametrize("name", READABLE)
def test_real_profiles_say_what_they_can_be_used_for(imported: dict[str, AcceptanceProfile], name: str):
    profile = imported[name]
    if profile.tree is not None or "vanilla" in name:
        with pytest.raises(BadInput):
            draft_candidates([profile], assume="truncation")
    else:
        longest = draft_candidates([profile], assume="truncation", max_draft_length=64)
        assert longest.expected_tokens[-1] == pytest.approx(profile.mean_acceptance_length, abs=1e-9)


def test_real_domains_add_up_to_the_whole_run(imported: dict[str, AcceptanceProfile]):
    name = "specbench_sps_vicuna7b_specbench.jsonl"
    domains = ("translation", "summarization", "qa", "math_reasoning", "rag")
    conversation = ("writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities")
    parts = [
        import_profile([FOLDER / name], ImportOptions(only={"domain": kept}))
        for kept in (*((d,) for d in domains), conversation)
    ]
    assert sum(part.n_rounds or 0 for part in parts) == imported[name].n_rounds
