"""The commands ``specbook receipt show`` and ``specbook receipt check``; ``specbook witness`` makes what they read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specbook.commands.output import JsonFlag, emit

if TYPE_CHECKING:
    from specbook.witness.receipt import Receipt

ReceiptArgument = Annotated[
    str, typer.Argument(metavar="RECEIPT", help="A specbook-receipt/1 file, or the name of a stored one.")
]


def register(app: typer.Typer) -> None:
    """Add the commands to a group."""
    app.command("show")(receipt_show)
    app.command("check")(receipt_check)


def receipt_show(receipt: ReceiptArgument, json: JsonFlag = False) -> None:
    """Print a receipt, once its hash and its figures have been checked."""
    from specbook.display.witness_terminal import show_receipt

    found = _load(receipt)
    if json:
        emit(found.model_dump(mode="json", by_alias=True))
    else:
        show_receipt(found)


def receipt_check(
    receipt: ReceiptArgument,
    against: Annotated[
        list[Path] | None,
        typer.Option("--against", help="A file that should have gone into the run, or stands beside it; repeatable."),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Check a receipt, and files against the hashes in it; exit code 1 if a file is none of them."""
    from specbook.display.witness_terminal import show_check

    found = _load(receipt)
    files = _roles(found, against or [])
    weights = _weights(found)
    if json:
        emit(
            {
                "receipt_sha256": found.receipt_sha256,
                "verdict": found.verdict,
                "files": [{"file": name, "role": role} for name, role in files.items()],
                "weights": weights,
            }
        )
    else:
        show_check(found, files, weights)
    if None in files.values():
        raise typer.Exit(1)


def _load(name: str) -> Receipt:
    from specbook.witness.receipt import read_receipt
    from specbook.witness.stored import stored_receipt, stored_receipts

    is_file = bool(Path(name).suffix) or Path(name).exists()
    return read_receipt(Path(name)) if is_file and name not in stored_receipts() else stored_receipt(name)


def _roles(receipt: Receipt, paths: Sequence[Path]) -> dict[str, str | None]:
    """File → the role of the input, or the baseline, that has its hash."""
    from specbook.files import check_readable, sha256_of

    known = {each.sha256: "external baseline" for each in receipt.baselines}
    known |= {each.sha256: each.role for each in receipt.attestation.inputs}
    for path in paths:
        check_readable(path)
    return {str(path): known.get(sha256_of(path)) for path in paths}


def _weights(receipt: Receipt) -> dict[str, bool]:
    from specbook.engine.library import SHA256

    stated = receipt.attestation.weights_sha256
    return {model: SHA256.get(f"{model}.safetensors") == sha256 for model, sha256 in stated.items()}
