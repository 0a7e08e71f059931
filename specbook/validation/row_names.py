"""The names in a row of a series, looked up, and what a row lacks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from specbook.checks import BadInput, check_counts, check_non_negative, printable, shown
from specbook.hardware.profile import HardwareProfile, catalogue_names
from specbook.names.devices import DeviceName, device_name
from specbook.names.drafters import DrafterName, drafter_name
from specbook.names.engines import EngineName, engine_name
from specbook.names.models import ModelName, model_name
from specbook.names.stated_size import spec_of_size
from specbook.roofline.model_spec import model_entry, model_names, precision
from specbook.validation.series import SeriesRow

# Engines whose models come in many formats, none of which goes without saying.
_QUANTISE = ("llama.cpp", "ik_llama.cpp", "mlx", "lm studio", "ollama", "koboldcpp", "exllama")


@dataclass(frozen=True, kw_only=True)
class Overrides:
    """What a user states for the rows that do not tell; a row's own words come first.

    Attributes
    ----------
    device : HardwareProfile or None
        Also in the place of the catalogue's profile of the same name, as after a calibration.
    n_devices : int or None
    target, draft, engine : str or None
        Names as anybody writes them; a target may be a size alone, such as ``13B`` or ``30B-A3B``.
    precision, draft_precision : str or None
        Weight formats.
    context_tokens : float or None

    Raises
    ------
    ValueError
        If there is no device in ``n_devices``, or the context is negative.
    """

    device: HardwareProfile | None = None
    n_devices: int | None = None
    target: str | None = None
    draft: str | None = None
    engine: str | None = None
    precision: str | None = None
    draft_precision: str | None = None
    context_tokens: float | None = None

    def __post_init__(self) -> None:
        if self.n_devices is not None:
            check_counts("n_devices", self.n_devices, minimum=1)
        if self.context_tokens is not None:
            check_non_negative("context_tokens", self.context_tokens)


@dataclass(frozen=True, kw_only=True, slots=True)
class RowNames:
    """The names of a row, looked up; what a user stated stands in for what it does not tell, as ``answers`` say."""

    device: DeviceName
    target: ModelName
    drafter: DrafterName
    engine: EngineName
    answers: tuple[str, ...] = ()


def check_overrides(stated: Overrides) -> None:
    """Refuse what a user stated and nobody knows.

    Raises
    ------
    BadInput
        If a name, or a weight format, is not known.

    Examples
    --------
    >>> check_overrides(Overrides(target="13B", engine="vLLM"))
    """
    target = None if stated.target is None else _stated_target(stated.target).spec
    for text in (stated.precision, stated.draft_precision):
        if text is not None:
            precision(text)
    if stated.engine is not None and (engine := engine_name(stated.engine)).engine is None:
        raise BadInput("is no engine that is known", field="engine", value=stated.engine, remedy=str(engine.question))
    if stated.draft is not None and (drafter := drafter_name(stated.draft, target)).method is None:
        raise BadInput("is no drafter that is known", field="draft", value=stated.draft, remedy=str(drafter.question))


def _stated_target(text: str) -> ModelName:
    name = model_name(text)
    if name.spec is not None:
        return name
    try:
        return replace(name, spec=spec_of_size(text), question=None)
    except BadInput as error:
        remedy = "name one of the model library, or a size such as 13B or 30B-A3B"
        raise BadInput("is no known model and no size", field="target", value=text, remedy=remedy) from error


def row_names(row: SeriesRow, stated: Overrides) -> RowNames:
    """Look up the device, the models and the engine of a row.

    Examples
    --------
    >>> from specbook.validation.settings import example_series
    >>> row_names(example_series().rows[0], Overrides()).device.profile.name
    'h200-sxm'
    """
    device, answers = device_name(row.hardware), []
    if stated.device is not None and _is_meant(stated.device, device):
        device = replace(device, profile=stated.device, question=None)
        answers.append(f"device {stated.device.name}, as stated")
    target = model_name(row.target)
    if target.spec is None and stated.target is not None:
        target = _with_own_format(_stated_target(stated.target), target)
        answers.append(f"target {'' if target.spec is None else target.spec.name}, as stated")
    drafter = _drafter(row, target, stated)
    if stated.draft is not None and drafter.text == stated.draft != row.drafter:
        answers.append(f"draft {printable(stated.draft)}, as stated")
    if not row.engine and stated.engine is not None:
        answers.append(f"engine {printable(stated.engine)}, as stated")
    engine = engine_name(row.engine or stated.engine or "")
    return RowNames(device=device, target=target, drafter=drafter, engine=engine, answers=tuple(answers))


def _with_own_format(name: ModelName, own: ModelName) -> ModelName:
    """A stated target in the weight format that the row's own name has."""
    if own.precision is None and own.unmodelled_format is None:
        return name
    return replace(name, precision=own.precision, unmodelled_format=own.unmodelled_format)


def _drafter(row: SeriesRow, target: ModelName, stated: Overrides) -> DrafterName:
    """What drafted: of its own cell, else of what stands after a plus sign in the target's, else as stated."""
    own = drafter_name(row.drafter, target.spec)
    paired = row.target.partition("+")[2].strip()
    if _lacks_model(own) and paired and not _lacks_model(beside := drafter_name(paired, target.spec)):
        return beside
    return drafter_name(stated.draft, target.spec) if stated.draft is not None and _lacks_model(own) else own


def _is_meant(stated: HardwareProfile, found: DeviceName) -> bool:
    """Where the row leaves its device open, and where it names this one, whose profile a user may know better.

    A name that fits several devices of the catalogue does not stand for another one.
    """
    if found.profile is not None:
        return found.profile.name == stated.name
    return not found.candidates or stated.name in found.candidates or stated.name not in catalogue_names()


def _lacks_model(drafter: DrafterName) -> bool:
    return drafter.method is None or (drafter.method == "draft_model" and drafter.draft is None)


def what_is_missing(row: SeriesRow, named: RowNames, stated: Overrides) -> Iterator[str]:
    """What keeps a row from being predicted, or compared, one clause each.

    Examples
    --------
    >>> from specbook.validation.settings import example_series
    >>> row = example_series().rows[0]
    >>> list(what_is_missing(row, row_names(row, Overrides()), Overrides()))
    []
    """
    if named.device.profile is None:
        yield f"hardware: {named.device.question}"
    if named.target.spec is None:
        yield f"target: {named.target.question}"
    elif target_precision(named, stated) is None:
        yield f"weight format of the target: {_asked_format(named.target.unmodelled_format)}--precision"
    if _lacks_model(named.drafter):
        yield f"drafter: {named.drafter.question or 'no model of a known size; --draft'}"
    elif named.drafter.unmodelled_format is not None and stated.draft_precision is None:
        yield f"weight format of the drafter: {_asked_format(named.drafter.unmodelled_format)}--draft-precision"
    if row.tokens_per_round is None:
        yield "acceptance: neither a length nor a rate with the draft length"
    if row.draft_length is None and named.drafter.depth is None:
        yield "draft length K"
    if row.batch is None:
        yield "batch"
    if row.speedup is None:
        yield "a run without speculation" if row.tokens_per_s is not None else "a measured speed"


def _asked_format(unmodelled: str | None) -> str:
    return "" if unmodelled is None else f"{shown(unmodelled)} is not modelled: state "


def target_precision(named: RowNames, stated: Overrides) -> str | None:
    """The target's weight format; a checkpoint that a server loads by its plain name is as it was published.

    Examples
    --------
    >>> from specbook.validation.settings import example_series
    >>> target_precision(row_names(example_series().rows[0], Overrides()), Overrides())
    'bf16'
    """
    if named.target.precision is not None or stated.precision is not None:
        return named.target.precision or stated.precision
    if named.target.unmodelled_format is not None or named.engine.engine in _QUANTISE or named.target.spec is None:
        return None
    return published_format(named.target.spec.name)


def published_format(name: str) -> str:
    """The weight format in which a model was published; 16 bits where the library says nothing else.

    Examples
    --------
    >>> published_format("Kimi-K2"), published_format("Llama-3.1-8B")
    ('fp8', 'bf16')
    """
    return str(model_entry(name).get("published_format", "bf16")) if name in model_names() else "bf16"
