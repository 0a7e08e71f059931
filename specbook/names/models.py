"""Models as people write them: "llama-3-1 70B instruct", "Qwen3.6-35B-A3B-AWQ", a path to a GGUF file."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from specbook.checks import BadInput
from specbook.names.model_words import ModelWords, library_words, model_words
from specbook.names.stated_size import spec_of_size
from specbook.names.text import nearest, question, unreadable
from specbook.names.weight_formats import StatedFormat, stated_format
from specbook.roofline.model_spec import ModelSpec, model, model_names


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelName:
    """What a text says about a model.

    Attributes
    ----------
    text : str
        As written.
    spec : ModelSpec or None
        Of the library; None if the text does not settle on one.
    precision : str or None
        A key of :data:`~specbook.roofline.model_spec.PRECISIONS`; None where the text states none.
    understood : str
        What was understood, in one line.
    question : str or None
        Why it is unclear, and how to state it; None if it is clear.
    unmodelled_format : str or None
        A weight format that the text states and specbook has no figures of.
    """

    text: str
    spec: ModelSpec | None
    precision: str | None
    understood: str
    question: str | None
    unmodelled_format: str | None = None


def model_name(text: str, *, family: ModelSpec | None = None) -> ModelName:
    """Resolve a model's name to the library, or ask.

    Words and sizes have to be those of one entry. A beginning is enough if it has a size and all entries that begin so
    have one shape. What stands after a plus sign is a drafter and is left to
    :func:`~specbook.names.pairs.pair_name`.

    Parameters
    ----------
    text : str
        A name, a path, or a file's name.
    family : ModelSpec, optional
        For a drafter: the target, in whose family a size alone is looked up.

    Returns
    -------
    ModelName

    Examples
    --------
    >>> name = model_name("Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf")
    >>> name.spec.name, name.precision
    ('Llama-3.1-8B', 'q4_k_m')
    >>> print(model_name("Llama 3 8B").question.partition(" (")[0])
    'Llama 3 8B' is not in the model library: state --target with a model of the same shape
    >>> model_name("1b", family=model("Llama-3.1-70B")).spec.name
    'Llama-3.2-1B'
    """
    option = "--target" if family is None else "--draft"
    name = ModelName(text=text, spec=None, precision=None, understood="no model", question=None)
    if (problem := unreadable(text)) is not None:
        return _asked(name, problem, f"state {option} with a name of the model library")
    stated = stated_format(_short(text.partition("+")[0]))
    name = replace(name, precision=stated.precision, unmodelled_format=stated.unmodelled)
    if stated.is_contradictory:
        return _asked(name, f"states several weight formats, {', '.join(stated.stated)}", "state --precision")
    return _of_words(name, model_words(stated.rest), stated, family, option)


def _short(text: str) -> str:
    """The last part of a path, as far as it is one."""
    return re.split(r"[/\\]", text.strip())[-1] if re.fullmatch(r"\S+", text.strip()) else text


def _of_words(
    name: ModelName, words: ModelWords, stated: StatedFormat, family: ModelSpec | None, option: str
) -> ModelName:
    exact = [known for known, each in library_words().items() if each == words]
    if len(exact) == 1:
        return _settled(name, exact[0], stated, "")
    if len(words.totals) > 1 and not any("x" in size for size in words.sizes):
        sizes = " and ".join(size.replace("p", ".").upper() for size in words.totals)
        return _asked(name, f"states several sizes, {sizes}", f"state {option} with one of them")
    if words.sizes and not words.words:
        return _of_size(name, words, stated, family, option)
    begun = [known for known, each in library_words().items() if _begins(words, each)]
    if begun and len({_shape(known) for known in begun}) == 1:
        has = "has" if len(begun) == 1 else "have"
        return _settled(name, min(begun, key=len), stated, f"; {', '.join(begun)} {has} that shape")
    return _unknown(name, begun, _plain_size(words), option)


def _begins(words: ModelWords, known: ModelWords) -> bool:
    """Whether a known name adds no more to a text with a size than what a token uses, and a date."""
    if not words.totals or words.totals != known.totals or not set(words.sizes) <= set(known.sizes):
        return False
    begins = known.words[: len(words.words)] == words.words
    return begins and all(re.fullmatch(r"\d{4}", word) for word in known.words[len(words.words) :])


def _shape(known: str) -> ModelSpec:
    return replace(model(known), name="", max_context=None)


def _of_size(
    name: ModelName, words: ModelWords, stated: StatedFormat, family: ModelSpec | None, option: str
) -> ModelName:
    """A size alone: looked up in a family, if there is one."""
    if family is None:
        remedy = f"state --target with a name, or --target {_plain_size(words)} for a plain shape"
        return _asked(name, "is a size of many models", remedy)
    found = _relatives(words, family)
    if found and len({_shape(known) for known in found}) == 1:
        return _settled(name, min(found, key=len), stated, f"; of the family of {family.name}")
    return _asked(name, f"is no single model of the family of {family.name}", f"state {option} with its name")


def _plain_size(words: ModelWords) -> str:
    """The size of a name as ``--target`` takes it."""
    active = [size for size in words.sizes if size not in words.totals]
    return "-".join([*words.totals, *active]).replace("p", ".").upper()


def _relatives(words: ModelWords, family: ModelSpec) -> list[str]:
    """Models of a size: of the same words, or else of the same maker, generation and vocabulary."""
    own = model_words(family.name)
    sized = {known: each for known, each in library_words().items() if each.sizes == words.sizes}
    same = [known for known, each in sized.items() if each.words == own.words]
    return same or [
        known
        for known, each in sized.items()
        if each.words[:2] == own.words[:2] and abs(model(known).vocab_size / family.vocab_size - 1.0) < 0.01
    ]


def _settled(name: ModelName, known: str, stated: StatedFormat, remark: str) -> ModelName:
    spec = model(known)
    billions = spec.n_parameters / 1e9
    counted = f"{billions:,.0f}" if billions >= 100 else f"{billions:.3g}"
    understood = f"{spec.name}, {counted} billion parameters{stated.remark}{remark}"
    return replace(name, spec=spec, understood=understood)


def _unknown(name: ModelName, begun: list[str], size: str, option: str) -> ModelName:
    """A near name is no near shape, so that it is named and not proposed."""
    if begun:
        return _asked(name, f"may be one of {', '.join(begun[:4])}", f"state {option} {begun[0]}")
    near = nearest(_short(name.text), model_names())
    named = f" (near in name: {', '.join(near)})" if near else ""
    plain = f", or {option} {size} for a plain shape" if _has_plain_shape(size) else ""
    return _asked(name, "is not in the model library", f"state {option} with a model of the same shape{named}{plain}")


def _has_plain_shape(size: str) -> bool:
    try:
        spec_of_size(size)
    except BadInput:
        return False
    return True


def _asked(name: ModelName, why: str, remedy: str) -> ModelName:
    return replace(name, question=question(name.text, why, remedy))
