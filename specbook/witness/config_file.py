"""What a witness is to run, as a file: ``specbook-witness-config/1``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from specbook.acceptance.profile import AcceptanceProfile, read_profile
from specbook.checks import BadInput
from specbook.engine.library.drafters import drafter_name
from specbook.files import read_model
from specbook.witness.config import Configuration, WitnessConfig

_TARGET = "specbook-target"

Name = Annotated[str, Field(min_length=1, max_length=80)]
Whole = Annotated[int, Field(ge=0, le=2**53)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class ConfigurationEntry(_Part):
    """One way to speculate, as :class:`~specbook.witness.config.Configuration` has it."""

    name: Name | None = Field(default=None, description="How the receipt calls it; by default made of the rest.")
    drafter: Name
    draft_length: Whole | None = Field(default=None, description="K of a chain, 1 or more; null for a tree.")
    parents: list[Annotated[int, Field(ge=-1, le=4096)]] | None = Field(
        default=None, description="Parent of each node of a tree, −1 the last token of the text; null for a chain."
    )
    cut: Name = Field(default="none", description="Where a chain ends early, such as entropy:1.5.")
    domains: list[Name] = ["code"]
    temperature: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] = 0.0
    acceptance: str | None = Field(
        default=None, description="A specbook-acceptance/1 file for the forecast, relative to this file."
    )


class WitnessConfigFile(_Part):
    """Configurations, and how much of each is run."""

    schema_: Literal["specbook-witness-config/1"] = Field("specbook-witness-config/1", alias="schema")
    configurations: list[ConfigurationEntry] = Field(description="One to three.")
    arithmetic: Name = "fast"
    replication: Whole = Field(default=8, description="The cost dial R of the target; it is no larger model.")
    new_tokens: Whole = Field(default=64, description="Tokens of each request.")
    n_prompts: Whole = Field(default=12, description="Requests of each configuration.")
    seed: Whole = 0
    hardware: str | None = Field(
        default=None, description="A specbook-hardware/1 file for the forecast, relative to this file, or a name."
    )


def read_witness_config(path: Path) -> tuple[WitnessConfig, str | None]:
    """Read what to run.

    Parameters
    ----------
    path : Path
        A ``specbook-witness-config/1`` file.

    Returns
    -------
    WitnessConfig
        With the acceptance profiles that it names.
    str or None
        The hardware that it names, as :func:`~specbook.hardware.profile.load_hardware` takes it.

    Raises
    ------
    BadInput
        If the file, or one that it names, cannot be read, or something in it cannot be run.

    Examples
    --------
    >>> import json, tempfile
    >>> document = {"schema": "specbook-witness-config/1", "configurations": [{"drafter": "small", "draft_length": 4}]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "C.json"
    ...     _ = path.write_text(json.dumps(document))
    ...     read_witness_config(path)[0].configurations[0].name
    'small K=4 code'
    """
    return config_of(read_model(path, WitnessConfigFile), path.parent, str(path))


def config_of(file: WitnessConfigFile, folder: Path, name: str | None = None) -> tuple[WitnessConfig, str | None]:
    """What a file asks for, as :func:`read_witness_config` gives it.

    Parameters
    ----------
    file : WitnessConfigFile
    folder : Path
        That its own files are relative to.
    name : str or None
        Of the file, for what is refused; None if there is none.

    Raises
    ------
    BadInput
        As :func:`read_witness_config`.
    """
    entries = [
        configuration_of(entry, _profile(entry, number, folder, name), f"configurations.{number}", name)
        for number, entry in enumerate(file.configurations)
    ]
    try:
        config = WitnessConfig(
            configurations=tuple(entries),
            arithmetic=file.arithmetic,
            replication=file.replication,
            new_tokens=file.new_tokens,
            n_prompts=file.n_prompts,
            seed=file.seed,
        )
    except BadInput as error:
        raise error if name is None else error.at(name) from None
    return config, _beside(file.hardware, folder)


def _profile(entry: ConfigurationEntry, number: int, folder: Path, name: str | None) -> AcceptanceProfile | None:
    if entry.acceptance is None:
        return None
    if not entry.acceptance.strip():
        field, remedy = f"configurations.{number}.acceptance", "name a file, or leave it out"
        raise BadInput("is blank", file=name, field=field, value=entry.acceptance, remedy=remedy)
    return read_profile(folder / entry.acceptance)


def _beside(hardware: str | None, folder: Path) -> str | None:
    """A file of hardware beside the one that names it; a name as it is."""
    is_file = hardware is not None and (hardware.endswith(".json") or "/" in hardware)
    return str(folder / hardware) if hardware is not None and is_file else hardware


def configuration_of(
    entry: ConfigurationEntry, acceptance: AcceptanceProfile | None, field: str | None = None, file: str | None = None
) -> Configuration:
    """One entry as what is run.

    Parameters
    ----------
    entry : ConfigurationEntry
    acceptance : AcceptanceProfile or None
        For the forecast.
    field, file : str, optional
        Where the entry stands, for errors.

    Raises
    ------
    BadInput
        If the entry cannot be run, or the profile is of another target, drafter, temperature or draft.
    """
    try:
        configuration = Configuration(
            name=entry.name or _named(entry),
            drafter=entry.drafter,
            draft_length=entry.draft_length,
            parents=None if entry.parents is None else tuple(entry.parents),
            cut=entry.cut,
            domains=tuple(entry.domains),
            temperature=entry.temperature,
            acceptance=acceptance,
        )
        if acceptance is not None:
            _check_profile(acceptance, configuration)
    except BadInput as error:
        inner = ".".join(filter(None, (field, error.field))) or None
        raise BadInput(error.problem, remedy=error.remedy, file=file, field=inner, value=error.value) from None
    return configuration


def _named(entry: ConfigurationEntry) -> str:
    """Drafter, draft, domains, and the temperature where it is not 0."""
    drafts = f"K={entry.draft_length}" if entry.parents is None else f"tree of {len(entry.parents)}"
    warm = [f"T={entry.temperature:g}"] if entry.temperature else []
    cut = [] if entry.cut == "none" else [entry.cut]
    return " ".join([entry.drafter, drafts, *cut, "+".join(entry.domains), *warm])


def _check_profile(profile: AcceptanceProfile, configuration: Configuration) -> None:
    """Raise if the profile speaks of something else than the configuration runs."""
    expected = {
        "target": _TARGET,
        "drafter": f"specbook-{drafter_name(configuration.drafter)}",
        "temperature": configuration.temperature,
        "draft_length": configuration.shape.depth,
    }
    for name, value in expected.items():
        stated = getattr(profile, name)
        if stated != value:
            problem = f"is a profile whose {name} is {stated}, and {value} is to be run"
            remedy = "measure one with specbook profile measure, or leave it out"
            raise BadInput(problem, field="acceptance", remedy=remedy)
