"""InferenceX golden lengths: YAML in either style, sampling from comments, and no table that is a trap."""

from __future__ import annotations

import time

import pytest

from specbook.acceptance.importing import ImportOptions, import_profile, import_profiles
from specbook.acceptance.library import example_file
from specbook.acceptance.readers.golden_al import read_lines, recognises_line
from specbook.acceptance.readers.observation import Observation
from specbook.checks import BadInput

TABLE = """\
m:
  thinking_on:
    1: 1.8
    2: 2.3
  thinking_off:
    1: 1.9
"""


def _read(document: str) -> list[Observation]:
    return list(read_lines(document.splitlines(), "a"))


def _labels(comments: str, table: str = TABLE) -> list[dict[str, object]]:
    return [seen.labels for seen in _read(f"{comments}\n{table}")]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("  thinking_on:", True),
        ("  thinking_off:  # note", True),
        ('  "thinking_on":', True),
        ("my-model: {thinking_on: {1: 1.8, 2: 2.3}}", True),
        ("  thinking_on: {", True),
        ("# thinking_on: temperature=1.0", False),
        ("enable_thinking_on: true", False),
        ("thinking_on: true", False),
        ('  "chat": {"thinking_on": true}', False),
        ("  thinking_onwards:", False),
        ("", False),
    ],
)
def test_recognises_line_that_opens_a_thinking_mode(line: str, expected: bool):
    assert recognises_line(line) is expected


def test_read_one_run_for_each_mode_and_draft_length():
    seen = _read(TABLE)
    assert [(s.labels["run"], s.labels["draft_length"], s.mean_acceptance_length) for s in seen] == [
        ("thinking-on", 1, 1.8),
        ("thinking-on", 2, 2.3),
        ("thinking-off", 1, 1.9),
    ]
    assert {s.labels["target"] for s in seen} == {"m"}
    assert not any(s.is_request for s in seen)


@pytest.mark.parametrize(
    "document",
    [
        "m: {thinking_on: {1: 1.8, 2: 2.3}, thinking_off: {1: 1.9}}",
        "m:\n  thinking_on: {1: 1.8, 2: 2.3}\n  thinking_off:\n    '1': '1.9'\n",
        "---\nm:\n  'thinking_on': {\n    1: 1.80,\n    2: 2.3}\n  thinking_off: {1: 1.9}\n",
    ],
)
def test_read_block_and_flow_style_are_the_same(document: str):
    assert [s.labels for s in _read(document)] == [s.labels for s in _read(TABLE)]


@pytest.mark.parametrize(
    ("comments", "expected"),
    [
        ("# dataset: coding | temperature: 1.0 | output_len: 4096", [1.0, 1.0, 1.0]),
        ("# thinking_on: temperature=1.0, x\n# thinking_off: temperature=0.6", [1.0, 1.0, 0.6]),
        ("# thinking_on : temp 0.6 top_p 0.95\n# thinking_off: temp 0.7 top_p 0.8", [0.6, 0.6, 0.7]),
        ("# temperature: 1.0\n# thinking_off: temp 0.7", [1.0, 1.0, 0.7]),
        ("# thinking_on: temperature=1.0", [1.0, 1.0, None]),
        ("# temperature: 1.0\n# temperature: 0.6", [None, None, None]),
        ('# thinking_on chat_template_kwargs: {"thinking": true}', [None, None, None]),
        ("# template 3, temper 4, attempt 5", [None, None, None]),
        ("# temperature: unknown", [None, None, None]),
        ("# temperature: 0", [0.0, 0.0, 0.0]),
        ("", [None, None, None]),
    ],
)
def test_read_temperature_from_comments_or_not_at_all(comments: str, expected: list[float | None]):
    assert [labels.get("temperature") for labels in _labels(comments)] == expected


@pytest.mark.parametrize(
    ("comment", "method", "drafter"),
    [
        ("# Measured on m (B300, vLLM MTP), per num_speculative_tokens.", "mtp", None),
        ("# Measured on m (B300, vLLM EAGLE3), per k.", "eagle3", None),
        ("# Measured on m (B300, vLLM DSpark, draft: org/m-DSpark), per k.", "dspark", "org/m-DSpark"),
        (
            "# Draft model: org/m-EAGLE3\n# key = num_speculative_tokens (EAGLE3 level); value = AL",
            "eagle3",
            "org/m-EAGLE3",
        ),
        ("# speculative-config: method=dspark | draft_sample_method=greedy", "dspark", None),
        ("# Measured on m (SGLang\n# native MTP): no vLLM route.\n# key = k (MTP level)", "mtp", None),
        ("# Measured on m (B300, vLLM MTP)\n# key = k (EAGLE3 level)", None, None),
        ("# nothing", None, None),
    ],
)
def test_read_method_and_draft_model_from_comments(comment: str, method: str | None, drafter: str | None):
    labels = _labels(comment)[0]
    assert (labels.get("method"), labels.get("drafter")) == (method, drafter)


def test_read_draft_model_from_metadata():
    labels = _labels("", "_metadata:\n  draft-model: org/gqa\n" + TABLE)
    assert [item["drafter"] for item in labels] == ["org/gqa"] * 3


def test_read_data_set_is_the_domain():
    assert _labels("# dataset: coding | temperature: 1.0")[0]["domain"] == "coding"


def test_read_sampling_of_drafts_is_a_note():
    (seen,) = _read(
        "# x: draft_sample_method=probabilistic | rejection_sample_method=block\nm: {thinking_on: {1: 1.8}}"
    )
    assert seen.notes == ("draft_sample_method=probabilistic", "rejection_sample_method=block")


def test_read_length_that_falls_in_k_is_no_error():
    lengths = [s.mean_acceptance_length for s in _read("m: {thinking_on: {6: 3.77, 7: 3.73, 8: 3.47}}")]
    assert lengths == [3.77, 3.73, 3.47]


@pytest.mark.parametrize("value", ["", "~", "null"])
def test_read_length_that_was_not_measured_is_left_out(value: str):
    assert [s.labels["draft_length"] for s in _read(f"m:\n  thinking_on:\n    1: 1.8\n    2: {value}\n")] == [1]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("m: {thinking_on: {1: 0.8}}", "m.thinking_on.1 = 0.8: must lie in [1, 2]"),
        ("m: {thinking_on: {1: 2.01}}", "m.thinking_on.1 = 2.01: must lie in [1, 2]"),
        ("m: {thinking_on: {1: .nan}}", "m.thinking_on.1 = '.nan': is no number"),
        ("m: {thinking_on: {1: .inf}}", "is no number"),
        ("m: {thinking_on: {1: 1e999}}", "is no number"),
        ("m: {thinking_on: {1: yes}}", "m.thinking_on.1 = 'yes': is no number"),
        ("m: {thinking_on: {1: 1:30}}", "is no"),
        ("m: {thinking_on: {1: [1.8]}}", "m.thinking_on.1 = ['1.8']: must be a number"),
        ("m: {thinking_on: {1.5: 1.8}}", "m.thinking_on.1.5 = 1.5: must be a whole number"),
        ("m: {thinking_on: {0: 1.0}}", "m.thinking_on.0 = 0: must be at least 1"),
        ("m: {thinking_on: {-1: 1.0}}", "must be at least 1"),
        ("m: {thinking_on: {99999: 1.8}}", "is no draft length"),
        (f"m: {{thinking_on: {{{'9' * 400}: 1.8}}}}", "is no number"),
        ("m: {thinking_on: {one: 1.8}}", "m.thinking_on.one = 'one': is no number"),
        ("m: {thinking_on: {1: 1.8, 1: 1.9}}", "has a key twice"),
        ("m: {thinking_on: {1: 1.8}}\nm: {thinking_on: {2: 1.8}}", "has a key twice"),
        ("m: {thinking_on: 1.8}", "m.thinking_on = '1.8': must be a mapping"),
        ("m: [1]", "m = ['1']: must be a mapping"),
        ("- thinking_on: {1: 1.8}", "the document"),
        ("m: &a {thinking_on: {1: 1.8}}", "has anchors or aliases"),
        ("m: *a", "has anchors or aliases"),
        ("m: {thinking_on: {1: *a}}", "has anchors or aliases"),
        ("m: {? [1]\n : 2}", "has a key twice, or one that is no word"),
        ("m: {thinking_on: {1: 1.8}", "is no YAML"),
        ("m: {thinking_on: {1: 1.8}}\n\tx: 1", "is no YAML"),
        ("m: 1\n---\nm: 2", "holds more than one document"),
        ("m: \x00", "is no YAML"),
        ("[" * 50_000, "is nested too deeply"),
        ("- " * 50_000, "is nested too deeply"),
    ],
)
def test_read_document_that_is_no_table_of_lengths_is_refused(document: str, message: str):
    with pytest.raises(BadInput) as caught:
        _read(document)
    assert message in str(caught.value)
    assert str(caught.value).startswith("a")


def test_read_tags_make_no_objects():
    with pytest.raises(BadInput, match="must be a mapping"):
        _read("m: !!python/object/apply:os.getcwd []")


def test_read_document_over_one_mebibyte_is_refused_without_being_parsed():
    with pytest.raises(BadInput, match="more than 1 MiB"):
        list(read_lines(iter(lambda: "# comment", None), "a"))


def test_read_many_modes_and_comments_do_not_multiply():
    comments = "\n".join("# temperature: 1.0 dataset: coding vLLM MTP" for _ in range(4000))
    modes = "".join(f"  thinking_{i}: {{1: 1.5}}\n" for i in range(4000))
    begin = time.perf_counter()
    assert len(_read(f"{comments}\nm:\n{modes}")) == 4000
    assert time.perf_counter() - begin < 30


def test_import_profile_one_length(save):
    options = ImportOptions(only={"run": ("thinking-on",), "draft_length": ("2",)})
    profile = import_profile([save("a.yaml", f"# temperature: 1.0\n{TABLE}")], options)
    assert (profile.evidence, profile.mean_acceptance_length, profile.draft_length) == ("mean_length", 2.3, 2)
    assert (profile.temperature, profile.n_rounds, profile.marginal_acceptance) == (1.0, None, None)


def test_import_profile_all_lengths_at_once_are_not_averaged(save):
    with pytest.raises(BadInput, match="requests disagree"):
        import_profile([save("a.yaml", TABLE)])


def test_import_profiles_example_gives_one_for_each_mode_and_length():
    profiles = import_profiles([example_file("inferencex-golden-al.yaml")])
    assert len(profiles) == 8
    falling = [profiles[f"t0.6-k{k}-thinking-off"].mean_acceptance_length for k in (3, 4)]
    assert falling == [2.98, 2.97]
    assert profiles["t1.0-k4-thinking-on"].drafter == "example/example-70b-eagle3"
