"""Files of prompts, ours and other people's, recognised by what is in them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from specbook.checks import BadInput
from specbook.measuring.prompt_forms import FORMS, Form, Prompt
from specbook.measuring.prompt_records import Record, read_records


def read_prompts(path: Path, domain: str | None = None) -> list[Prompt]:
    """Read the prompts of a file in any of the known forms.

    Of a conversation the first human turn is taken; a conversation without one is passed over. Every record must be
    of the form that the first one has.

    Parameters
    ----------
    path : Path
        JSON Lines, a JSON list, or either in gzip; at most 64 MiB, decompressed.
    domain : str, optional
        Selects the prompts of this domain where each record states its own (our files, Spec-Bench and MT-Bench);
        elsewhere it is the domain of all.

    Returns
    -------
    list of Prompt
        At least one, in the order of the file.

    Raises
    ------
    BadInput
        If the file is missing, empty, too large, broken off, no JSON, not UTF-8 or in no known form; if a field is
        missing, blank or of the wrong type; if a name stands twice; if no prompt is of the domain.

    Examples
    --------
    >>> from specbook.measuring.prompts import own_prompts_file
    >>> read_prompts(own_prompts_file("mathematics"))[0].identifier
    'mathematics-001'
    """
    records = list(read_records(path))
    form = _recognised(records, path)
    prompts = [prompt for record in records if (prompt := form.prompt(record)) is not None]
    _check_names(prompts, path)
    if not prompts:
        raise BadInput("holds no prompts", file=str(path), remedy="a conversation needs a human turn")
    if domain is None:
        return prompts
    if not form.states_domain:
        return [replace(prompt, domain=domain) for prompt in prompts]
    return _of_domain(prompts, domain, path)


def _of_domain(prompts: list[Prompt], domain: str, path: Path) -> list[Prompt]:
    selected = [prompt for prompt in prompts if prompt.domain == domain]
    if not selected:
        present = sorted({prompt.domain for prompt in prompts if prompt.domain is not None})
        remedy = f"the file has {', '.join(present)}" if present else "no record says its category"
        raise BadInput("no prompts of this domain", file=str(path), field="domain", value=domain, remedy=remedy)
    return selected


def _recognised(records: list[Record], path: Path) -> Form:
    first = records[0].fields if records else {}
    for form in FORMS:
        if form.tells(first):
            return form
    raise BadInput(
        "no prompts recognised",
        file=str(path),
        value=sorted(first),
        remedy="expected records of HumanEval, Spec-Bench, MT-Bench, GSM8K or ShareGPT, or with prompt or text",
    )


def _check_names(prompts: list[Prompt], path: Path) -> None:
    """Raise if a name stands twice: the same prompt counted twice would make every interval too narrow."""
    seen: set[str] = set()
    for prompt in prompts:
        if prompt.identifier in seen:
            remedy = "keep one, or give each record a name of its own"
            raise BadInput("names two prompts", file=str(path), value=prompt.identifier, remedy=remedy)
        seen.add(prompt.identifier)
