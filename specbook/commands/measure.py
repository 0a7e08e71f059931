"""``specbook profile measure``: acceptance measured by the native engine on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specbook.acceptance.profile import Provenance
from specbook.checks import BadInput
from specbook.commands.output import JsonFlag, working, write_and_show
from specbook.commands.tree_option import TreeOption, tree_of
from specbook.files import sha256_of

if TYPE_CHECKING:
    from specbook.engine.draft import TreeShape
    from specbook.measuring.measure import Subject
    from specbook.measuring.prompts import Prompt
    from specbook.measuring.subjects import PromptReader

_MOST_TOKENS = 4096


def profile_measure(
    domain: Annotated[
        str, typer.Option("--domain", help="code, mathematics, chat or summarisation; or a domain of --prompts.")
    ],
    out: Annotated[Path, typer.Option("--out", help="The profile to write.")],
    drafter: Annotated[
        str,
        typer.Option(help="small, eagle, medusa, mtp (early exit), lookup, ngram, lookahead; tree: small, as a tree."),
    ] = "small",
    draft_length: Annotated[int | None, typer.Option(min=0, max=64, help="Tokens that a round drafts, K; 4.")] = None,
    tree: TreeOption = None,
    cut: Annotated[
        str, typer.Option(help="Stop a draft early: entropy:NATS or confidence:PROBABILITY; none drafts all.")
    ] = "none",
    temperature: Annotated[float, typer.Option(min=0.0, help="Sampling temperature; 0 is greedy.")] = 0.0,
    top_k: Annotated[int, typer.Option(min=0, help="Keep so many tokens; 0 keeps all.")] = 0,
    top_p: Annotated[float, typer.Option(help="Keep the fewest tokens that reach this probability.")] = 1.0,
    prompts: Annotated[
        Path | None,
        typer.Option(
            help="GSM8K, Spec-Bench, MT-Bench, ShareGPT, JSON Lines; or humaneval, where its package is installed."
        ),
    ] = None,
    n_prompts: Annotated[int | None, typer.Option(min=1, help="Use the first so many prompts.")] = None,
    max_new_tokens: Annotated[int, typer.Option(min=1, max=_MOST_TOKENS, help="Of each prompt.")] = 64,
    target: Annotated[str, typer.Option(help="specbook, the shipped model; smollm, if it is installed.")] = "specbook",
    arithmetic: Annotated[str, typer.Option(help="exact, fast, ref64 or naive.")] = "exact",
    replication: Annotated[int, typer.Option(min=1, max=64, help="The cost dial R of the shipped target.")] = 1,
    seed: Annotated[int, typer.Option(min=0, max=2**53, help="Of drafts and acceptance.")] = 0,
    threads: Annotated[
        int, typer.Option(min=1, max=256, help="BLAS threads; a second one helps on a quiet machine.")
    ] = 1,
    json: JsonFlag = False,
) -> None:
    """Measure acceptance with the native engine."""
    from specbook.engine.sampling import SamplingConfig
    from specbook.measuring.measure import measure_profile
    from specbook.measuring.rounds import MeasuringConfig

    _check_choices(cut, tree, draft_length, out)
    try:
        sampling = SamplingConfig(temperature=temperature, top_k=top_k, top_p=top_p)
        shape = _shape(drafter, draft_length, tree)
        chosen = _prompts(prompts, domain)[:n_prompts]
        subject, reader = _subject(target, drafter, arithmetic, cut, replication, own=prompts is None)
        config = MeasuringConfig(
            shape=shape,
            sampling=sampling,
            max_new_tokens=max_new_tokens,
            max_context=subject.target.spec.max_context,
            stop_tokens=reader.stop_tokens,
            seed=seed,
        )
        tokens = [(prompt.identifier, reader.encode(prompt)) for prompt in chosen]
        with working("measuring", len(tokens)) as progress:
            profile = measure_profile(
                subject,
                tokens,
                config,
                domain=domain,
                provenance=_provenance(prompts, domain),
                n_threads=threads,
                progress=progress,
            )
    except BadInput:
        raise
    except ValueError as error:
        raise _refused(error) from None
    write_and_show(profile, out, json)


_DRAFT_LENGTH = 4


def _check_choices(cut: str, tree: str | None, draft_length: int | None, out: Path) -> None:
    """What can be refused before anything is measured."""
    from specbook.engine.drafters.choice import read_cut

    if tree is not None and draft_length is not None:
        problem, remedy = "has a depth of its own", "leave --draft-length out"
        raise BadInput(problem, field="--tree", value=tree, remedy=remedy)
    if out.is_dir():
        raise BadInput("is a directory", field="--out", value=str(out), remedy="name the file inside it")
    try:
        read_cut(cut)
    except ValueError as error:
        remedy = "such as none, entropy:1.5 or confidence:0.4"
        raise BadInput(str(error).partition("; got ")[0], field="--cut", value=cut, remedy=remedy) from None


def _refused(error: ValueError) -> BadInput:
    """What a kernel says of an argument, as the option that the argument came from."""
    problem, _, value = str(error).partition("; got ")
    name, must, rest = problem.partition(" must ")
    field = f"--{name.replace('_', '-')}" if must else None
    shown = f"{field} = {value}" if field and value else field
    return BadInput(
        f"{must.strip()} {rest}" if must else problem, field=shown, remedy="see specbook profile measure --help"
    )


def _shape(drafter: str, draft_length: int | None, tree: str | None) -> TreeShape:
    from specbook.engine.library.drafters import draft_shape

    if tree is None:
        return draft_shape(drafter, _DRAFT_LENGTH if draft_length is None else draft_length)
    return tree_of(tree)


def _subject(
    target: str, drafter: str, arithmetic: str, cut: str, replication: int, *, own: bool
) -> tuple[Subject, PromptReader]:
    from specbook.measuring import subjects

    if target == "specbook":
        return subjects.specbook_subject(drafter, arithmetic, cut, replication), subjects.specbook_reader(own=own)
    if target == "smollm" and (cut, replication) == ("none", 1):
        return subjects.smollm(drafter, arithmetic, own=own)
    if target == "smollm":
        raise BadInput("takes no --cut and no --replication", field="--target", value=target, remedy="leave them out")
    raise BadInput("no such target", field="--target", value=target, remedy="specbook or smollm")


_HUMAN_EVAL = Path("humaneval")


def _prompts(path: Path | None, domain: str) -> list[Prompt]:
    from specbook.measuring.prompts import human_eval_prompts, own_prompts, read_prompts

    if path is None:
        return own_prompts(domain)
    return human_eval_prompts() if path == _HUMAN_EVAL else read_prompts(path, domain)


def _provenance(path: Path | None, domain: str) -> list[Provenance]:
    from specbook.measuring.prompts import human_eval_file, own_prompts_file

    if path == _HUMAN_EVAL:
        path = human_eval_file()
    file = own_prompts_file(domain) if path is None else path
    return [Provenance(file=file.name, sha256=sha256_of(file), format="prompts")]
