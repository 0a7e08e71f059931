"""The shipped profiles: each reads, says where it comes from, and agrees with itself."""

from __future__ import annotations

import pytest

from specbook.acceptance.library import example_file, library_names, library_profile
from specbook.acceptance.readers import import_profile
from specbook.checks import BadInput


@pytest.mark.parametrize("name", library_names())
def test_library_profile_says_where_it_was_published(name: str):
    profile = library_profile(name)
    assert profile.provenance
    assert all(item.source for item in profile.provenance)


@pytest.mark.parametrize("name", library_names())
def test_library_profile_one_plus_marginal_sum_is_its_length(name: str):
    profile = library_profile(name)
    assert 1 + sum(profile.marginal_acceptance or []) == pytest.approx(profile.mean_acceptance_length, abs=1e-3)


def test_library_domains_add_up_to_the_whole_run():
    whole = library_profile("spec-bench-sps-vicuna-7b")
    parts = [library_profile(name) for name in library_names() if name.startswith("spec-bench-sps-vicuna-7b-")]
    assert len(parts) == 6
    assert sum(part.n_rounds or 0 for part in parts) == whole.n_rounds == 40632
    assert sum(part.n_accepted_tokens or 0 for part in parts) == whole.n_accepted_tokens == 51932


@pytest.mark.parametrize("method", ["eagle", "hydra", "medusa"])
def test_library_tree_drafters_are_trees(method: str):
    assert library_profile(f"spec-bench-{method}-vicuna-7b").tree is not None


def test_library_profile_unknown_name_lists_the_known():
    with pytest.raises(BadInput, match=r"'nope': no such profile in the library; one of: .*vllm-48892-mtp-k8"):
        library_profile("nope")


@pytest.mark.parametrize("name", ["vllm-per-request.jsonl", "spec-bench.jsonl"])
def test_example_file_is_imported(name: str):
    assert import_profile([example_file(name)]).n_rounds
