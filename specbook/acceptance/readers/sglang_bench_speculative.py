"""SGLang ``scripts/playground/bench_speculative.py``: one line for each batch size and draft setting.

``acc_length`` counts the bonus token; it is the average of the server since its start. ``completion_tokens`` is the
mean output of a prompt. With top-k 1 drafts are chains of ``steps`` tokens, else trees of ``num_draft_tokens`` nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from specbook.acceptance.readers.observation import INFERRED, Observation
from specbook.acceptance.readers.values import LONGEST_DRAFT, expect_close, number, whole
from specbook.checks import BadInput

NAME = "sglang-bench-speculative"
WARNINGS = (
    "the length is the server's average since its start, warm-up included; 1 stands also where the server gave none",
)
CUMULATIVE = False

_SETTING = ("steps", "topk", "num_draft_tokens")
_MARKS = {*_SETTING, "acc_length"}
_WEIGHED = f"{INFERRED}: batch sizes are weighed by completion tokens ÷ length"
_CUT = "top-k 1 with other draft tokens than steps + 1: builds differ in what they draft, so the length is not known"


def recognises(record: Any) -> bool:
    """Whether the record is a line of bench_speculative.py."""
    return isinstance(record, dict) and record.keys() >= _MARKS


def read(record: Any, where: str) -> Iterator[Observation]:
    """Yield the mean length of one setting; the baseline, which has no steps, yields none."""
    setting = setting_of(record, where)
    if setting is None:
        yield Observation(by_accepted=[])
        return
    length = setting.check_length(record["acc_length"], where, "acc_length")
    _check_speed(record, length, where)
    tokens = record.get("completion_tokens")
    weight = None if tokens is None else number(tokens, where, "completion_tokens") / length
    yield Observation(
        is_request=False,
        labels=setting.labels,
        mean_acceptance_length=length,
        weight=weight,
        is_tree=setting.is_tree,
        n_tree_nodes=setting.n_tree_nodes,
        notes=setting.notes if weight is None else (*setting.notes, _WEIGHED),
    )


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a server was told to draft."""

    labels: dict[str, Any] = field(default_factory=dict)
    is_tree: bool = False
    n_tree_nodes: int | None = None
    longest: int | None = None
    notes: tuple[str, ...] = ()

    def check_length(self, value: Any, where: str, name: str) -> float:
        """The mean length, if rounds of this setting can have it."""
        length = number(value, where, name, minimum=1.0)
        if self.longest is not None and length > self.longest + 1e-9:
            raise BadInput(
                f"a round of this setting yields at most {self.longest} tokens",
                file=where,
                field=name,
                value=value,
                remedy="correct it, steps or num_draft_tokens",
            )
        return length


def setting_of(record: dict[str, Any], where: str, prefix: str = "") -> Setting | None:
    """What ``steps``, ``topk`` and ``num_draft_tokens`` say; None for a baseline.

    Examples
    --------
    >>> setting_of({"steps": 3, "topk": 1, "num_draft_tokens": 4}, "a.jsonl").labels
    {'draft_length': 3}
    >>> setting_of({"steps": 5, "topk": 4, "num_draft_tokens": 16}, "a.jsonl").labels
    {'run': 'steps5-topk4-nodes16'}
    """
    if all(record.get(name) is None for name in _SETTING):
        return Setting()
    if record.get("steps") == 0 and not isinstance(record["steps"], bool):
        return None
    steps, topk, nodes = (_small(record.get(name), where, prefix + name) for name in _SETTING)
    # The nodes are what is verified, the last kept token among them: a path has at most one draft token a step.
    longest = min(steps + 1, nodes)
    name = f"steps{steps}-topk{topk}-nodes{nodes}"
    if topk > 1:
        return Setting(labels={"run": name}, is_tree=True, n_tree_nodes=nodes, longest=longest)
    if nodes != steps + 1:
        return Setting(labels={"run": name}, longest=steps + 1, notes=(_CUT,))
    return Setting(labels={"draft_length": steps}, longest=longest)


def _small(value: Any, where: str, name: str) -> int:
    count = whole(value, where, name, minimum=1)
    if count > LONGEST_DRAFT:
        raise BadInput("is beyond any engine", file=where, field=name, value=value, remedy="export the file again")
    return count


def _check_speed(record: dict[str, Any], length: float, where: str) -> None:
    """Raise if the tokens per second are not length ÷ step time; both are rounded to a few digits."""
    step_s = record.get("step_time")
    if step_s is not None and number(step_s, where, "step_time") > 1e-4:
        expected, rounding = length / step_s, 1e-5 / step_s
        tolerance = 0.01 + rounding
        expect_close(record.get("speed"), expected, where, "speed", "acc_length / step_time", tolerance=tolerance)
