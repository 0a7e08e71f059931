"""What passes of the shipped models read and compute, as the roofline counts it, and their times by a calibration."""

from __future__ import annotations

from dataclasses import replace

from specbook.checks import BadInput
from specbook.engine.library import stored
from specbook.engine.library.drafters import drafter_name
from specbook.engine.transformer_spec import TransformerSpec
from specbook.engine.weights import stored_spec
from specbook.hardware.profile import HardwareProfile
from specbook.roofline.calibrated import CalibratedRates, CalibratedRoofline
from specbook.roofline.calibrations import calibrated_rates
from specbook.roofline.drafting import Drafter, HostLookup, ParallelHeads, SequentialDrafter, drafter_cost
from specbook.roofline.model_spec import ModelSpec, model
from specbook.roofline.pass_cost import ProductCost, StepCost, product_cost, step_cost

# The engine computes in float32.
_PRECISION, _ITEM_BYTES = "fp32", 4.0
_EXIT_LAYERS = 2
_BACKEND = "numpy"


def native_target(replication: int) -> ModelSpec:
    """The shipped target at a cost dial.

    Examples
    --------
    >>> native_target(8).ffn_size == model("specbook-target-r8").ffn_size
    True
    """
    target = model("specbook-target")
    return replace(target, ffn_size=replication * target.ffn_size)


def native_rates(hardware: HardwareProfile, arithmetic: str) -> CalibratedRates:
    """What a probe of a machine with this engine says of its passes.

    Parameters
    ----------
    hardware : HardwareProfile
    arithmetic : str
        Of the engine.

    Raises
    ------
    BadInput
        If no probe made the profile, another engine's did, or it holds no calibration of the arithmetic.

    Examples
    --------
    >>> from specbook.hardware.profile import catalogue_device
    >>> native_rates(catalogue_device("l4"), "fast")
    Traceback (most recent call last):
        ...
    specbook.checks.BadInput: hardware = 'l4': was not probed with the native engine; make a profile with specbook probe
    """
    if hardware.probe is None or hardware.probe.backend != _BACKEND:
        problem, remedy = "was not probed with the native engine", "make a profile with specbook probe"
        raise BadInput(problem, field="hardware", value=hardware.name, remedy=remedy)
    if arithmetic not in hardware.calibrations:
        problem = f"holds no calibration of {arithmetic}, but of {', '.join(hardware.calibrations) or 'none'}"
        remedy = "probe for longer, or choose another arithmetic"
        raise BadInput(problem, field="hardware", value=hardware.name, remedy=remedy)
    return calibrated_rates(hardware, _PRECISION, arithmetic)


def target_step(rates: CalibratedRates, replication: int) -> CalibratedRoofline:
    """A pass of the target.

    Examples
    --------
    >>> from specbook.hardware.probe.stored import stored_probe
    >>> step = target_step(native_rates(stored_probe("epyc-zen4-2core"), "fast"), 8)
    >>> bool(step(5, 1, 128) > step(1, 1, 128) > 0.0)
    True
    """
    return CalibratedRoofline(cost=step_cost(native_target(replication), _PRECISION), rates=rates)


def native_drafter(name: str, rates: CalibratedRates, replication: int) -> Drafter:
    """Drafting by one of the shipped drafters.

    Parameters
    ----------
    name : str
        A name or alias of :mod:`specbook.engine.library.drafters`.
    rates : CalibratedRates
    replication : int
        The early exit runs the target's own layers, the cost dial included.

    Raises
    ------
    BadInput
        If the simulator cannot play it.
    """
    known = drafter_name(name)
    if known == "lookahead":
        remedy = "leave the hardware out; the replay needs none"
        raise BadInput("its verify passes are wider than K + 1", field="drafter", value=name, remedy=remedy)
    if known in ("prompt_lookup", "ngram"):
        return HostLookup()
    step = CalibratedRoofline(cost=_drafter_cost(known, native_target(replication)), rates=rates)
    return ParallelHeads(step=step) if known == "medusa" else SequentialDrafter(step=step)


def _drafter_cost(name: str, target: ModelSpec) -> StepCost:
    if name == "small":
        return step_cost(model("specbook-draft"), _PRECISION)
    if name == "early_exit":
        return _with_products(step_cost(replace(target, n_layers=_EXIT_LAYERS), _PRECISION), _square(target))
    if name == "eagle":
        return _eagle_cost(target)
    cost = drafter_cost("medusa", target, None, _PRECISION)
    if cost is None:
        raise BadInput("has no cost", field="drafter", value=name, remedy="choose another drafter")
    return cost


def _eagle_cost(target: ModelSpec) -> StepCost:
    """One narrow layer between a product that combines two vectors and one that widens the result, and the head."""
    spec = stored_spec(stored("eagle"), "eagle")
    combine = _product(spec.n_embedding, 2 * target.hidden_size)
    widen, head = _product(target.hidden_size, spec.n_embedding), _product(target.vocab_size, target.hidden_size)
    layer = step_cost(_narrow_model(spec), _PRECISION)
    return replace(layer, products=(combine, *layer.products[:-1], widen, head))


def _narrow_model(spec: TransformerSpec) -> ModelSpec:
    return ModelSpec(
        name="specbook-eagle",
        n_layers=spec.n_layers,
        hidden_size=spec.n_embedding,
        n_heads=spec.n_heads,
        n_kv_heads=spec.n_kv_heads,
        head_dim=spec.head_size,
        ffn_size=spec.n_feed_forward,
        vocab_size=spec.n_vocab,
        tied_embeddings=True,
    )


def _square(target: ModelSpec) -> ProductCost:
    return _product(target.hidden_size, target.hidden_size)


def _with_products(cost: StepCost, extra: ProductCost) -> StepCost:
    return replace(cost, products=(extra, *cost.products))


def _product(n_out: int, n_in: int) -> ProductCost:
    return product_cost(n_out, n_in, _ITEM_BYTES, 1.0, _ITEM_BYTES)
