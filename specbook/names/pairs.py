"""A target and its drafter in one text: "llama 3.1 70b q4_k_m + 1b", "Qwen3-235B + EAGLE3"."""

from __future__ import annotations

from specbook.names.drafters import DrafterName, drafter_name
from specbook.names.models import ModelName, model_name


def pair_name(text: str) -> tuple[ModelName, DrafterName | None]:
    """Resolve a target and, after a plus sign, its drafter.

    Parameters
    ----------
    text : str
        A target, or a target and a drafter.

    Returns
    -------
    (ModelName, DrafterName or None)
        None if no drafter is named.

    Examples
    --------
    >>> target, drafter = pair_name("llama 3.1 70b q4_k_m + 1b")
    >>> target.spec.name, target.precision, drafter.draft.name
    ('Llama-3.1-70B', 'q4_k_m', 'Llama-3.2-1B')
    """
    first, plus, second = text.partition("+")
    target = model_name(first.strip())
    return target, drafter_name(second.strip(), target.spec) if plus else None
