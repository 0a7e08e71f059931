"""Tables of speculators' evaluation: marginal shares, rows that sum up others, rows repeated at each request rate."""

from __future__ import annotations

import pytest

from specbook.acceptance.importing import import_profile, import_profiles
from specbook.acceptance.library import example_file
from specbook.acceptance.readers.observation import Observation
from specbook.acceptance.readers.speculators_csv import read_lines, recognises_line
from specbook.checks import BadInput

HEADER = (
    "subset,num_drafts,num_draft_tokens,num_accepted_tokens,acceptance_length,"
    "acceptance_at_pos_0,acceptance_at_pos_1,acceptance_at_pos_2"
)
CODE = "code,100,300,180,2.8,0.8,0.6,0.4"
MATH = "math,50,150,60,2.2,0.6,0.4,0.2"
SUM = "150,450,240,2.6,0.7333,0.5333,0.3333"
PERF = (
    "subset,strategy,target_rate,rps_median,latency_median_s,itl_median_ms,ttft_median_ms,output_tps_median,"
    "total_output_tokens"
)


def _read(*rows: str, header: str = HEADER) -> list[Observation]:
    return list(read_lines([header, *rows], "a"))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (HEADER, True),
        ('"subset","num_drafts"', True),
        (PERF, True),
        ("acceptance_length,acceptance_at_pos_0,subset", True),
        ("subset", False),
        ("subset,strategy", False),
        ("subset,speed", False),
        ("num_drafts,num_draft_tokens", False),
        (CODE, False),
        ("a subset of num_drafts, and more", False),
    ],
)
def test_recognises_line_only_the_header(line: str, expected: bool):
    assert recognises_line(line) is expected


def test_read_row_gives_counts_by_position():
    (seen,) = _read(CODE)
    assert (seen.n_rounds, seen.n_drafted_tokens, seen.n_accepted_tokens) == (100, 300, 180)
    assert seen.accepted_by_position == pytest.approx([80, 60, 40])
    assert seen.labels == {"domain": "code", "draft_length": 3}
    assert not seen.is_request


@pytest.mark.parametrize(
    "row",
    [
        "code,100.0,300.0,180.0,2.8,0.8,0.6,0.4",
        '"code","100","300","180","2.8","0.8","0.6","0.4"',
        " code , 100 , 300 , 180 , 2.8 , 0.8 , 0.6 , 0.4 ",
        "code,1e2,3E+2,180,2.80000,.8,0.6,0.4",
        "code,100,300,180,2.8,0.8,0.6,0.4,,",
    ],
)
def test_read_numbers_may_be_spelled_and_quoted_in_many_ways(row: str):
    (seen,) = _read(row)
    assert (seen.n_rounds, seen.labels["domain"]) == (100, "code")
    assert seen.accepted_by_position == pytest.approx([80, 60, 40])


def test_read_quoted_name_may_hold_a_comma():
    assert _read('"code, long",100,300,180,2.8,0.8,0.6,0.4')[0].labels["domain"] == "code, long"


def test_import_profile_takes_crlf_and_byte_order_mark(save):
    path = save("a.csv", b"\xef\xbb\xbf" + "\r\n".join([HEADER, CODE, ""]).encode())
    profile = import_profile([path])
    assert (profile.evidence, profile.draft_length, profile.domain) == ("marginal", 3, "code")
    assert profile.marginal_acceptance == pytest.approx([0.8, 0.6, 0.4])
    assert profile.mean_acceptance_length == pytest.approx(2.8)


@pytest.mark.parametrize("name", ["overall", "Total", "all", "everything"])
def test_read_row_that_sums_up_the_others_does_not_count_twice(name: str):
    rows = _read(CODE, MATH, f"{name},{SUM}")
    assert [seen.labels["domain"] for seen in rows] == ["code", "math"]
    assert [seen.labels["domain"] for seen in _read(f"{name},{SUM}", CODE, MATH)] == ["code", "math"]


def test_read_total_alone_is_read_and_names_no_domain():
    (seen,) = _read(f"overall,{SUM}")
    assert (seen.n_rounds, seen.labels.get("domain")) == (150, None)


def test_read_total_of_a_single_subset_is_its_repetition():
    assert len(_read(CODE, "overall,100,300,180,2.8,0.8,0.6,0.4")) == 1


def test_read_total_that_is_no_sum_is_refused():
    with pytest.raises(
        BadInput, match=r"a line 4: overall\.num_drafts = 151: is not the sum of the subsets, which is 150"
    ):
        _read(CODE, MATH, "overall,151,453,240,2.59,0.73,0.53,0.33")


def test_read_two_subsets_of_equal_counts_are_both_read():
    assert len(_read(CODE, CODE.replace("code", "writing"))) == 2


def test_read_subset_repeated_at_each_request_rate_counts_once():
    header = f"{PERF},{HEADER.partition(',')[2]}"
    row = "code,constant,{},1.0,2.0,8.0,50.0,90.0,1000,100,300,180,2.8,0.8,0.6,0.4"
    rows = _read(row.format(1), row.format(2), row.format(4), header=header)
    assert [seen.n_rounds for seen in rows] == [100]


def test_import_profile_without_acceptance_columns_has_no_rounds(save):
    path = save("perf_results.csv", f"{PERF}\ncode,constant,1.0,1.0,2.0,8.0,50.0,90.0,1000\n")
    with pytest.raises(BadInput, match="no rounds"):
        import_profile([path])


@pytest.mark.parametrize("row", ["code,0,0,0,0,0,0,0", "code,0.0,0.0,0.0,0.0,,,", "code,,,,,,,", "code"])
def test_read_row_without_drafts_is_empty(row: str):
    assert all(seen.is_empty for seen in _read(row))


def test_read_header_alone_is_empty():
    assert all(seen.is_empty for seen in _read())


def test_read_blank_positions_were_not_drafted():
    (seen,) = _read("code,100,200,140,2.4,0.8,0.6,")
    assert (len(seen.accepted_by_position or []), seen.labels["draft_length"]) == (2, 2)


def test_read_drafts_that_varied_have_no_length_and_a_note():
    (seen,) = _read("code,100,260,150,2.5,0.8,0.5,0.2")
    assert "draft_length" not in seen.labels
    assert "lower bounds" in seen.notes[0]


def test_read_few_drafts_cut_at_the_end_keep_the_length():
    assert _read("code,100,296,180,2.8,0.8,0.6,0.4")[0].labels["draft_length"] == 3


def test_read_without_counts_keeps_length_and_vector():
    (seen,) = _read(
        "code,2.8,0.8,0.6,0.4", header=HEADER.replace("num_drafts,num_draft_tokens,num_accepted_tokens,", "")
    )
    assert (seen.n_rounds, seen.mean_acceptance_length, seen.marginal_acceptance) == (None, 2.8, [0.8, 0.6, 0.4])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("code,100,300,180,1.8,0.8,0.6,0.4", "acceptance_length = 1.8: does not match"),
        ("code,100,300,180,2.8,0.8,0.75,0.667", "acceptance_at_pos_0 and on"),
        ("code,100,300,180,2.8,0.6,0.8,0.4", "acceptance_at_pos_1 = 0.8: rises from 0.6"),
        ("code,100,300,180,2.8,80,60,40", "acceptance_at_pos_0 = 80: is no fraction"),
        ("code,100,300,180,2.8,1.0,1.0,1.0", "acceptance_at_pos_0 and on"),
        ("code,100,170,180,2.8,0.8,0.6,0.4", "num_accepted_tokens = 180: more tokens accepted than drafted (170)"),
        ("code,100,301,180,2.8,0.8,0.6,0.4", "num_draft_tokens = 301: 100 rounds of 3 positions"),
        ("code,100,300,180,0.9,0.8,0.6,0.4", "acceptance_length = 0.9: must lie in [1, 1e+15]"),
        ("code,100.5,300,180,2.8,0.8,0.6,0.4", "num_drafts = 100.5: must be a whole number"),
        ("code,-100,300,180,2.8,0.8,0.6,0.4", "num_drafts = -100: must be at least 0"),
        ("code,many,300,180,2.8,0.8,0.6,0.4", "num_drafts = 'many': is no number"),
        ("code,inf,300,180,2.8,0.8,0.6,0.4", "num_drafts = 'inf': is no number"),
        ("code,1_00,300,180,2.8,0.8,0.6,0.4", "is no number"),
        ("code,１００,300,180,2.8,0.8,0.6,0.4", "is no number"),
        ("code,1e99,300,180,2.8,0.8,0.6,0.4", "must be a whole number"),
        ("code,100,300,180,2.8,0.8,,0.4", "acceptance_at_pos_2: leaves out a position"),
        ("code,100,300,180,2.8,0.8,0.6,0.4,0.2", "9 cells under 8 names"),
        ('"code,100', "is not a table: unexpected end of data"),
        ('code,"100"x,300', "is not a table"),
        (f"{'x' * 200_000},1", "is not a table: field larger"),
    ],
)
def test_read_impossible_row_is_refused_with_its_line(row: str, message: str):
    with pytest.raises(BadInput) as caught:
        _read(row)
    assert str(caught.value).startswith("a line 2: ")
    assert message in str(caught.value)


def test_read_position_beyond_any_draft_is_refused():
    with pytest.raises(BadInput, match="leaves out a position"):
        _read("code,100,0.5", header="subset,num_drafts,acceptance_at_pos_9999")


def test_read_more_rows_than_subsets_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("specbook.acceptance.readers.speculators_csv._MOST_ROWS", 3)
    with pytest.raises(BadInput, match="more than 3 rows"):
        _read(*[f"s{i},100,300,180,2.8,0.8,0.6,0.4" for i in range(9)])


def test_read_repeated_header_is_no_row():
    assert len(_read(CODE, HEADER, MATH)) == 2


def test_import_profiles_subsets_are_domains(save):
    profiles = import_profiles([save("a.csv", "\n".join([HEADER, CODE, MATH]))])
    assert {name: profile.n_rounds for name, profile in profiles.items()} == {"code": 100, "math": 50}


def test_import_profile_pools_by_rounds(save):
    profile = import_profile([save("a.csv", "\n".join([HEADER, CODE, MATH]))])
    assert profile.mean_acceptance_length == pytest.approx(1 + 240 / 150)
    assert profile.marginal_acceptance == pytest.approx([110 / 150, 80 / 150, 50 / 150])


def test_import_profile_example():
    profile = import_profile([example_file("speculators-csv.csv")])
    assert (profile.n_rounds, profile.draft_length, profile.domain) == (1200, 3, "mixed")
