"""The DFlash table: rounds are steps, tokens are n_gen, the printed mean is unweighted, two tables are two runs."""

from __future__ import annotations

from itertools import chain, repeat

import pytest

from specbook.acceptance.importing import import_profile, import_profiles
from specbook.acceptance.library import example_file
from specbook.acceptance.readers.dflash_bench import read_lines, recognises_line
from specbook.acceptance.readers.observation import Observation
from specbook.checks import BadInput

MODE = "[bench] mode=fast  n_gen=64"
HEAD = "prompt                         steps     AL   pct%    tok/s"
ROWS = (
    "  alpha                           16   4.00   25.0    40.00",
    "  beta                             8   8.00   53.1    80.00",
)
MEAN = "MEAN                                   6.00   39.0    60.00"
RANGE = "commit/step range: 4.00 - 8.00"
MODELS = ("[bench] target = m/T.gguf", "[bench] draft  = m/d.safetensors", "[bench] bin    = b/test_dflash")


def _read(*lines: str) -> list[Observation]:
    return list(read_lines([*MODELS, "", MODE, HEAD, "-" * 62, *lines], "a"))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (HEAD, True),
        ("prompt  steps  AL  pct%  prefill  decode", True),
        (MODE, True),
        ("[bench] mode=fast", False),
        ("[bench] tokenizing prompts via HF…", False),
        ("prompt 50 pct% of steps", False),
        (MEAN, False),
        (ROWS[0], False),
        ("", False),
    ],
)
def test_recognises_line_the_head_of_the_table(line: str, expected: bool):
    assert recognises_line(line) is expected


def test_read_rounds_are_steps_and_the_free_token_is_not_accepted():
    first, second = _read(*ROWS, "-" * 62, MEAN, "", RANGE)
    assert (first.n_rounds, first.n_accepted_tokens, first.prompt, first.is_request) == (16, 48, "alpha", True)
    assert (second.n_rounds, second.n_accepted_tokens) == (8, 56)
    assert first.labels == {"target": "m/T.gguf", "drafter": "m/d.safetensors", "method": "dflash", "draft_length": 15}


def test_read_table_with_a_prefill_column():
    lines = ["  alpha   16   4.00   25.0   900.00    40.00", "  beta    8   8.00   53.1      n/a    80.00"]
    assert [seen.n_rounds for seen in _read(*lines)] == [16, 8]


def test_read_failed_prompt_is_empty():
    seen = _read(ROWS[0], "  [01] beta                        FAILED: test_dflash exited 1")
    assert [item.is_empty for item in seen] == [False, True]


def test_read_killed_run_keeps_the_rows_before():
    assert len(_read(ROWS[0], "  beta           8   8.0")) == 1


def test_read_prompt_that_stopped_early_has_the_tokens_its_length_gives():
    (seen,) = _read("  alpha                           10   4.00   25.0    40.00")
    assert (seen.n_rounds, seen.n_accepted_tokens) == (10, 30)
    assert any("stopped before n_gen" in note for note in seen.notes)


def test_read_blocks_of_another_width_have_no_known_draft_length():
    (seen,) = _read("  alpha                           16   4.00   50.0    40.00")
    assert "draft_length" not in seen.labels
    assert "blocks of 16" in seen.notes[0]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["  alpha  16  4.10  25.0  40.00"], "alpha.AL = 4.1: is not the 64 tokens over 16 steps"),
        (["  alpha  16  3.00  18.0  40.00", "  beta  200  0.32  5.0  40.00"], "beta.AL = 0.32"),
        (["  alpha  16  3.07  18.0  40.00"], "alpha.AL = 3.07"),
        (["  alpha  0  0.00  0.0  40.00"], "over 0 steps"),
        (["  alpha  16  4.00  99.9  40.00", "  beta  8  8.00  3.1  80.00"], "pct%: fits no width of block"),
        (
            [*ROWS, "MEAN            5.33   39.0    60.00"],
            "MEAN AL = 5.33: does not match the lines above, which give 6.00",
        ),
        ([*ROWS, "MEAN            6.00   33.0    60.00"], "MEAN pct% = 33.0"),
        ([ROWS[0], MEAN], "MEAN AL = 6.0"),
        ([*ROWS, "commit/step range: 4.00 - 9.00"], "commit/step range = 9.0"),
    ],
)
def test_read_table_that_contradicts_itself_is_refused(lines: list[str], message: str):
    with pytest.raises(BadInput) as caught:
        _read(*lines)
    assert message in str(caught.value)


def test_read_table_without_its_first_line_is_refused():
    with pytest.raises(BadInput, match="does not say how many tokens were generated"):
        list(read_lines([HEAD, *ROWS], "a"))


def test_read_endless_tables_are_refused():
    with pytest.raises(BadInput, match="more than 100 tables"):
        list(read_lines(repeat(MODE), "a"))
    with pytest.raises(BadInput, match="more than 10000 prompts"):
        list(read_lines(chain([MODE], repeat(ROWS[0])), "a"))


def test_import_profile_pools_tokens_over_steps(save):
    profile = import_profile([save("a.log", "\n".join([*MODELS, MODE, HEAD, *ROWS, MEAN, RANGE]))])
    assert (profile.evidence, profile.n_rounds, profile.n_accepted_tokens) == ("mean_length", 24, 104)
    assert profile.mean_acceptance_length == pytest.approx(128 / 24)
    assert profile.mean_acceptance_length_per_request == pytest.approx(6.0)
    assert profile.n_drafted_tokens is None


def test_import_profiles_two_tables_are_two_runs(save):
    text = "\n".join([MODE, HEAD, *ROWS, MEAN, MODE.replace("fast", "batched"), HEAD, ROWS[0]])
    path = save("a.log", text)
    with pytest.raises(BadInput, match="requests disagree"):
        import_profile([path])
    assert {name: profile.n_rounds for name, profile in import_profiles([path]).items()} == {
        "fast-1": 24,
        "batched-2": 16,
    }


def test_import_profile_example():
    profile = import_profile([example_file("dflash-bench.txt")])
    assert (profile.n_rounds, profile.n_accepted_tokens, profile.draft_length) == (62, 258, 15)
