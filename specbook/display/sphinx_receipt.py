"""A stored receipt on a page, as the terminal shows it."""

from __future__ import annotations

import io
from contextlib import redirect_stdout

from docutils import nodes

from specbook.display.witness_terminal import show_receipt
from specbook.witness.stored import stored_receipt


def receipt_shown(name: str) -> list[nodes.Element]:
    """What ``specbook receipt show`` prints of a stored receipt, with its prompt.

    Raises
    ------
    BadInput
        If there is none of that name.

    Examples
    --------
    >>> receipt_shown("epyc-zen5-2core")[0].astext().splitlines()[0]
    '$ specbook receipt show epyc-zen5-2core'
    """
    shown = io.StringIO()
    with redirect_stdout(shown):
        show_receipt(stored_receipt(name))
    lines = [f"$ specbook receipt show {name}", *(line.rstrip() for line in shown.getvalue().splitlines())]
    return [nodes.literal_block("", "\n".join(lines), language="none")]
