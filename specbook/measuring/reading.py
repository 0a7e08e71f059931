"""One round as a table that one can read: what was drafted, how probable it was, and what became of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl

from specbook.engine.decoding import Round
from specbook.engine.layout import depths
from specbook.engine.verification import acceptance_probability

Decode = Callable[[Sequence[int]], str]


def visible(text: str) -> str:
    r"""Text with its spaces and line breaks to be seen.

    Examples
    --------
    >>> visible(" a\n")
    '␣a⏎'
    """
    return text.replace(" ", "␣").replace("\n", "⏎")


def round_table(round_: Round, decode: Decode) -> pl.DataFrame:
    """The nodes of a round.

    Parameters
    ----------
    round_ : Round
    decode : callable
        Text of token ids.

    Returns
    -------
    DataFrame
        One row a drafted token: depth, draft (its text, spaces to be seen), the target's best token there, the draft's
        and the target's probability of the drafted one, ``min(1, p / q)``, and whether it was accepted. Behind a
        rejection the target's figures stand on a text that was not kept. For siblings, ``min(1, p / q)`` is that of the
        first one tried.

    Examples
    --------
    >>> from specbook.engine.decoding import DecodingConfig, speculative
    >>> from specbook.engine.library import load_target, tokenizer
    >>> from specbook.engine.library.drafters import shipped_drafter
    >>> target = load_target()
    >>> prompt = tokenizer().encode("def area(width, height):")
    >>> rounds = speculative(target, shipped_drafter("small", target), [1023, *prompt], DecodingConfig())
    >>> round_table(next(rounds), tokenizer().decode).columns
    ['depth', 'draft', 'target', 'q', 'p', 'keep', 'accepted']
    """
    draft, accepted = round_.draft, set(round_.verdict.path)
    rows = []
    for node, depth in enumerate(depths(draft.parents).tolist()):
        token, drawn_from = draft.tokens[node], draft.probabilities[node]
        there = round_.target[draft.parents[node] + 1]
        q = 1.0 if drawn_from is None else float(drawn_from[token])
        keep = acceptance_probability(there, token, drawn_from)
        texts = (visible(decode([token])), visible(decode([int(there.argmax())])))
        rows.append((depth, *texts, q, float(there[token]), keep, node in accepted))
    columns = ["depth", "draft", "target", "q", "p", "keep", "accepted"]
    return pl.DataFrame(rows, schema=columns, orient="row").with_columns(pl.col("q", "p", "keep").round(3))
