"""What an Explorer offers, and the step times and drafter behind its controls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from specbook.acceptance.profile import AcceptanceProfile
from specbook.checks import printable
from specbook.hardware.profile import HardwareProfile
from specbook.roofline.calibrated import CalibratedRates, CalibratedRoofline
from specbook.roofline.calibrations import calibrated_rates, calibration_label
from specbook.roofline.drafting import METHODS, MethodName, drafter_cost, drafter_of, drafter_weight_bytes
from specbook.roofline.model_spec import ModelSpec, precision
from specbook.roofline.pass_cost import StepCost, step_cost
from specbook.roofline.speedup import DraftingPair
from specbook.roofline.step_time import DeviceRates, DoctrineRoofline, StepTime, device_rates

MAX_DRAFT_LENGTH = 16

# What the menu of step times shows → the kind of step time.
STEP_TIMES = {"calibrated": "calibrated", "ideal": "doctrine"}

# What the menu of methods shows, and what drafts.
METHOD_NAMES: dict[MethodName, str] = {
    "draft_model": "draft model", "eagle": "EAGLE", "eagle3": "EAGLE-3", "mtp": "MTP", "medusa": "Medusa",
    "ngram": "prompt look-up", "lookahead": "lookahead",
}  # fmt: skip
_DRAFTERS = {"eagle": "EAGLE head", "eagle3": "EAGLE-3 head", "mtp": "MTP layer", "medusa": "Medusa heads"}

Range = tuple[str, int, int, int]
Menu = tuple[str, dict[str, str]]


@dataclass(frozen=True, kw_only=True)
class ExplorerConfig:
    """What an Explorer offers.

    The acceptance is that of the evidence, whatever the method: the menu of methods answers what this acceptance would
    gain at another method's cost.

    Attributes
    ----------
    target : ModelSpec
    draft : ModelSpec or None
        The small model of the method ``draft_model``; None if that is not offered.
    hardware : tuple of HardwareProfile
        Entries of the hardware menu.
    evidence : dict of str to AcceptanceProfile
        Entries of the evidence menu; each needs acceptance by position, and is truncated to shorter drafts.
    methods : tuple of str
        Entries of the method menu, of :data:`~specbook.roofline.drafting.METHODS`.
    precisions : tuple of str
        Entries of the menu of the target's weight formats.
    draft_precision : str
        Weight format of the drafter.

    Raises
    ------
    ValueError
        If a menu would be empty, evidence is of a tree or without positions, or a method is unknown or lacks its
        draft model.
    BadInput
        If a weight format is unknown.
    """

    target: ModelSpec
    draft: ModelSpec | None
    hardware: tuple[HardwareProfile, ...]
    evidence: Mapping[str, AcceptanceProfile]
    methods: tuple[MethodName, ...] = METHODS
    precisions: tuple[str, ...] = ("bf16", "fp8", "int4")
    draft_precision: str = "bf16"

    def __post_init__(self) -> None:
        if not self.hardware or not self.evidence:
            raise ValueError("an Explorer needs at least one device and one piece of evidence")
        if not self.methods or not self.precisions:
            raise ValueError("an Explorer needs at least one method and one weight format")
        for name in (*self.precisions, self.draft_precision):
            precision(name)
        self._check_methods()
        for label, profile in self.evidence.items():
            if profile.tree is not None:
                raise ValueError(f"evidence {label!r} is of a tree drafter; the Explorer computes chains")
            if not profile.marginal_acceptance:
                raise ValueError(f"evidence {label!r} has no acceptance by position")

    def _check_methods(self) -> None:
        unknown = set(self.methods) - set(METHODS)
        if unknown:
            raise ValueError(f"methods must be of {', '.join(METHODS)}; got {', '.join(sorted(unknown))}")
        if "draft_model" in self.methods and self.draft is None:
            raise ValueError("the method draft_model needs a draft model")


def sliders(config: ExplorerConfig) -> dict[str, Range]:
    """Label, smallest, largest and step of each slider; the context ends where the target's does.

    Examples
    --------
    >>> from specbook.display.explorer import example_explorer
    >>> sliders(example_explorer().config)["context"]
    ('context L', 128, 2048, 128)
    """
    longest = min(config.target.max_context or _LONGEST_CONTEXT, _LONGEST_CONTEXT)
    step = max(longest // 64, 128)
    return {
        "draft_length": ("draft length K", 0, MAX_DRAFT_LENGTH, 1),
        "batch": ("batch B", 1, 256, 1),
        "context": ("context L", step, longest, step),
    }


_LONGEST_CONTEXT = 32768


def menus(config: ExplorerConfig) -> dict[str, Menu]:
    """Label of each menu, and its entries: value and what is shown for it.

    Examples
    --------
    >>> from specbook.display.explorer import example_explorer
    >>> menus(example_explorer().config)["method"][1]["eagle"]
    'EAGLE'
    """
    return {
        "hardware": ("hardware", {profile.name: profile.name for profile in config.hardware}),
        "evidence": ("evidence", {label: label for label in marginals(config)}),
        "method": ("method", {name: METHOD_NAMES[name] for name in config.methods}),
        "precision": ("target weights", {name: name for name in config.precisions}),
        "step_time": ("step time", {name: name for name in STEP_TIMES}),
    }


def marginals(config: ExplorerConfig) -> dict[str, list[float]]:
    """Marginal acceptance at positions 1 to :data:`MAX_DRAFT_LENGTH` by evidence, 0 beyond what was seen.

    Examples
    --------
    >>> from specbook.display.explorer import example_explorer
    >>> len(marginals(example_explorer().config)["math"])
    16
    """
    padding = [0.0] * MAX_DRAFT_LENGTH
    return {
        printable(label): [*(profile.marginal_acceptance or []), *padding][:MAX_DRAFT_LENGTH]
        for label, profile in config.evidence.items()
    }


def rates_of(step_time: str, profile: HardwareProfile, precision_name: str) -> CalibratedRates | DeviceRates:
    """What a step time of the menu needs of a device.

    Examples
    --------
    >>> from specbook.hardware.profile import catalogue_device
    >>> type(rates_of("ideal", catalogue_device("l4"), "bf16")).__name__
    'DeviceRates'
    """
    rates = calibrated_rates if STEP_TIMES[step_time] == "calibrated" else device_rates
    return rates(profile, precision_name)


def roofline(cost: StepCost, rates: CalibratedRates | DeviceRates) -> StepTime:
    """The step time that goes with a device's rates, as numbers or as expressions.

    Examples
    --------
    >>> from specbook.roofline.calibrated import example_rates
    >>> from specbook.roofline.model_spec import model
    >>> roofline(step_cost(model("Llama-3.1-8B"), "bf16"), example_rates()).kind
    'calibrated'
    """
    if isinstance(rates, CalibratedRates):
        return CalibratedRoofline(cost=cost, rates=rates)
    return DoctrineRoofline(cost=cost, device=rates)


def drafter_bytes(config: ExplorerConfig, method: MethodName, draft_length: Any) -> Any:
    """Bytes of a drafter's own weights; of Medusa, as many heads as tokens are drafted.

    Examples
    --------
    >>> from specbook.display.explorer import example_explorer
    >>> config = example_explorer().config
    >>> drafter_bytes(config, "medusa", 4) / drafter_bytes(config, "medusa", 1)
    4.0
    """
    own = drafter_weight_bytes(method, config.target, config.draft, config.draft_precision)
    return own * draft_length if method == "medusa" else own


def drafting_pair(config: ExplorerConfig, at: Mapping[str, Any], draft_length: Any) -> DraftingPair:
    """Target and drafter at the controls' settings ``at``, in numbers.

    Parameters
    ----------
    config : ExplorerConfig
    at : mapping
        Values of hardware, method, precision and step_time.
    draft_length : (...) array_like of float
        Tokens K, for the memory of drafters that grow with them.

    Examples
    --------
    >>> from specbook.display.explorer import example_explorer
    >>> explorer = example_explorer()
    >>> drafting_pair(explorer.config, explorer.values(), 4.0).target.kind
    'calibrated'
    """
    device = next(profile for profile in config.hardware if profile.name == at["hardware"])
    cost = step_cost(config.target, at["precision"])
    own = drafter_cost(at["method"], config.target, config.draft, config.draft_precision)
    rates, draft_rates = (rates_of(at["step_time"], device, name) for name in (at["precision"], config.draft_precision))
    return DraftingPair(
        target=roofline(cost, rates),
        drafter=drafter_of(at["method"], None if own is None else roofline(own, draft_rates)),
        target_weight_bytes=config.target.weight_bytes(at["precision"]),
        draft_weight_bytes=drafter_bytes(config, at["method"], draft_length),
        target_kv_bytes_per_token=cost.kv_bytes_per_token,
        draft_kv_bytes_per_token=0.0 if own is None else own.kv_bytes_per_token,
    )


def weights_label(config: ExplorerConfig, method: str, precision_name: str) -> str:
    """Weight formats of target and drafter, in a few words.

    Examples
    --------
    >>> from specbook.display.explorer import example_explorer
    >>> config = example_explorer().config
    >>> weights_label(config, "draft_model", "fp8"), weights_label(config, "ngram", "int4")
    ('fp8 target, Llama-68M in bf16', 'int4 target, look-up on the host')
    """
    if method in ("ngram", "lookahead"):
        own = "look-up on the host" if method == "ngram" else "guesses in its own passes"
    else:
        drafter = config.draft.name if method == "draft_model" and config.draft else _DRAFTERS[method]
        own = f"{drafter} in {config.draft_precision}"
    return f"{precision_name} target, {own}"


def step_time_label(profile: HardwareProfile, step_time: str) -> str:
    """Which step time, and where a device's comes from.

    Examples
    --------
    >>> from specbook.hardware.profile import catalogue_device
    >>> step_time_label(catalogue_device("h100-sxm5"), "calibrated")
    'calibrated, fitted to published tables'
    """
    if STEP_TIMES[step_time] == "calibrated":
        return f"calibrated, {calibration_label(profile)}"
    return "ideal roofline, an optimistic bound"
