"""Drafters as people write them: "EAGLE-3 (steps 8, topk 8, 64 draft tokens)", "built-in MTP", "Draft model (0.5B)"."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from specbook.checks import BadInput
from specbook.names.model_words import model_words
from specbook.names.models import ModelName, model_name
from specbook.names.text import loosened, question, unreadable
from specbook.names.weight_formats import stated_format
from specbook.roofline.drafting import METHODS, MethodName, costs_like
from specbook.roofline.model_spec import ModelSpec, model_entry

# In a loosened name → the method as acceptance files call it.
_METHODS = {
    "eagle3": r"eagle ?v?3",
    "eagle": r"eagle(?: ?v?[12])?",
    "mtp": r"mtp|nextn|multi token prediction",
    "medusa": r"medusa(?: ?\d)?",
    "ngram": r"n ?gram|prompt look ?up(?: decoding)?|pld|suffix(?: \w+)?|look ?up(?: decoding)?",
    "lookahead": r"look ?ahead(?: decoding)?",
    "draft_model": r"draft(?:er)?(?: model)?(?! tokens?)|assistant(?: model)?|standalone|sps",
}
_PATTERNS = {name: re.compile(rf"(?<![\w.])(?:{words})(?!\w)") for name, words in _METHODS.items()}
_NOT_MODELLED = re.compile(r"(?<![\w.])(?:d ?flash|dspark|p ?eagle|hydra|recycling|rest|pard|hass|swift|sam)(?!\w)")
# Sizes of a tree: words before a number, and words behind one.
_DEPTH = r"(?:steps?|depth|(?<!top )k)", r"(?:steps?|depth)"
_TOP_K = r"top ?k", r"top ?k"
_NODES = r"(?:draft tokens?|nodes)", r"(?:draft tokens?|nodes)"


@dataclass(frozen=True, kw_only=True, slots=True)
class DrafterName:
    """What a text says about what drafted.

    Attributes
    ----------
    text : str
        As written.
    method : str or None
        One of :data:`~specbook.roofline.drafting.METHODS`; None if unclear.
    draft : ModelSpec or None
        The draft model, for that method.
    precision : str or None
        Weight format of the drafter; None where the text states none.
    is_eagle3 : bool
        A head of EAGLE-3, whose output head knows a part of the vocabulary.
    depth, top_k, n_nodes : int or None
        Steps, branches and drafted tokens of a tree, as stated. SGLang counts the last accepted token among the last.
    understood : str
        In one line.
    question : str or None
        Why it is unclear, and how to state it; None if it is clear.
    unmodelled_format : str or None
        A weight format that the text states and specbook has no figures of.
    """

    text: str
    method: MethodName | None
    draft: ModelSpec | None
    precision: str | None
    is_eagle3: bool
    depth: int | None
    top_k: int | None
    n_nodes: int | None
    understood: str
    question: str | None
    unmodelled_format: str | None = None


def drafter_name(text: str, target: ModelSpec | None) -> DrafterName:
    """Resolve a drafter's name to a method, and to a draft model where it is one, or ask.

    Parameters
    ----------
    text : str
        A method, the name of a head or of a model, with remarks.
    target : ModelSpec or None
        The model that verifies, in whose family a size alone is looked up.

    Returns
    -------
    DrafterName

    Examples
    --------
    >>> from specbook.roofline.model_spec import model
    >>> tree = drafter_name("EAGLE-3 (steps 8, topk 8, 64 draft tokens)", None)
    >>> tree.is_eagle3, tree.depth, tree.top_k, tree.n_nodes
    (True, 8, 8, 64)
    >>> drafter_name("Draft model (0.5B)", model("Qwen2.5-Coder-7B")).draft.name
    'Qwen2.5-Coder-0.5B'
    >>> print(drafter_name("draft model", None).question)
    'draft model' does not say which model drafted: state --draft with its name
    """
    name = DrafterName(
        text=text, method=None, draft=None, precision=None, is_eagle3=False, depth=None, top_k=None, n_nodes=None,
        understood="no drafter", question=None,
    )  # fmt: skip
    if (problem := unreadable(text)) is not None:
        return _asked(name, problem, f"state --draft with a model, or one of {', '.join(METHODS)}")
    loose = loosened(text)
    shaped = _with_shape(name)
    if (other := _NOT_MODELLED.search(loose)) is not None:
        why = f"drafts by {other.group()}, whose cost is not modelled"
        return _asked(shaped, why, "state --draft with a method that costs the same")
    return _of_methods(shaped, loose, _methods(loose), target)


def _with_shape(name: DrafterName) -> DrafterName:
    """The name with its weights and the sizes of its tree, which stand beside the method's own number."""
    parts = [_without_methods(part) for part in re.split(r"[,;()\[\]]+", name.text)]
    depth, top_k, n_nodes = (_number(parts, *words) for words in (_DEPTH, _TOP_K, _NODES))
    name = replace(name, depth=depth, top_k=top_k, n_nodes=n_nodes)
    if model_words(name.text).sizes:  # a format is the target's
        return name
    stated = stated_format(name.text)
    return replace(name, precision=stated.precision, unmodelled_format=stated.unmodelled)


def _without_methods(part: str) -> str:
    loose = loosened(part)
    for pattern in _PATTERNS.values():
        loose = pattern.sub(" ", loose)
    return " ".join(loose.split())


def _methods(loose: str) -> list[str]:
    """Methods that a text names; a head of EAGLE-3 is no other EAGLE beside."""
    found = [method for method, pattern in _PATTERNS.items() if pattern.search(loose)]
    is_other = _PATTERNS["eagle"].search(_PATTERNS["eagle3"].sub(" ", loose)) is not None
    return [method for method in found if method != "eagle" or is_other or "eagle3" not in found]


def _of_methods(name: DrafterName, loose: str, found: list[str], target: ModelSpec | None) -> DrafterName:
    if found == ["eagle", "mtp"]:
        return _of_eagle_or_mtp(name, target)
    if len(found) > 1:
        return _asked(name, f"names several methods, {' and '.join(found)}", "state --draft with one")
    if not found:
        return _of_model(name, name.text, target)
    if found == ["draft_model"]:
        is_whole = model_name(name.text).spec is not None  # "specbook-draft"
        return _of_model(name, name.text if is_whole else _PATTERNS["draft_model"].sub(" ", loose), target)
    return _settled(name, found[0], target)


def _of_eagle_or_mtp(name: DrafterName, target: ModelSpec | None) -> DrafterName:
    """SGLang's option EAGLE runs a model's own layer for further tokens where it has one, and a head elsewhere."""
    if target is None:
        return _asked(name, "is EAGLE or MTP by what the target has", "state --target, or --draft eagle or mtp")
    method = "mtp" if _has_further_layer(target) else "eagle"
    return _settled(name, method, target)


def _has_further_layer(target: ModelSpec) -> bool:
    try:
        return bool(model_entry(target.name).get("mtp_layers", 0))
    except BadInput:  # a stated size is not in the library
        return False


def _of_model(name: DrafterName, text: str, target: ModelSpec | None) -> DrafterName:
    """A model that drafts, named in full or by its size alone."""
    if not loosened(text):
        undecided = replace(name, method="draft_model")
        return _asked(undecided, "does not say which model drafted", "state --draft with its name")
    draft: ModelName = model_name(text, family=target)
    if draft.spec is None:
        remedy = "state --draft with a name of the model library, or a method"
        name = replace(name, precision=draft.precision)
        return _asked(name, "is no method and no model of the library", remedy)
    understood = f"draft model {draft.understood}"
    return replace(
        name,
        method="draft_model",
        draft=draft.spec,
        precision=draft.precision,
        unmodelled_format=draft.unmodelled_format,
        understood=understood,
    )


def _settled(name: DrafterName, method: str, target: ModelSpec | None) -> DrafterName:
    sizes = {"depth": name.depth, "top k": name.top_k, "nodes": name.n_nodes}
    shape = [f"{label} {size}" for label, size in sizes.items() if size is not None]
    of_target = f" of {target.name}" if target is not None and method in ("eagle", "eagle3", "mtp", "medusa") else ""
    understood = f"{method}{of_target}" + (f" ({', '.join(shape)})" if shape else "")
    return replace(name, method=costs_like(method), is_eagle3=method == "eagle3", understood=understood)


def _number(parts: list[str], before: str, behind: str) -> int | None:
    """The number beside words: behind them, or before them in a part that begins with a number."""
    for is_usual in (True, False):
        for part in parts:
            is_first = part[:1].isdigit() == is_usual
            pattern = rf"(?<!\w)(\d+) {behind}(?!\w)" if is_first else rf"(?<!\w){before} (\d+)(?!\w)"
            if (found := re.search(pattern, part, re.ASCII)) is not None:
                return int(found.group(1))
    return None


def _asked(name: DrafterName, why: str, remedy: str) -> DrafterName:
    return replace(name, question=question(name.text, why, remedy))
