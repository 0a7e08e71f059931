"""Reading and writing the files between the stages: atomic writes, SHA-256, JSON with one-line errors."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from specbook.checks import BadInput

Model = TypeVar("Model", bound=BaseModel)

# A profile is a few kilobytes; anything near this size is the wrong file, and parsing it would need gigabytes.
DOCUMENT_LIMIT_BYTES = 64 * 2**20


def check_readable(path: Path) -> int:
    """Return the size of ``path`` in bytes, or raise :class:`BadInput` if it is no readable, non-empty file."""
    name = str(path)
    try:
        if path.is_dir():
            raise BadInput("is a directory", file=name, remedy="name the file inside it")
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise BadInput("is no regular file", file=name, remedy="save it to disk first")
        with path.open("rb"):
            pass
    except OSError as error:
        reason = (error.strerror or "cannot be opened").lower()
        raise BadInput(reason, file=name, remedy="check the path and its permissions") from None
    if status.st_size == 0:
        raise BadInput("is empty", file=name, remedy="export it again")
    return status.st_size


def read_json(path: Path) -> Any:
    """Parse one JSON document of at most 64 MiB."""
    size_bytes = check_readable(path)
    if size_bytes > DOCUMENT_LIMIT_BYTES:
        raise BadInput(
            f"one JSON document of {size_bytes / 1e6:.0f} MB, over the limit of {DOCUMENT_LIMIT_BYTES / 1e6:.0f} MB",
            file=str(path),
            remedy="export JSON Lines, one request a line, which is streamed at any size",
        )
    return parse_json(path.read_bytes(), str(path))


def parse_json(raw: bytes, name: str) -> Any:
    """Parse bytes as UTF-8 JSON, or raise :class:`BadInput` that says where it broke off."""
    try:
        return json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        problem = f"is not UTF-8 text (byte {error.start})"
    except json.JSONDecodeError as error:
        problem = f"is not complete JSON: {error.msg} at line {error.lineno}, column {error.colno}"
    except RecursionError:
        problem = "is nested too deeply"
    except ValueError:
        problem = "holds a number of thousands of digits"
    raise BadInput(problem, file=name, remedy="export the file again as JSON or JSON Lines")


def read_model(path: Path, model: type[Model]) -> Model:
    """Read a JSON file into a pydantic model; its schema name is checked before anything else."""
    return validated(read_object(path, model), model, str(path))


def read_object(path: Path, model: type[BaseModel]) -> dict[str, Any]:
    """Read the JSON object of a file whose schema is that of a model, without validating it."""
    document = read_json(path)
    if not isinstance(document, dict):
        raise BadInput("is not a JSON object", file=str(path), remedy=f"expected a {schema_name(model)} file")
    if document.get("schema") != schema_name(model):
        raise BadInput(
            "unknown schema",
            file=str(path),
            field="schema",
            value=document.get("schema"),
            remedy=f"expected {schema_name(model)}; make one with the specbook command that writes it",
        )
    return document


def validated(document: dict[str, Any], model: type[Model], name: str) -> Model:
    """Validate ``document`` strictly as JSON; the first error becomes one line."""
    try:
        return model.model_validate_json(json.dumps(document), strict=True)
    except ValidationError as error:
        raise first_problem(error, name, "correct the field or make the file again") from None


def first_problem(error: ValidationError, name: str, remedy: str) -> BadInput:
    """The first error of a validation as one line; ``remedy`` where the check names none of its own."""
    first = error.errors(include_url=False)[0]
    context = first.get("ctx", {})
    return BadInput(
        first["msg"].removeprefix("Value error, "),
        file=name,
        field=context.get("field") or ".".join(str(part) for part in first["loc"]) or None,
        value=... if first["type"] == "missing" else context.get("value", first["input"]),
        remedy=context.get("remedy", remedy),
    )


def schema_name(model: type[BaseModel]) -> str:
    """The ``schema`` string of a file model, such as ``specbook-acceptance/1``."""
    return str(model.model_fields["schema_"].default)


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's bytes, read in blocks."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(2**20):
            digest.update(block)
    return digest.hexdigest()


def model_sha256(model: BaseModel) -> str:
    """SHA-256 of a file model as specbook would write it."""
    return hashlib.sha256(dump_model(model).encode()).hexdigest()


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Call ``write`` with a temporary path beside ``path``, then move it into place in one step.

    Raises
    ------
    BadInput
        If the folder cannot be written; ``path`` is left as it was.
    """
    try:
        if path.exists() and not path.is_file():
            raise OSError(0, "is a directory" if path.is_dir() else "is no regular file")
        path = Path(os.path.realpath(path))  # a link keeps pointing where it did
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise BadInput(f"cannot be written ({reason})", file=str(path), remedy="choose another --out") from None
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise BadInput(f"cannot be written ({reason})", file=str(path), remedy="choose another --out") from None
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    """The process's mask of file permissions, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextmanager
def folder_lock(path: Path) -> Iterator[None]:
    """Keep other processes of this kind from writing beside ``path`` meanwhile; no lock where the system has none."""
    folder = Path(os.path.realpath(path)).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise BadInput(f"cannot be written ({reason})", file=str(path), remedy="choose another file") from None
    try:
        if os.name == "posix":
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def write_bytes(path: Path, content: bytes) -> None:
    """Write bytes atomically."""
    write_atomically(path, lambda part: part.write_bytes(content))


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically."""
    write_atomically(path, lambda part: part.write_text(text, encoding="utf-8"))


def to_json(document: Any) -> str:
    """JSON text as specbook writes it: indented by one, no NaN, a newline at the end."""
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def dump_model(model: BaseModel) -> str:
    """JSON text of a file model, with its ``schema`` field under that name."""
    return to_json(model.model_dump(mode="json", by_alias=True))
