"""Ways of drafting whose cost is modelled, and which of them a method of an acceptance file costs like."""

from __future__ import annotations

from typing import Literal, get_args

from specbook.checks import BadInput

MethodName = Literal["draft_model", "eagle", "eagle3", "mtp", "medusa", "ngram", "lookahead"]
METHODS: tuple[MethodName, ...] = get_args(MethodName)

# What acceptance files call a method → what its drafting costs like.
_COSTS_LIKE: dict[str, MethodName] = {
    "draft_model": "draft_model", "eagle": "eagle", "eagle2": "eagle", "eagle3": "eagle3", "mtp": "mtp",
    "medusa": "medusa", "ngram": "ngram", "prompt_lookup": "ngram", "lookup": "ngram", "lookahead": "lookahead",
}  # fmt: skip


def costs_like(method: str | None) -> MethodName:
    """The method whose drafting costs what a method of an acceptance file does.

    Raises
    ------
    BadInput
        If nobody modelled it.

    Examples
    --------
    >>> costs_like("eagle2"), costs_like("prompt_lookup")
    ('eagle', 'ngram')
    """
    if method not in _COSTS_LIKE:
        raise BadInput(
            "the cost of this method is not modelled",
            field="method",
            value=method,
            remedy=f"one of {', '.join(METHODS)}, stated with --method",
        )
    return _COSTS_LIKE[method]
