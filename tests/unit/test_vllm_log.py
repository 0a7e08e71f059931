"""vLLM's log windows: three generations of the line, pooling by rounds, drafts that varied, broken lines."""

from __future__ import annotations

import time

import pytest

from specbook.acceptance.importing import import_profile, import_profiles
from specbook.acceptance.library import example_file
from specbook.acceptance.readers.observation import Observation
from specbook.acceptance.readers.vllm_log import read_lines, recognises_line
from specbook.checks import BadInput

MARK = "(APIServer pid=1) INFO 05-01 16:37:10 [metrics.py:101] SpecDecoding metrics: "


def _line(n_drafted: int, counts: tuple[int, ...], rounds: int, **changes: str) -> str:
    """The line that vLLM logs for these counts; changes replace what it prints."""
    accepted = sum(counts)
    shown = {
        "length": f"{1 + accepted / rounds:.2f}",
        "accepted": str(accepted),
        "drafted": str(n_drafted),
        "shares": ", ".join(f"{count / rounds:.3f}" for count in counts),
        "percent": f"{100 * accepted / n_drafted:.1f}",
    } | changes
    return (
        f"{MARK}Mean acceptance length: {shown['length']}, Accepted throughput: 45.80 tokens/s, Drafted throughput: "
        f"57.00 tokens/s, Accepted: {shown['accepted']} tokens, Drafted: {shown['drafted']} tokens, Per-position "
        f"acceptance rate: {shown['shares']}, Avg Draft acceptance rate: {shown['percent']}%"
    )


# Two windows of three positions: 200 rounds and 100 rounds.
FIRST, SECOND = _line(600, (180, 150, 120), 200), _line(300, (60, 30, 15), 100)
VARIED = _line(350, (120, 60, 30), 200)


def _read(*lines: str) -> list[Observation]:
    return list(read_lines(lines, "a"))


def _one(*lines: str) -> Observation:
    (seen,) = _read(*lines)
    return seen


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (FIRST, True),
        (FIRST.removeprefix(MARK), False),
        (FIRST[: -len(" 75.0%")], False),
        ('            "SpecDecoding metrics: "', False),
        ('if "SpecDecoding metrics" in line:', False),
        (f"{MARK}Draft acceptance rate: nan%, Accepted: 0 tokens, Drafted: 0 tokens", True),
        ("INFO Avg prompt throughput: 0.0 tokens/s", False),
        ("", False),
    ],
)
def test_recognises_whole_windows_only(line: str, expected: bool):
    assert recognises_line(line) is expected


def test_read_windows_are_pooled_by_rounds():
    seen = _one("=== Last 2 ===", FIRST, "", SECOND)
    assert (seen.n_rounds, seen.n_drafted_tokens, seen.n_accepted_tokens) == (300, 900, 555)
    assert seen.accepted_by_position == pytest.approx([240.0, 180.0, 135.0])
    assert seen.labels == {"draft_length": 3}
    assert not seen.is_request
    assert any("good to about 0.0005" in note for note in seen.notes)


def test_import_profile_pooled_length_is_not_the_mean_of_lengths(save):
    profile = import_profile([save("serve.log", f"{FIRST}\n{SECOND}\n")])
    assert profile.evidence == "marginal"
    assert profile.mean_acceptance_length == pytest.approx(1 + 555 / 300)
    assert profile.marginal_acceptance == pytest.approx([0.8, 0.6, 0.45])
    assert profile.draft_acceptance_rate == pytest.approx(555 / 900)


def test_import_profile_example_file():
    profile = import_profile([example_file("vllm-log.txt")])
    assert (profile.draft_length, profile.n_rounds, profile.n_accepted_tokens) == (4, 736, 1655)


@pytest.mark.parametrize(
    "line",
    [
        FIRST.removeprefix("(APIServer pid=1) "),
        f"\x1b[1;36m(APIServer pid=1)\x1b[0;0m {FIRST}\x1b[0m",
        FIRST.replace("Accepted: 450 tokens, ", "Accepted: 450 tokens, \x1b[32m"),
        f"vllm-0  | 2026-05-01T16:37:10Z {FIRST}",
        f"{FIRST}, top1: [0.900, 0.800]",
        FIRST.replace("Per-position", "Rejected: 150 tokens, Reverify: 3, Per-position"),
    ],
)
def test_read_prefixes_colours_and_additions_do_not_matter(line: str):
    assert _one(line) == _one(FIRST)


def test_read_one_position():
    assert _one(_line(100, (86,), 100)).labels == {"draft_length": 1}


def test_read_second_generation_of_the_line():
    line = f"{MARK}Draft acceptance rate: 38.8%, Mean acceptance length: 2.16, Accepted: 150 tokens, "
    line += "Drafted: 387 tokens, Per-position acceptance rate: 0.543, 0.357, 0.264"
    seen = _one(line)
    assert (seen.n_rounds, seen.n_accepted_tokens, seen.labels) == (129, 150, {"draft_length": 3})


def test_read_length_without_the_bonus_token_gets_it():
    """Trap: before vllm17908 the length left it out; the shares tell."""
    line = f"{MARK}Draft acceptance rate: 38.8%, Mean acceptance length: 1.16, Accepted: 150 tokens, "
    seen = _one(line + "Drafted: 387 tokens, Per-position acceptance rate: 0.543, 0.357, 0.264")
    assert seen.n_rounds == 129
    assert any("leave out the bonus token" in note for note in seen.notes)


def test_read_first_generation_gives_a_rate_only(save):
    line = f"{MARK}Draft acceptance rate: 45.5%, Accepted: 10 tokens, Drafted: 22 tokens"
    profile = import_profile([save("a.log", f"{line}\n")])
    assert (profile.evidence, profile.n_rounds, profile.draft_length) == ("draft_rate", None, None)
    assert profile.draft_acceptance_rate == pytest.approx(10 / 22)


def test_import_profile_varied_drafts_give_the_length_only(save):
    """Trap: 350 tokens over three positions are no 116.7 rounds; the printed length says 200."""
    profile = import_profile([save("a.log", f"{VARIED}\n")])
    assert (profile.evidence, profile.n_rounds, profile.marginal_acceptance) == ("mean_length", None, None)
    assert profile.mean_acceptance_length == pytest.approx(2.05)
    assert profile.draft_acceptance_rate == pytest.approx(0.6)
    assert profile.draft_length is None
    assert any("drafts varied in length" in warning for warning in profile.warnings)


def test_read_varied_drafts_are_weighted_by_inferred_rounds():
    seen = _one(VARIED, _line(270, (60, 30, 15), 100))
    assert seen.weight == pytest.approx(300, rel=0.01)
    assert seen.mean_acceptance_length == pytest.approx((200 * 2.05 + 100 * 2.05) / 300)


def test_read_multiple_that_the_length_contradicts_is_varied():
    seen = _one(_line(450, (120, 60, 30), 200))
    assert (seen.n_rounds, seen.labels) == (None, {})


def test_read_few_shorter_drafts_are_said():
    """One draft in 200 was cut: printed lengths agree, and rounds are rounded up."""
    seen = _one(_line(599, (180, 150, 120), 200))
    assert (seen.n_rounds, seen.labels) == (200, {"draft_length": 3})
    assert any(note.startswith("rounds are not in the source: a few drafts") for note in seen.notes)


def test_read_window_without_acceptance_proves_no_draft_length():
    seen = _one(_line(300, (0, 0, 0), 100))
    assert (seen.n_rounds, seen.labels, seen.mean_acceptance_length) == (None, {}, 1.0)


def test_read_windows_without_drafts_are_left_out():
    idle = _line(600, (0, 0, 0), 200, length="nan", drafted="0", shares="nan, nan, nan", percent="nan")
    assert _one(FIRST, idle) == _one(FIRST)
    assert _one(idle).is_empty


def test_read_line_that_breaks_off_is_left_out_with_a_note():
    whole = _one(FIRST)
    for length in range(FIRST.index("metrics: ") + len("metrics: "), len(FIRST)):
        seen = _one(FIRST, FIRST[:length])
        assert seen.n_rounds == whole.n_rounds, FIRST[:length]
        assert seen.notes[-1] == "lines of metrics that break off or are garbled were left out: 1"


def test_read_second_generation_cut_in_the_shares_is_left_out():
    line = f"{MARK}Draft acceptance rate: 38.8%, Mean acceptance length: 2.16, Accepted: 150 tokens, "
    line += "Drafted: 387 tokens, Per-position acceptance rate: 0.543, 0.357, 0.264"
    for length in range(line.index("Mean"), len(line) - 3):
        assert "left out" in _one(line, line[:length]).notes[-1], line[:length]


def test_read_two_lines_written_over_each_other_are_left_out():
    assert "left out: 1" in _one(FIRST, FIRST[:150] + SECOND).notes[-1]


def test_read_only_broken_lines_are_empty():
    assert _one(FIRST[:100]).is_empty


def test_import_profile_windows_of_other_draft_lengths_are_refused(save):
    path = save("a.log", f"{FIRST}\n{_line(500, (90, 50), 250)}\n")
    with pytest.raises(BadInput, match="draft_length: requests disagree: 2, 3; keep one with --only draft_length="):
        import_profile([path])
    assert sorted(import_profiles([path])) == ["k2", "k3"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"accepted": "601", "percent": "100.2"}, "more tokens accepted than the 600 drafted"),
        ({"percent": "0.8"}, "Draft acceptance rate = 0.8: is not accepted / drafted = 75.0 percent"),
        ({"percent": "nan"}, "is not accepted / drafted"),
        ({"length": "2.25"}, "Mean acceptance length = 2.25: is not 1 + the sum of the shares = 3.25"),
        ({"length": "inf"}, "must be fractions of the rounds"),
        ({"length": "nan"}, "must be fractions of the rounds"),
        ({"shares": "90.0, 75.0, 60.0"}, "must be fractions of the rounds"),
        ({"shares": "0.900, nan, 0.600"}, "must be fractions of the rounds"),
        ({"shares": "0.750, 0.900, 0.600"}, "rises, where each is the share of rounds"),
        ({"shares": "0.900, 0.833, 0.800"}, "is not 1 + the sum of the shares = 3.53"),
        ({"drafted": "690", "percent": "65.2"}, "rounds of at most 3 tokens cannot draft that many"),
        ({"shares": ", ".join(["0.001"] * 5000)}, "more than 4096 positions"),
    ],
)
def test_read_impossible_windows_are_refused(changes: dict[str, str], message: str):
    with pytest.raises(BadInput) as caught:
        _read("", _line(600, (180, 150, 120), 200, **changes))
    assert str(caught.value).startswith("a line 2: ")
    assert message in str(caught.value)


@pytest.mark.parametrize("value", ["9" * 400, "1e308", "-1", "x"])
def test_read_numbers_that_no_log_prints_are_left_out(value: str):
    assert "left out" in _one(FIRST, _line(600, (180, 150, 120), 200, accepted=value)).notes[-1]


def test_read_long_damaged_lines_take_no_time():
    begin = time.perf_counter()
    for tail in ("Accepted: " * 10**5, "1, " * 10**5, "\x1b[" * 10**5, "Drafted: " + "9" * 10**6):
        assert _one(f"{MARK}{tail}").is_empty
    assert time.perf_counter() - begin < 5.0
