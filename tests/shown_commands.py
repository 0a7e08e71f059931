"""Commands that pages show, and the output that they show under them."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field


@dataclass
class ShownCommand:
    """One command of a page, and the lines of output that the page shows for it; none if it shows none."""

    words: list[str]
    shown: list[str] = field(default_factory=list)


def console_commands(block: str) -> list[ShownCommand]:
    """Commands of a console block, each with the output shown under it."""
    found: list[ShownCommand] = []
    for line in block.replace("\\\n", " ").splitlines():
        if line.startswith("$ "):
            found.append(ShownCommand(words=shlex.split(line.removeprefix("$ "), comments=True)))
        elif found:
            found[-1].shown.append(line)
    return found


def page_commands(page: str) -> list[ShownCommand]:
    """Commands of a page in their order; a text block right below a console block is the output of its last command."""
    found: list[ShownCommand] = []
    blocks = re.finditer(r"```console\n(.*?)```(?:\n\n```text\n(.*?)```)?", page, re.DOTALL)
    for block in blocks:
        found += console_commands(block[1])
        if block[2] is not None:
            found[-1].shown += block[2].splitlines()
    return found


def missing_lines(shown: list[str], printed: list[str]) -> list[str]:
    """Lines that a page shows and the command did not print in this order; ``…`` stands for lines left out."""
    rest, missing = iter([line.rstrip() for line in printed]), []
    for line in shown:
        if line.strip() and line.strip() != "…" and line.rstrip() not in rest:
            missing.append(line)
            rest = iter([])
    return missing
