"""A request on its way through a replica."""

from __future__ import annotations

from dataclasses import dataclass, field

from specbook.serving.decode_path import DecodePath


@dataclass(slots=True, eq=False)
class LiveRequest:
    """A request: what it asked for, where it stands, and what it has cost.

    ``prompt_tokens`` and ``rest_tokens`` change when it is preempted: what it had generated becomes part of the prompt
    that is processed again.
    """

    request_id: int
    arrival_s: float
    asked_prompt_tokens: int
    asked_output_tokens: int
    prompt_tokens: int = field(init=False)
    rest_tokens: int = field(init=False)
    prefilled_tokens: int = 0
    blocks: int = 0
    path: DecodePath | None = None
    scheduled_s: float = -1.0
    first_token_s: float = -1.0
    last_emission_s: float = -1.0
    rounds: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    preemptions: int = 0

    def __post_init__(self) -> None:
        self.prompt_tokens = self.asked_prompt_tokens
        self.rest_tokens = self.asked_output_tokens
