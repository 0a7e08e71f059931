"""One list of all drafters of the shipped pair, by the names that the command line takes."""

from __future__ import annotations

from collections.abc import Callable

from specbook.checks import check_counts
from specbook.engine.draft import TreeShape, chain_shape, tree_shape
from specbook.engine.drafters.choice import Cut
from specbook.engine.drafters.drafter import Drafter
from specbook.engine.drafters.eagle import EagleDrafter, EagleHead
from specbook.engine.drafters.early_exit import EarlyExitDrafter
from specbook.engine.drafters.lookahead import LookaheadDrafter
from specbook.engine.drafters.medusa import MedusaDrafter, MedusaHeads
from specbook.engine.drafters.ngram import NgramDrafter
from specbook.engine.drafters.prompt_lookup import PromptLookupDrafter
from specbook.engine.drafters.small_model import SmallModelDrafter
from specbook.engine.library import load_draft, stored
from specbook.engine.transformer import Transformer

DRAFTER_NAMES = ("small", "eagle", "medusa", "early_exit", "prompt_lookup", "ngram", "lookahead")
ALIASES = {"mtp": "early_exit", "tree": "small", "lookup": "prompt_lookup"}

METHODS = {
    "small": SmallModelDrafter.method,
    "eagle": EagleDrafter.method,
    "medusa": MedusaDrafter.method,
    "early_exit": EarlyExitDrafter.method,
    "prompt_lookup": PromptLookupDrafter.method,
    "ngram": NgramDrafter.method,
    "lookahead": LookaheadDrafter.method,
}

_BRANCHING = (2, 2)

_WITH_CUT: dict[str, Callable[[Transformer, Cut | None], Drafter]] = {
    "small": lambda target, cut: SmallModelDrafter(load_draft(target.arithmetic.name), cut),
    "eagle": lambda target, cut: EagleDrafter(EagleHead(stored("eagle"), target), cut),
    "medusa": lambda target, cut: MedusaDrafter(MedusaHeads(stored("medusa"), target), cut),
    "early_exit": lambda target, cut: EarlyExitDrafter(stored("medusa"), target, cut=cut),
    "ngram": lambda target, cut: NgramDrafter(target.n_vocab, cut=cut),
}
_WITHOUT_CUT: dict[str, Callable[[Transformer], Drafter]] = {
    "prompt_lookup": lambda _: PromptLookupDrafter(),
    "lookahead": LookaheadDrafter,
}


def drafter_name(name: str) -> str:
    """The name in :data:`DRAFTER_NAMES` that a name or an alias stands for.

    Raises
    ------
    ValueError
        If there is none.

    Examples
    --------
    >>> drafter_name("mtp")
    'early_exit'
    """
    known = ALIASES.get(name, name)
    if known not in DRAFTER_NAMES:
        raise ValueError(f"drafter must be one of {', '.join((*DRAFTER_NAMES, *ALIASES))}; got {name!r}")
    return known


def shipped_drafter(name: str, target: Transformer, cut: Cut | None = None) -> Drafter:
    """A new drafter for the shipped target, in the target's arithmetic.

    Parameters
    ----------
    name : str
        One of :data:`DRAFTER_NAMES` or :data:`ALIASES`.
    target : Transformer
        The shipped target, at any replication: the heads read its vectors.
    cut : Cut, optional
        Where to stop for lack of confidence; a fixed draft length if not given.

    Raises
    ------
    ValueError
        If there is no such drafter, or a cut is given to one that has no distribution.

    Examples
    --------
    >>> from specbook.engine.library import load_target
    >>> shipped_drafter("lookup", load_target()).method
    'prompt_lookup'
    """
    known = drafter_name(name)
    if known in _WITH_CUT:
        return _WITH_CUT[known](target, cut)
    if cut is not None:
        raise ValueError(f"{known} has no distribution that a cut could judge; leave the cut out")
    return _WITHOUT_CUT[known](target)


def draft_shape(name: str, draft_length: int = 4) -> TreeShape:
    """What a round of this drafter may draft: a chain of K tokens, or for ``tree`` a tree of that depth.

    Raises
    ------
    ValueError
        If there is no such drafter, or K is no whole number.

    Examples
    --------
    >>> draft_shape("small").n_nodes, draft_shape("tree").n_nodes
    (4, 14)
    """
    drafter_name(name)
    return branched_shape(draft_length) if name == "tree" else chain_shape(draft_length)


def branched_shape(draft_length: int) -> TreeShape:
    """The tree that is drafted where nothing else is said: two children at the first two depths, then one.

    Examples
    --------
    >>> branched_shape(3).parents
    (-1, -1, 0, 0, 1, 1, 2, 3, 4, 5)
    """
    depth = int(check_counts("draft_length", draft_length))
    return tree_shape([*_BRANCHING, *[1] * depth][:depth])
