"""Which prompts a witness decodes, and which others its probes and its forecast learn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest

import numpy as np

from specbook.checks import BadInput
from specbook.measuring.prompts import Prompt, domains, own_prompts

# Prompts that a forecast learns acceptance from, and the fewest that are worth it.
N_OTHERS = 24
_FEWEST_OTHERS = 8


@dataclass(frozen=True, kw_only=True)
class ChosenPrompts:
    """Prompts of a run, and others of the same kind; none is in both.

    Attributes
    ----------
    run, others : tuple of Prompt
    """

    run: tuple[Prompt, ...]
    others: tuple[Prompt, ...]


def choose_prompts(names: Sequence[str], n_prompts: int, seed: int) -> ChosenPrompts:
    """Draw prompts of domains, in turn.

    Parameters
    ----------
    names : sequence of str
        Domains. The prompts of one are drawn in the same order whatever others stand beside it.
    n_prompts : int
        For the run.
    seed : int

    Raises
    ------
    BadInput
        If there are too few to leave others.

    Examples
    --------
    >>> chosen = choose_prompts(["code", "chat"], 4, seed=0)
    >>> [prompt.domain for prompt in chosen.run], len(chosen.others)
    (['code', 'chat', 'code', 'chat'], 24)
    """
    turns = zip_longest(*(_shuffled(name, seed) for name in names))
    prompts = [prompt for prompt in chain.from_iterable(turns) if prompt is not None]
    most = len(prompts) - _FEWEST_OTHERS
    if n_prompts > most:
        problem = f"are more than {most}, which leave {_FEWEST_OTHERS} of {', '.join(names)} to learn from"
        raise BadInput(problem, field="n_prompts", value=n_prompts, remedy="take fewer, or name more domains")
    return ChosenPrompts(run=tuple(prompts[:n_prompts]), others=tuple(prompts[n_prompts : n_prompts + N_OTHERS]))


def _shuffled(name: str, seed: int) -> list[Prompt]:
    prompts = own_prompts(name)
    rng = np.random.default_rng([seed, domains().index(name)])
    return [prompts[index] for index in rng.permutation(len(prompts))]
