"""Prompt lookup: find the last few tokens earlier in the text and propose what followed them there."""

from __future__ import annotations

from collections.abc import Sequence

from specbook.checks import check_counts
from specbook.engine.draft import Draft
from specbook.engine.drafters.drafter import Request, TargetState


class PromptLookupDrafter:
    """Copies the continuations of the longest suffix that occurred before, the latest occurrence first.

    In a tree, further occurrences with another continuation become branches at the root.

    Parameters
    ----------
    longest, shortest : int
        Tokens of the suffix to look for, tried from the longest down.

    Raises
    ------
    ValueError
        If they are not whole numbers with 1 ≤ shortest ≤ longest.

    References
    ----------
    saxena2023
    """

    method = "prompt_lookup"
    n_vocab = None

    def __init__(self, longest: int = 4, shortest: int = 1) -> None:
        self.shortest = int(check_counts("shortest", shortest, minimum=1))
        self.longest = int(check_counts("longest", longest, minimum=self.shortest))

    def start(self, state: TargetState, tokens: Sequence[int], capacity: int) -> None:  # noqa: ARG002
        """Forget other texts."""
        self._ends: dict[tuple[int, ...], list[int]] = {}
        self._n_indexed = 0

    def _index(self, tokens: Sequence[int]) -> None:
        """Remember where each run of tokens ends."""
        for end in range(self._n_indexed + 1, len(tokens) + 1):
            for size in range(self.shortest, min(self.longest, end) + 1):
                self._ends.setdefault(tuple(tokens[end - size : end]), []).append(end)
        self._n_indexed = len(tokens)

    def propose(self, request: Request) -> Draft:
        """Copy what followed, one branch for each place among the root's children."""
        self._index(request.tokens)
        draft = Draft()
        firsts: set[int] = set()
        for end in self._occurrences(request.tokens):
            if len(firsts) == len(request.shape.children(-1)):
                break
            copied = list(request.tokens[end : end + request.shape.depth])
            if copied[0] not in firsts:
                firsts.add(copied[0])
                self._add_branch(draft, copied, request)
        return draft

    def _add_branch(self, draft: Draft, copied: list[int], request: Request) -> None:
        """As much of a continuation as the shape has room for below this child of the root."""
        spot: int | None = request.shape.children(-1)[sum(parent == -1 for parent in draft.parents)]
        node = -1
        for token in copied:
            if spot is None:
                break
            node = draft.add(token, node, None)
            spot = next(iter(request.shape.children(spot)), None)

    def _occurrences(self, tokens: Sequence[int]) -> list[int]:
        """Ends of earlier occurrences of the suffix: longest suffix first, then the latest place."""
        found: list[int] = []
        for size in range(min(self.longest, len(tokens)), self.shortest - 1, -1):
            ends = self._ends.get(tuple(tokens[-size:]), [])
            found += [end for end in reversed(ends) if end < len(tokens) and end not in found]
        return found

    def accept(self, path: Sequence[int]) -> None:
        """Nothing to keep."""
