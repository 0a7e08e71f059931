"""The published questions of Spec-Bench, as counted apart from this package; needs the data beside the checkout."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from specbook.checks import BadInput
from specbook.measuring.prompts import Prompt, read_prompts

DATA = Path(__file__).parents[2].parent / "shared" / "data"
if not DATA.is_dir():
    pytest.skip("the folder of shared data is not here", allow_module_level=True)

QUESTIONS = DATA / "prompts" / "spec_bench_question.jsonl"


@pytest.fixture(scope="module")
def prompts() -> list[Prompt]:
    return read_prompts(QUESTIONS)


def test_read_prompts_real_questions_are_all_there(prompts: list[Prompt]):
    assert [prompt.identifier for prompt in prompts] == [str(number) for number in range(81, 561)]
    assert min(len(prompt.text) for prompt in prompts) == 34


def test_read_prompts_real_categories_become_domains(prompts: list[Prompt]):
    counts = Counter(prompt.domain for prompt in prompts)
    sets = {"mathematics": 90, "code": 10, "summarisation": 80, "translation": 80, "qa": 80, "rag": 80}
    conversations = ("writing", "roleplay", "reasoning", "extraction", "stem", "humanities")
    assert counts == sets | dict.fromkeys(conversations, 10)


@pytest.mark.parametrize(("domain", "n_prompts"), [("mathematics", 90), ("summarisation", 80), ("qa", 80)])
def test_read_prompts_real_domain_can_be_selected(domain: str, n_prompts: int):
    assert len(read_prompts(QUESTIONS, domain)) == n_prompts


def test_read_prompts_real_file_without_the_domain_says_which_it_has():
    with pytest.raises(BadInput, match="no prompts of this domain; the file has code, extraction, humanities"):
        read_prompts(QUESTIONS, "chat")
