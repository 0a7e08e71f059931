"""What is refused, in the words of the command line: options where a function has arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from specbook.checks import BadInput

# What functions call it → what ``specbook simulate`` and ``specbook witness`` call it.
_OPTIONS = {
    "acceptance": "--acceptance",
    "arithmetic": "--arithmetic",
    "backend": "--backend",
    "block_size_tokens": "--block-size",
    "chunk_tokens": "--chunk-tokens",
    "conditional_acceptance": "--conditional-acceptance",
    "cut": "--cut",
    "domains": "--domain",
    "draft": "--draft",
    "draft_length": "--draft-length",
    "draft_precision": "--draft-precision",
    "drafter": "--drafter",
    "engine_overheads": "--engine-overheads",
    "hardware": "--hardware",
    "max_batch": "--max-batch",
    "max_waiting": "--max-waiting",
    "method": "--method",
    "n_blocks": "--kv-blocks",
    "n_prompts": "--prompts",
    "n_replicas": "--replicas",
    "new_tokens": "--new-tokens",
    "parents": "--tree",
    "percentile": "--slo-percentile",
    "precision": "--precision",
    "replication": "--replication",
    "routing": "--routing",
    "schedule": "--schedule",
    "scheduler": "--scheduler",
    "step_time": "--step-time",
    "target": "--target",
    "temperature": "--temperature",
    "tensor_parallel": "--tensor-parallel",
    "watermark_blocks": "--watermark-blocks",
}
# Inside a sentence only a name that is no word of English is told to be one.
_IN_TEXT = re.compile(rf"(?<![\w-])({'|'.join(name for name in _OPTIONS if '_' in name)})(?!\w)")


def in_options(text: str) -> str:
    """A sentence with options in the place of arguments.

    Examples
    --------
    >>> in_options("raise chunk_tokens, or shorten the draft")
    'raise --chunk-tokens, or shorten the draft'
    """
    return _IN_TEXT.sub(lambda match: _OPTIONS[match[1]], text)


@contextmanager
def naming_options() -> Iterator[None]:
    """Let what is refused name options, unless it is a field of a file."""
    try:
        yield
    except BadInput as error:
        if error.file is not None:
            raise
        if error.field == "context_tokens":
            remedy = "bring step times that reach so far, or a load that stays within them"
            raise BadInput(error.problem, field="tokens of context", value=error.value, remedy=remedy) from None
        field = None if error.field is None else _OPTIONS.get(error.field, error.field)
        problem, remedy = in_options(error.problem), in_options(error.remedy)
        raise BadInput(problem, field=field, value=error.value, remedy=remedy) from None


@contextmanager
def in_one_line(command: str) -> Iterator[None]:
    """Let what a kernel refuses of a person's choices be bad input; for parsing and making things, never for a run."""
    try:
        yield
    except BadInput:
        raise
    except ValueError as error:
        raise BadInput(in_options(str(error)), remedy=f"see {command} --help") from None
