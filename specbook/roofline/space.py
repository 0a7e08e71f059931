"""The space of configurations that brute force would have to walk."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from specbook.hardware.profile import catalogue_names
from specbook.roofline.model_spec import PRECISIONS


@dataclass(frozen=True, kw_only=True, slots=True)
class Dimension:
    """One choice that has to be made, and how many answers it has."""

    name: str
    choices: str
    n_choices: int


def design_space() -> tuple[Dimension, ...]:
    """Dimensions of the doctrine's space, at the coarsest steps that still tell configurations apart.

    Returns
    -------
    tuple of Dimension

    Examples
    --------
    >>> [dimension.n_choices for dimension in design_space()][:2]
    [4, 10]
    """
    return (
        Dimension(name="drafter", choices="small model, prediction heads, tree, look-up", n_choices=4),
        Dimension(name="draft length", choices="1 to 10 tokens", n_choices=10),
        Dimension(name="weight format", choices=", ".join(PRECISIONS), n_choices=len(PRECISIONS)),
        Dimension(name="device", choices="the catalogue", n_choices=len(catalogue_names())),
        Dimension(name="batch", choices="1 to 64 sequences, doubling", n_choices=7),
        Dimension(name="context", choices="512 to 32,768 tokens, doubling", n_choices=7),
        Dimension(name="domain", choices="six kinds of prompts", n_choices=6),
    )


def n_configurations(dimensions: Sequence[Dimension]) -> int:
    """Product of the numbers of choices.

    Parameters
    ----------
    dimensions : sequence of Dimension

    Returns
    -------
    int

    Examples
    --------
    >>> n_configurations(design_space()) > 10**5
    True
    """
    return math.prod(dimension.n_choices for dimension in dimensions)
