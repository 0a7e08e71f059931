"""Real llama.cpp, InferenceX and DFlash files give the answers worked out beside them; skipped where there are none."""

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
with (DATA / "answers.csv").open(newline="", encoding="utf-8") as _stream:
    ANSWERS = list(csv.DictReader(_stream))

TIMINGS = [row for row in ANSWERS if row["file"].startswith("llamacpp_timings")]
GOLDEN = [row for row in ANSWERS if row["file"].startswith("inferencex_golden_al/")]
SWEEP = "llamacpp_draftsize_rtx5060ti_qwen14b.json"
DFLASH = "dflash_per_prompt_club3090_same_card.txt"


def _run(row: dict[str, str]) -> AcceptanceProfile:
    return import_profile([FOLDER / row["file"]], ImportOptions(only={"run": (row["part"],)}))


def test_shared_files_are_all_there():
    assert len(TIMINGS) == 24
    assert len({row["file"] for row in TIMINGS}) == 5
    assert len({row["file"] for row in GOLDEN}) == 8


@pytest.mark.parametrize(
    "row", [row for row in TIMINGS if row["rounds"]], ids=lambda row: f"{row['file']}:{row['part']}"
)
def test_import_profile_real_timings_are_right(row: dict[str, str], tmp_path: Path):
    profile = _run(row)
    assert profile.n_rounds == int(row["rounds"])
    assert profile.n_drafted_tokens == int(row["drafted_tokens"])
    assert profile.n_accepted_tokens == int(row["accepted_draft_tokens"])
    length = float(row["mean_acceptance_length_incl_bonus"])
    assert profile.mean_acceptance_length == pytest.approx(length, abs=1e-6)
    assert (profile.evidence, profile.domain, profile.marginal_acceptance) == ("draft_rate", "mixed", None)
    assert profile.method == ("ngram" if "ngram" in row["part"] else "draft_model")
    write_profile(profile, tmp_path / "p.json")
    assert read_profile(tmp_path / "p.json") == profile


@pytest.mark.parametrize(
    "row", [row for row in TIMINGS if not row["rounds"]], ids=lambda row: f"{row['file']}:{row['part']}"
)
def test_import_profile_real_run_without_draft_counts_has_no_data(row: dict[str, str]):
    with pytest.raises(BadInput, match="no rounds"):
        _run(row)


def test_import_profile_real_file_with_one_drafting_run_needs_no_choice():
    profile = import_profile([FOLDER / "llamacpp_timings_rtx5060ti_qwen14b.json"])
    assert (profile.n_rounds, profile.target) == (825, "Qwen2.5-Coder-14B-Instruct-Q4_K_M.gguf")
    assert profile.intervals is not None
    assert profile.intervals.n_prompts == 12


def test_import_profiles_real_sweep_has_shares_only():
    rows = {row["part"]: row["note"] for row in ANSWERS if row["file"] == SWEEP}
    profiles = import_profiles([FOLDER / SWEEP])
    assert len(profiles) == len(rows) == 3
    for part, note in rows.items():
        (profile,) = (p for p in profiles.values() if f"-{part}-" in (p.drafter or ""))
        assert profile.draft_acceptance_rate == pytest.approx(float(note.split()[1]), abs=1e-6)
        assert (profile.evidence, profile.draft_length, profile.mean_acceptance_length) == ("draft_rate", 5, None)


@pytest.mark.parametrize("row", GOLDEN, ids=lambda row: f"{row['file']}:{row['part']}")
def test_import_profiles_real_golden_lengths_are_right(row: dict[str, str]):
    target, _, mode = row["part"].partition("/")
    run = mode.replace("_", "-")
    answers = [float(value) for value in row["note"].partition(": ")[2].split()[:8]]
    profiles = import_profiles([FOLDER / row["file"]], ImportOptions(only={"run": (run,)}))
    found = {profile.draft_length: profile.mean_acceptance_length for profile in profiles.values()}
    assert found == dict(enumerate(answers, start=1))
    assert {(p.target, p.domain, p.evidence) for p in profiles.values()} == {(target, "coding", "mean_length")}


@pytest.mark.parametrize(
    ("name", "run", "temperature", "method", "drafter"),
    [
        ("dsv4-pro-0813-dspark", "thinking-on", 1.0, "dspark", None),
        ("dsv4_mtp", "thinking-off", 1.0, "mtp", None),
        ("glm5.2_mtp", "thinking-on", 1.0, "mtp", None),
        ("kimik2.5_eagle3", "thinking-on", 1.0, "eagle3", None),
        ("kimik2.5_eagle3", "thinking-off", 0.6, "eagle3", None),
        ("kimik3_dspark", "thinking-on", 1.0, "dspark", "Inferact/Kimi-K3-DSpark"),
        ("minimaxm3_eagle3", "thinking-off", 1.0, "eagle3", None),
        ("qwen3.5_mtp", "thinking-on", 0.6, "mtp", None),
        ("qwen3.5_mtp", "thinking-off", 0.7, "mtp", None),
    ],
)
def test_import_profiles_real_comments_are_read(
    name: str, run: str, temperature: float, method: str, drafter: str | None
):
    profiles = import_profiles([FOLDER / f"inferencex_golden_al/{name}.yaml"], ImportOptions(only={"run": (run,)}))
    assert {(p.temperature, p.method, p.drafter) for p in profiles.values()} == {(temperature, method, drafter)}


def test_import_profiles_real_drafting_by_chance_is_noted():
    (path,) = FOLDER.glob("inferencex_golden_al/*block_rejection*")
    for profile in import_profiles([path]).values():
        assert {"draft_sample_method=probabilistic", "rejection_sample_method=block"} <= {*profile.warnings}


def test_import_profile_real_dflash_table_is_pooled():
    (row,) = (row for row in ANSWERS if row["file"] == DFLASH)
    profile = import_profile([FOLDER / DFLASH])
    assert (profile.n_rounds, profile.n_accepted_tokens) == (int(row["rounds"]), int(row["accepted_draft_tokens"]))
    assert profile.mean_acceptance_length == pytest.approx(float(row["mean_acceptance_length_incl_bonus"]), abs=1e-6)
    assert profile.mean_acceptance_length_per_request == pytest.approx(6.39, abs=0.005)
    assert (profile.draft_length, profile.evidence) == (15, "mean_length")
