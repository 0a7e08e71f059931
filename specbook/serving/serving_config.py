"""What a serving simulation is told of an engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from specbook.checks import BadInput, check_count
from specbook.serving.draft_policy import DraftPolicy, FixedDraft
from specbook.serving.draft_time import DraftTime, NoDraft
from specbook.serving.iteration_time import IterationTime
from specbook.serving.kv_blocks import KvConfig

SchedulerName = Literal["vidur-sarathi", "vidur-vllm", "vllm-v1"]
RoutingName = Literal["round_robin", "least_outstanding"]
SCHEDULERS: tuple[SchedulerName, ...] = get_args(SchedulerName)
ROUTINGS: tuple[RoutingName, ...] = get_args(RoutingName)


@dataclass(frozen=True, kw_only=True)
class ServingConfig:
    """An engine: its scheduler, its limits, how long its iterations take, and how it drafts.

    Attributes
    ----------
    scheduler : str
        ``vllm-v1``, or one of Vidur's two, to the letter.
    max_batch : int
        Requests that run at once.
    chunk_tokens : int
        Tokens of one iteration: decodes debit theirs first, drafts included, and prompts get what is left. For
        ``vidur-vllm`` the tokens of a batch of prompts, padded to the longest.
    kv : KvConfig
    iteration_time : IterationTime
    draft_time : DraftTime
    policy : DraftPolicy
    n_replicas : int
        Engines of a kind, each with its own blocks.
    routing : str
        ``round_robin``, or ``least_outstanding``: to the replica with the fewest unfinished requests.
    max_waiting : int
        Requests that may wait at one replica. The run ends when there are more, and is called unstable.
    one_by_one : bool
        Compute each iteration by itself, where otherwise those between two events are computed at once. Slower, and
        the same in every bit; for checking.

    Raises
    ------
    BadInput
        If a number is not whole and positive, or a name is not known.
    """

    scheduler: SchedulerName = "vllm-v1"
    max_batch: int = 256
    chunk_tokens: int = 2048
    kv: KvConfig
    iteration_time: IterationTime
    draft_time: DraftTime = field(default_factory=NoDraft)
    policy: DraftPolicy = field(default_factory=FixedDraft)
    n_replicas: int = 1
    routing: RoutingName = "round_robin"
    max_waiting: int = 100_000
    one_by_one: bool = False

    def __post_init__(self) -> None:
        for name in ("max_batch", "chunk_tokens", "n_replicas", "max_waiting"):
            object.__setattr__(self, name, check_count(name, getattr(self, name), minimum=1))
        for name, known in (("scheduler", SCHEDULERS), ("routing", ROUTINGS)):
            if getattr(self, name) not in known:
                raise BadInput(
                    "no such choice", field=name, value=getattr(self, name), remedy=f"one of {', '.join(known)}"
                )

        if self.chunk_tokens <= self.largest_draft:
            remedy = f"at least {self.largest_draft + 1}, or shorter drafts"
            raise BadInput(
                "are fewer than one round verifies", field="chunk_tokens", value=self.chunk_tokens, remedy=remedy
            )

    @property
    def largest_draft(self) -> int:
        """Most tokens that any law of the policy drafts in a round."""
        return max(law.n_nodes for law in self.policy.laws)

    @property
    def cut_rows(self) -> int:
        """Draft passes to account for one by one: 0 where no law has a cut."""
        return max((law.draft_length for law in self.policy.laws if not law.is_fixed), default=0)
