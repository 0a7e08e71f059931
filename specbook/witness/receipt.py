"""The receipt, ``specbook-receipt/1``: what was predicted, what the clock said, and what vouches for it.

It is made of a :class:`~specbook.witness.result.WitnessResult` and of nothing else, so that no file of another engine
becomes one. Its SHA-256 tells a receipt that was edited; it is no signature, and whoever writes a receipt by hand can
give it one.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from specbook.checks import BadInput
from specbook.files import dump_model, read_object, validated, write_text
from specbook.measuring.prompts import own_prompts_file
from specbook.witness.config import MOST_CONFIGURATIONS, WitnessConfig
from specbook.witness.control import judge_control
from specbook.witness.external import Digest, ExternalBaseline
from specbook.witness.jobs import prompts_of
from specbook.witness.receipt_configuration import ConfigurationRecord, configuration_record
from specbook.witness.receipt_parts import (
    RUN_AGAIN,
    Attestation,
    ControlRecord,
    Count,
    InputRecord,
    Part,
    Seconds,
    Size,
    file_input,
    impossible,
)
from specbook.witness.result import Verdict, WitnessResult, overall_verdict
from specbook.witness.verdict import judge_replay

__all__ = ["InputRecord", "Receipt", "file_input", "read_receipt", "receipt_of", "seal_of", "write_receipt"]

_UNSEALED = "0" * 64
_SEAL = "receipt_sha256"
_MOST_BASELINES = 16
_LARGEST_WHOLE = 2**53


class Receipt(Part):
    """A run of a witness, for whoever was not there.

    Examples
    --------
    >>> from specbook.witness.stored import stored_receipt
    >>> receipt = stored_receipt("epyc-zen5-2core")
    >>> receipt.attestation.execution, len(receipt.configurations)
    ('native', 3)
    """

    schema_: Literal["specbook-receipt/1"] = Field(default="specbook-receipt/1", alias="schema")
    date: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")] = Field(description="Day of the run, ISO 8601.")
    verdict: Verdict = Field(description="fail if one configuration failed, pass if all passed, else inconclusive.")
    configurations: list[ConfigurationRecord] = Field(
        min_length=1,
        max_length=MOST_CONFIGURATIONS,
        description="Each with its P90 TPOT as simulated and as measured, the error, the forecast, and its verdict.",
    )
    control: ControlRecord = Field(description="Decoding without drafts before, amid and after the run.")
    new_tokens: Size = Field(description="Tokens of each request.")
    seed: Count
    elapsed_s: Seconds
    attestation: Attestation = Field(description="What executed the run, where, and with which inputs.")
    baselines: list[ExternalBaseline] = Field(
        max_length=_MOST_BASELINES, description="Benchmarks of other engines; external, and never judged."
    )
    receipt_sha256: Digest = Field(
        description="Of all the rest as JSON without blanks: keys sorted, whole numbers without a fraction, UTF-8."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        _check_names(self)
        _check_lengths(self)
        _check_control(self)
        _check_verdicts(self)
        return self


def _check_names(receipt: Receipt) -> None:
    names = [each.name for each in receipt.configurations]
    if len(set(names)) != len(names):
        raise impossible("two of one name", "configurations", names)
    try:
        datetime.date.fromisoformat(receipt.date)
    except ValueError:
        raise impossible("is no day", "date", receipt.date) from None


def _check_lengths(receipt: Receipt) -> None:
    """Raise if a request has more tokens than any was to have."""
    for number, each in enumerate(receipt.configurations):
        longest = max(request.n_tokens for request in each.requests)
        if longest > receipt.new_tokens:
            problem = f"is less than the tokens of a request of configurations.{number}, {longest}"
            raise impossible(problem, "new_tokens", receipt.new_tokens)


def _check_control(receipt: Receipt) -> None:
    """Raise if the control calls a machine quiet whose own blocks say otherwise."""
    control = receipt.control.as_control()
    found = judge_control(control.blocks, (), control.load_average).reasons
    if found and control.is_quiet:
        raise impossible(f"say nothing, and the control was not quiet: {found[0]}", "control.reasons", [])


def _check_verdicts(receipt: Receipt) -> None:
    """Raise if a verdict is not the one that follows from the figures beside it."""
    control = receipt.control.as_control()
    for number, each in enumerate(receipt.configurations):
        expected, reasons = judge_replay(each.judged, control, each.parity.as_parity())
        place = f"configurations.{number}"
        if each.verdict != expected:
            raise impossible(f"is not what follows, {expected}: {reasons[0]}", f"{place}.verdict", each.verdict)
        if each.fresh_probe is not None and each.verdict != "fail":
            raise impossible("stands beside a verdict that is no fail", f"{place}.fresh_probe", each.verdict)
    overall = overall_verdict(each.verdict for each in receipt.configurations)
    if receipt.verdict != overall:
        raise impossible(f"is not what follows from the configurations, {overall}", "verdict", receipt.verdict)


def receipt_of(
    result: WitnessResult,
    inputs: Sequence[InputRecord] = (),
    baselines: Sequence[ExternalBaseline] = (),
    *,
    date: str | None = None,
) -> Receipt:
    """The receipt of a run; there is no other way to one.

    Parameters
    ----------
    result : WitnessResult
        Of :func:`~specbook.witness.run.run_witness`, which decoded what it reports.
    inputs : sequence of InputRecord
        What the run was made from; the prompts are added.
    baselines : sequence of ExternalBaseline
        Stand beside the run and change nothing in it.
    date : str, optional
        ISO 8601; today if not given.

    Raises
    ------
    TypeError
        If the result is none of a run.
    """
    if not isinstance(result, WitnessResult):
        raise TypeError(f"a receipt is made of a run of a witness; got {type(result).__name__}")
    prompts = prompts_of(result.config)
    receipt = Receipt(
        date=date or datetime.datetime.now(datetime.UTC).date().isoformat(),
        verdict=result.verdict,
        configurations=[
            configuration_record(each, prompts[each.configuration.domains].run, result.requests)
            for each in result.results
        ],
        control=ControlRecord.of(result.control),
        new_tokens=result.config.new_tokens,
        seed=result.config.seed,
        elapsed_s=result.elapsed_s,
        attestation=Attestation.of(result.engine, [*inputs, *_prompts(result.config)]),
        baselines=list(baselines),
        receipt_sha256=_UNSEALED,
    )
    return receipt.model_copy(update={_SEAL: seal_of(receipt.model_dump(mode="json", by_alias=True))})


def _prompts(config: WitnessConfig) -> list[InputRecord]:
    names = dict.fromkeys(domain for each in config.configurations for domain in each.domains)
    return [file_input("prompts", own_prompts_file(name)) for name in names]


def write_receipt(receipt: Receipt, path: Path) -> None:
    """Write a receipt, in one step.

    Raises
    ------
    BadInput
        If it cannot be written.
    """
    write_text(path, dump_model(receipt))


def read_receipt(path: Path) -> Receipt:
    """Read a receipt, and judge anew from its figures.

    Raises
    ------
    BadInput
        If it is no receipt, was edited after it was written, or its figures contradict each other or its verdict.

    Examples
    --------
    >>> from specbook.witness.stored import stored_receipt
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "R.json"
    ...     write_receipt(stored_receipt("epyc-zen5-2core"), path)
    ...     _ = path.write_text(path.read_text().replace('"seed": 0', '"seed": 1'))
    ...     try:
    ...         read_receipt(path)
    ...     except BadInput as error:
    ...         print(error.problem)
    was edited after it was written
    """
    document = read_object(path, Receipt)
    stated = document.get(_SEAL)
    if isinstance(stated, str) and stated != _seal_of_any(document, path):
        problem = "was edited after it was written"
        raise BadInput(problem, file=str(path), field=_SEAL, value=stated, remedy=RUN_AGAIN)
    return validated(document, Receipt, str(path))


def _seal_of_any(document: dict[str, Any], path: Path) -> str:
    try:
        return seal_of(document)
    except RecursionError:
        raise BadInput("is nested too deeply", file=str(path), remedy=RUN_AGAIN) from None


def seal_of(document: dict[str, Any]) -> str:
    """SHA-256 of all of a receipt but its own, however the file is laid out.

    Examples
    --------
    >>> seal_of({"b": 1.0, "a": "x"}) == seal_of({"a": "x", "b": 1, "receipt_sha256": "any"})
    True
    """
    rest = {name: value for name, value in document.items() if name != _SEAL}
    text = json.dumps(_plain(rest), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", errors="surrogatepass")).hexdigest()


def _plain(value: Any) -> Any:
    """The same with whole numbers as such: programs that lay JSON out anew write 1.0 as 1."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and value.is_integer() and abs(value) <= _LARGEST_WHOLE:
        return int(value)
    return value
