"""llama.cpp: ``timings`` of server responses, benchmark files built from them, and sweeps over draft models.

A response says how many tokens were generated, drafted and accepted (llamacpp12603), but not in how many rounds: the
number of verify steps stands only in the log (llamacpp24536). Rounds are therefore inferred from tokens, as if every
step gave one bonus token, and every profile says so. mlx-vlm copies the names and adds the rounds (mlxvlm2324).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from specbook.acceptance.readers.observation import INFERRED, Observation
from specbook.acceptance.readers.values import a_list, an_object, fraction, text, whole
from specbook.checks import BadInput

NAME = "llama-cpp"
WARNINGS: tuple[str, ...] = ()
CUMULATIVE = False

_ROUNDS = (
    f"{INFERRED}: they are tokens generated − tokens accepted, as if every step gave one bonus token; the first token "
    "of each prompt comes from the prefill, so this may be one too many a prompt"
)
_UNDRAFTED = "in a run with drafts, a prompt without draft counts drafted nothing: each of its tokens is a round"
_VERIFIED = (
    "accepted tokens count what the target verified, also past the end of a reply; counters are of one request only if "
    "no other ran beside it"
)
_METHODS = {"baseline": "none", "draft": "draft_model", "ngram": "ngram"}


def recognises(record: Any) -> bool:
    """Whether the record holds llama.cpp timings, a benchmark made of them, or a sweep over draft models."""
    return isinstance(record, dict) and (_is_sweep(record) or bool(_benches(record)) or _timings(record) is not None)


def _is_sweep(record: dict[str, Any]) -> bool:
    baseline = "baseline_records" in record or "baseline_tps" in record
    return baseline and isinstance(record.get("drafts"), list) and isinstance(record.get("meta"), dict)


def _benches(record: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Benchmarks in the record, each with its place: the record itself, or one for each host."""
    runs = record.get("runs")
    hosts = [(f"runs.{host}.", bench) for host, bench in runs.items()] if isinstance(runs, dict) else [("", record)]
    return [(place, bench) for place, bench in hosts if isinstance(bench, dict) and _is_bench(bench)]


def _is_bench(bench: dict[str, Any]) -> bool:
    runs = bench.get("runs")
    if not isinstance(runs, list) or not isinstance(bench.get("meta"), dict):
        return False
    records = [run["records"] for run in runs if isinstance(run, dict) and isinstance(run.get("records"), list)]
    return any(isinstance(item, dict) and {"predicted_n", "error"} & item.keys() for rows in records for item in rows)


def _timings(record: dict[str, Any]) -> dict[str, Any] | None:
    timings = record.get("timings", record)
    if isinstance(timings, dict) and "predicted_n" in timings and {"predicted_ms", "draft_n"} & timings.keys():
        return timings
    return None


def read(record: Any, where: str) -> Iterator[Observation]:
    """Yield each prompt as one request; a sweep over draft models yields one total for each."""
    if _is_sweep(record):
        yield from _sweep(record, where)
    elif benches := _benches(record):
        yield from _runs(benches, where)
    elif not _is_partial(record):
        yield _response(record, where)


def _is_partial(record: dict[str, Any]) -> bool:
    """Whether it is a piece of a streamed answer: its timings run on, and only the last piece has all of them."""
    if str(record.get("object", "")).endswith(".chunk"):
        choices = [choice for choice in record.get("choices") or [] if isinstance(choice, dict)]
        return bool(choices) and all(choice.get("finish_reason") is None for choice in choices)
    return record.get("stop") is False


def _response(record: dict[str, Any], where: str) -> Observation:
    timings = _timings(record) or {}
    prefix = "timings." if "timings" in record else ""
    stated = {"target": record.get("model"), "method": timings.get("draft_kind")}
    labels = {name: value for name, value in stated.items() if text(value, where, name) is not None}
    if timings.get("draft_n") is None and timings.get("draft_n_accepted") is None:
        return Observation(by_accepted=[], labels=labels)
    return _counted(timings, where, prefix, labels, None)


def _counted(
    timings: dict[str, Any], where: str, prefix: str, labels: dict[str, Any], prompt: str | None
) -> Observation:
    predicted = whole(timings.get("predicted_n"), where, f"{prefix}predicted_n")
    drafted = whole(timings.get("draft_n"), where, f"{prefix}draft_n")
    accepted = whole(timings.get("draft_n_accepted"), where, f"{prefix}draft_n_accepted")
    if accepted > drafted:
        raise _too_many(f"more tokens accepted than drafted ({drafted})", where, prefix, accepted)
    if timings.get("draft_rounds") is not None:
        rounds, notes = whole(timings["draft_rounds"], where, f"{prefix}draft_rounds"), (_VERIFIED,)
    else:
        rounds, notes = predicted - accepted, (_ROUNDS,)
    if rounds < 1 and drafted:
        problem = f"{predicted} tokens in {rounds} rounds: every round gives a token of its own beside the accepted"
        raise _too_many(problem, where, prefix, accepted)
    return Observation(
        labels=labels,
        prompt=prompt,
        n_rounds=rounds,
        n_drafted_tokens=drafted,
        n_accepted_tokens=accepted,
        rounds_inferred=timings.get("draft_rounds") is None,
        notes=notes,
    )


def _too_many(problem: str, where: str, prefix: str, accepted: int) -> BadInput:
    return BadInput(
        problem,
        file=where,
        field=f"{prefix}draft_n_accepted",
        value=accepted,
        remedy="leave the request out; mlx-vlm counts past the end of a reply and gives draft_rounds for that reason",
    )


def _runs(benches: list[tuple[str, dict[str, Any]]], where: str) -> Iterator[Observation]:
    """Every run of every host."""
    runs = []
    for place, bench in benches:
        meta = an_object(bench.get("meta"), where, f"{place}meta")
        for index, item in enumerate(a_list(bench.get("runs"), where, f"{place}runs")):
            name = f"{place}runs[{index}]"
            runs.append((name, place, meta, an_object(item, where, name)))
    names = _run_names([(place, _text_of(run, "backend"), _text_of(run, "method")) for _, place, _, run in runs])
    for (name, _, meta, run), run_name in zip(runs, names, strict=True):
        labels = _run_labels(meta, run, where, name)
        if len(runs) > 1 and run_name:
            labels["run"] = text(run_name, where, name)
        yield from _run(run, where, f"{name}.", labels)


def _text_of(run: dict[str, Any], key: str) -> str:
    value = run.get(key)
    return value if isinstance(value, str) else ""


def _run_names(runs: list[tuple[str, str, str]]) -> list[str]:
    """Backend and method of each run; the host before it, and a number after it, only where names clash.

    Examples
    --------
    >>> _run_names([("", "cuda", "ngram"), ("", "cpu", "ngram"), ("", "cpu", "ngram")])
    ['cuda/ngram', 'cpu/ngram', 'cpu/ngram#2']
    """
    plain = ["/".join(part for part in (backend, method) if part) for _, backend, method in runs]
    clashes = Counter(plain)
    hosts = [place.removeprefix("runs.").removesuffix(".") for place, *_ in runs]
    names = [f"{host}/{name}" if host and clashes[name] > 1 else name for host, name in zip(hosts, plain, strict=True)]
    seen: Counter[str] = Counter()
    for index, name in enumerate(names):
        seen[name] += 1
        names[index] = name if seen[name] == 1 else f"{name}#{seen[name]}"
    return names


def _run_labels(meta: dict[str, Any], run: dict[str, Any], where: str, name: str) -> dict[str, Any]:
    method = text(run.get("method"), where, f"{name}.method") or ""
    kind = next((known for begin, known in _METHODS.items() if method.startswith(begin)), method)
    target = meta.get("target_file") or meta.get("target")
    drafter = meta.get("draft") if kind == "draft_model" else None
    stated = {"target": target, "drafter": drafter, "method": kind or None}
    return {label: value for label, value in stated.items() if text(value, where, f"meta.{label}") is not None}


def _run(run: dict[str, Any], where: str, prefix: str, labels: dict[str, Any]) -> Iterator[Observation]:
    """The prompts of one run; ``status: ok`` says nothing, since prompts fail in such runs too."""
    records = [
        (an_object(item, where, f"{prefix}records[{index}]"), f"{prefix}records[{index}].")
        for index, item in enumerate(a_list(run.get("records") or [], where, f"{prefix}records"))
    ]
    drafts = any(_timings_of(record).get("draft_n") is not None for record, _ in records)
    for record, name in records:
        domain = text(record.get("category"), where, f"{name}category")
        own = labels if domain is None else labels | {"domain": domain}
        timings = _timings_of(record)
        if record.get("error") is not None or not drafts:
            yield Observation(by_accepted=[], labels=own)
        elif timings.get("draft_n") is None and timings.get("draft_n_accepted") is None:
            none = timings | {"draft_n": 0, "draft_n_accepted": 0}
            seen = _counted(none, where, name, own, _prompt(record, where, name))
            yield replace(seen, notes=(*seen.notes, _UNDRAFTED))
        else:
            yield _counted(timings, where, name, own, _prompt(record, where, name))


def _timings_of(record: dict[str, Any]) -> dict[str, Any]:
    timings = record.get("timings")
    return timings if isinstance(timings, dict) else record


def _prompt(record: dict[str, Any], where: str, name: str) -> str | None:
    prompt = record.get("id")
    return str(prompt) if isinstance(prompt, int) else (text(prompt, where, f"{name}id") or "")[:64] or None


def _sweep(record: dict[str, Any], where: str) -> Iterator[Observation]:
    """One draft model after another, of which only the share of accepted tokens was kept; the baseline drafts none."""
    meta = record["meta"]
    labels = _run_labels(meta, {"method": "draft"}, where, "drafts")
    if meta.get("spec_draft_n_max") is not None:
        labels["draft_length"] = whole(meta["spec_draft_n_max"], where, "meta.spec_draft_n_max", minimum=1)
    for index, item in enumerate(record["drafts"]):
        name = f"drafts[{index}]"
        draft = an_object(item, where, name)
        drafter = text(draft.get("file"), where, f"{name}.file") or text(draft.get("label"), where, f"{name}.label")
        share = draft.get("acceptance")
        rate = None if share is None else fraction(share, where, f"{name}.acceptance")
        yield Observation(labels=labels | {"drafter": drafter}, is_request=False, draft_acceptance_rate=rate)
