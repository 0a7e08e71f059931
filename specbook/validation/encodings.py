"""How the bytes of a file are text, or which kind of file it is instead."""

from __future__ import annotations

import codecs
import hashlib
from dataclasses import dataclass
from pathlib import Path

from specbook.checks import BadInput
from specbook.files import check_readable

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),  # begins as UTF-16 does
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_OTHER_KINDS = (
    (b"PAR1", "is a Parquet file"),
    (b"PK\x03\x04", "is a workbook or an archive"),
    (b"\xd0\xcf\x11\xe0", "is a workbook"),
    (b"\x1f\x8b", "is packed with gzip"),
    (b"%PDF", "is a PDF"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Encoding:
    """How the bytes of a file are text.

    Attributes
    ----------
    name : str
        UTF-8, also with a mark (``utf-8-sig``), UTF-16, or cp1252 where it is neither.
    n_unreadable : int
        Bytes of a file in UTF-8 that are not; they are shown escaped.
    sha256 : str
        Of the bytes.
    """

    name: str
    n_unreadable: int
    sha256: str


def encoding_of(path: Path) -> Encoding:
    """How the bytes of a file are text, from all of them, read in blocks.

    Raises
    ------
    BadInput
        If it cannot be read, is empty, or is no text.
    """
    check_readable(path)
    digest, n_bad, n_good = hashlib.sha256(), 0, 0
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    with path.open("rb") as stream:
        head = stream.read(256)
        stream.seek(0)
        while block := stream.read(2**20):
            digest.update(block)
            if not block.isascii():
                text = decoder.decode(block)
                n_bad += text.count("\ufffd") - block.count(b"\xef\xbf\xbd")
                n_good += len(text) - len(text.encode("ascii", "ignore"))
    _check_is_text(head, str(path))
    name = _marked(head)
    # A text in UTF-8 that was damaged here and there has more characters of several bytes than damaged ones.
    if name == "utf-8" and n_bad > n_good - n_bad:
        name = "cp1252"
    return Encoding(name=name, n_unreadable=n_bad if name == "utf-8" else 0, sha256=digest.hexdigest())


def _marked(head: bytes) -> str:
    """The encoding that the first bytes give away; UTF-8 if none."""
    for mark, name in _MARKS:
        if head.startswith(mark):
            return name
    if head[1:2] == b"\0" != head[:1]:
        return "utf-16-le"
    return "utf-16-be" if head[:1] == b"\0" != head[1:2] else "utf-8"


def _is_binary(head: bytes) -> bool:
    """Whether it has zeros as no table has: one in two bytes of UTF-16 is one, and all of these in the same place."""
    if _marked(head) in ("utf-16", "utf-32", "utf-8-sig"):
        return False
    n_even, n_odd = head[::2].count(0), head[1::2].count(0)
    if _marked(head) == "utf-8":
        return 4 * (n_even + n_odd) > len(head)
    return min(n_even, n_odd) > 0 or 4 * max(n_even, n_odd) < len(head)


def _check_is_text(head: bytes, name: str) -> None:
    start = head.removeprefix(codecs.BOM_UTF8).lstrip()
    problems = [problem for magic, problem in _OTHER_KINDS if head.startswith(magic)]
    problems += ["is binary"] if _is_binary(head) else []
    problems += ["is JSON"] if start[:1] in (b"{", b"[") else []
    problems += ["is a page of markup"] if start[:1] == b"<" else []
    if problems:
        raise BadInput(f"{problems[0]}, not a table of text", file=name, remedy="save it as CSV with a header")
