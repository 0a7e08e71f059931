"""The metrics page of a vLLM server: suffixes, labels, engines, positions from 0, and pages that cannot be."""

from __future__ import annotations

import time

import pytest

from specbook.acceptance.importing import import_profile, import_profiles
from specbook.acceptance.library import example_file
from specbook.acceptance.readers.observation import Observation
from specbook.acceptance.readers.vllm_prometheus import read_lines, recognises_line
from specbook.checks import BadInput

PAGE = """\
# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 100.0
vllm:spec_decode_num_drafts_created{engine="0",model_name="m"} 1.7567367987338755e+09
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="m"} 200.0
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="m"} 1.2e+02
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="1"} 40.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="0"} 80.0
vllm:spec_decode_num_accepted_tokens_per_pos_created{engine="0",model_name="m",position="0"} 1.7567367987338755e+09
vllm:request_success_total{engine="0",model_name="m"} 12.0
"""


def _read(page: str) -> list[Observation]:
    return list(read_lines(page.splitlines(), "a"))


def _one(page: str) -> Observation:
    (seen,) = _read(page)
    return seen


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('vllm:spec_decode_num_drafts_total{engine="0"} 1.0', True),
        ("vllm:spec_decode_num_drafts 1.0", True),
        ('  vllm:spec_decode_num_accepted_tokens_per_pos_total{position="0"} 1.0', True),
        ('ray_vllm_spec_decode_num_drafts_total{ReplicaId="r0"} 1', True),
        ("vllm:spec_decode_num_drafts_created 1.7e+09", False),
        ("vllm:spec_decode_num_draftsman 1", False),
        ("# HELP vllm:spec_decode_num_drafts_total Number", False),
        ('"vllm:spec_decode_num_drafts_total{",', False),
        ("rate(vllm:spec_decode_num_drafts_total[1m])", False),
        ("vllm:num_requests_running 0.0", False),
        ("", False),
    ],
)
def test_recognises_samples_of_the_counters_only(line: str, expected: bool):
    assert recognises_line(line) is expected


def test_read_page_gives_marginal_counts_from_position_0():
    seen = _one(PAGE)
    assert seen.accepted_by_position == [80.0, 40.0]
    assert (seen.n_rounds, seen.n_drafted_tokens, seen.n_accepted_tokens) == (100, 200, 120)
    assert seen.labels == {"target": "m", "draft_length": 2}
    assert not seen.is_request


@pytest.mark.parametrize(
    "page",
    [
        PAGE.replace("_total{", "{"),
        PAGE.replace("vllm:", "ray_vllm_"),
        PAGE.replace('engine="0",', ""),
        PAGE.replace(" 100.0\n", " 100.0 1756736798733\n"),
        PAGE.replace(" 100.0\n", ' 100.0 1756736798733 # {trace_id="a"} 1.0 1756736798.7\n'),
        PAGE.replace(" 100.0\n", ' 100.0 # {trace_id="a"} 1.0\n'),
        PAGE.replace(" 100.0", "    1E2"),
        PAGE.replace("\n", "\r\n").replace("\r\n", " \n"),
        PAGE + "# EOF\n",
    ],
)
def test_read_other_writings_say_the_same(page: str):
    assert _one(page) == _one(PAGE)


@pytest.mark.parametrize(
    ("written", "name"), [(r"a\"b", 'a"b'), (r"a\\b", r"a\b"), (r"a}b", "a}b"), (r"a\nb", "a\nb"), ("a,b=c", "a,b=c")]
)
def test_read_model_names_are_unescaped(written: str, name: str):
    assert _one(PAGE.replace('"m"', f'"{written}"')).labels["target"] == name


def test_read_page_without_labels():
    seen = _one("vllm:spec_decode_num_drafts 4\nvllm:spec_decode_num_accepted_tokens 5\n")
    assert (seen.n_rounds, seen.n_accepted_tokens, seen.n_drafted_tokens, seen.labels) == (4, 5, None, {})


def test_read_engines_are_summed():
    seen = _one(PAGE + PAGE.replace('engine="0"', 'engine="1"'))
    assert seen.accepted_by_position == [160.0, 80.0]
    assert (seen.n_rounds, seen.n_drafted_tokens, seen.n_accepted_tokens) == (200, 400, 240)


def test_read_engines_of_other_lengths_prove_no_draft_length():
    other = PAGE.replace('engine="0"', 'engine="1"').replace('position="1"} 40.0', 'position="1"} 0.0')
    seen = _one(PAGE + other.replace(" 200.0", " 100.0").replace("1.2e+02", "80"))
    assert "draft_length" not in seen.labels
    assert seen.accepted_by_position == [160.0, 40.0]
    assert any("lower bounds" in note for note in seen.notes)


def test_import_profiles_models_stay_apart(save):
    path = save("metrics.txt", PAGE + PAGE.replace('"m"', '"other"'))
    with pytest.raises(BadInput, match="target: requests disagree: m, other"):
        import_profile([path])
    assert sorted(import_profiles([path])) == ["m", "other"]


def test_import_profile_example_file():
    profile = import_profile([example_file("vllm-prometheus.txt")])
    assert (profile.evidence, profile.draft_length, profile.n_rounds) == ("marginal", 2, 10000)
    assert profile.marginal_acceptance == pytest.approx([0.8248, 0.5504])
    assert any("since the server started" in warning for warning in profile.warnings)


def test_import_profile_two_pages_are_refused(save):
    later = PAGE.replace("100.0", "101.0").replace(" 200.0", " 202.0")
    with pytest.raises(BadInput, match="counts since the server started"):
        import_profile([save("a.txt", PAGE), save("b.txt", later)])


def test_import_profile_server_that_drafted_nothing_has_no_rounds(save):
    page = "".join(f"{line.rsplit(' ', 1)[0]} 0.0\n" for line in PAGE.splitlines() if line.startswith("vllm:spec"))
    with pytest.raises(BadInput, match="no rounds"):
        import_profile([save("a.txt", page)])


def test_read_first_counters_give_a_rate_only(save):
    """Early builds counted tokens and no rounds."""
    page = "vllm:spec_decode_num_draft_tokens_total 200\nvllm:spec_decode_num_accepted_tokens_total 120\n"
    profile = import_profile([save("a.txt", page)])
    assert (profile.evidence, profile.draft_acceptance_rate, profile.n_rounds) == ("draft_rate", 0.6, None)


def test_read_accepted_total_follows_from_positions():
    seen = _one("\n".join(line for line in PAGE.splitlines() if "accepted_tokens_total" not in line))
    assert seen.n_accepted_tokens == 120


def test_read_page_scraped_in_the_middle_of_a_step_is_taken():
    page = PAGE.replace(" 100.0", " 100000.0").replace(" 200.0", " 200000.0")
    page = page.replace("1.2e+02", "120003").replace(" 40.0", " 40000.0").replace(" 80.0", " 80000.0")
    assert _one(page).n_accepted_tokens == 120003


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (" 100.0", " NaN", "line 3: num_drafts = 'NaN': must be a whole number"),
        (" 100.0", " +Inf", "must be a whole number"),
        (" 100.0", " 1e999", "must be a whole number"),
        (" 100.0", " 1e300", "is beyond any server"),
        (" 100.0", " 100.5", "must be a whole number"),
        (" 100.0", " -100.0", "must be at least 0"),
        (" 100.0", " 1_00", "must be a whole number"),
        (" 100.0", " " + "9" * 5000, "must be a whole number"),
        (" 100.0", "", "is no sample"),
        (" 100.0", " | 100", "must be a whole number"),
        ('{engine="0",model_name="m"} 100.0', '{engine="0" 100.0', "is no sample"),
        (" 100.0", " 99.0", "99 rounds of at most 2 tokens cannot draft that many"),
        (" 200.0", " 110.0", "num_accepted_tokens = 120: more tokens accepted than the 110 drafted"),
        ("1.2e+02", "121", "num_accepted_tokens = 121: does not match the sum over positions, which gives 120"),
        (" 80.0", " 81.0", "which gives 121"),
        ('position="0"', 'position="2"', "position 0 is missing, counting from 0"),
        ('position="1"} 40.0', 'position="2"} 40.0', "position 1 is missing"),
        ('position="1"} 40.0', 'position="one"} 40.0', "is no number of tokens"),
        ('position="1"} 40.0', 'position="1000000000"} 40.0', "is no number of tokens"),
        (',position="1"} 40.0', "} 40.0", "is no number of tokens"),
    ],
)
def test_read_impossible_pages_are_refused(old: str, new: str, message: str):
    assert old in PAGE
    with pytest.raises(BadInput) as caught:
        _read(PAGE.replace(old, new))
    assert str(caught.value).startswith("a")
    assert message in str(caught.value)


def test_read_positions_that_rise_are_refused():
    """Trap: a later position cannot be accepted more often than an earlier one."""
    page = PAGE.replace(" 80.0", " x").replace(" 40.0", " 80.0").replace(" x", " 40.0")
    with pytest.raises(BadInput, match="rises at position 2"):
        _read(page)


def test_read_two_scrapes_in_one_file_are_refused():
    with pytest.raises(BadInput, match="stands twice; two pages in one file count the same rounds; keep the last"):
        _read(PAGE + PAGE)


def test_read_long_damaged_lines_take_no_time():
    begin = time.perf_counter()
    for tail in (
        "{" + "a" * 200_000 + "} 1",
        "{" + "a" * 10**6,
        '{a="' + "\\" * 10**6,
        "{" + 'a="b",' * 10**5 + "} 1",
        " " * 10**6,
    ):
        with pytest.raises(BadInput):
            _read(f"vllm:spec_decode_num_drafts_total{tail}\nvllm:spec_decode_num_drafts_total{tail}")
    assert time.perf_counter() - begin < 5.0
