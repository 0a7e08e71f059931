"""The traces behind the book: every round of the shipped pair on our own prompts, made in float64 and committed.

``python -m specbook.measuring.traces [FOLDER]`` makes them again. A test makes some of every cell's kind again and
compares tokens and accepted counts; :mod:`specbook.parity.record_kernels` says on which BLAS kernels such counts came
out the same, on a sample. A cell is one drafter, shape, domain and temperature.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from specbook.acceptance.profile import AcceptanceProfile
from specbook.checks import BadInput
from specbook.engine.draft import TreeShape, chain_shape, tree_shape
from specbook.engine.library import load_target
from specbook.engine.library.drafters import METHODS, shipped_drafter
from specbook.engine.sampling import SamplingConfig
from specbook.engine.threads import blas_threads
from specbook.files import sha256_of, write_atomically
from specbook.measuring.profiles import profile_of_rounds
from specbook.measuring.prompts import domains, own_prompts
from specbook.measuring.rounds import MeasuringConfig, measure_rounds
from specbook.measuring.subjects import specbook_reader

FILE = Path(__file__).parent / "traces.parquet"
SHA256 = "e7cad7bd03ba210ed78b3b4ac9ca6b0fde6ba5e57ede20e4d21bbb6cb013d79a"

N_PROMPTS = 40
MAX_NEW_TOKENS = 48
SEED = 0
TEMPERATURES = (0.0, 1.0)
KEYS = ("drafter", "shape", "domain", "temperature")


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """One combination that was measured.

    Examples
    --------
    >>> Cell(drafter="small", branching=(1, 1), domain="code", temperature=0.0).shape_name
    'chain 2'
    """

    drafter: str
    branching: tuple[int, ...]
    domain: str
    temperature: float

    @property
    def shape(self) -> TreeShape:
        """What a round may draft."""
        return tree_shape(self.branching) if max(self.branching) > 1 else chain_shape(len(self.branching))

    @property
    def shape_name(self) -> str:
        """Such as ``chain 4`` or ``tree 3,2,1``."""
        if max(self.branching) == 1:
            return f"chain {len(self.branching)}"
        return f"tree {','.join(map(str, self.branching))}"


_CHAINS = {
    "small": (1, 2, 4, 8),
    "eagle": (1, 2, 4, 8),
    "early_exit": (4,),
    "medusa": (4,),
    "prompt_lookup": (8,),
    "ngram": (4,),
    "lookahead": (3,),
}
_TREE = (3, 2, 1, 1)


def cells() -> Iterator[Cell]:
    """All cells of the book, in order.

    Examples
    --------
    >>> len(list(cells()))
    120
    """
    shapes = [(name, (1,) * length) for name, lengths in _CHAINS.items() for length in lengths]
    for drafter, branching in [*shapes, ("small", _TREE), ("eagle", _TREE)]:
        for domain in domains():
            for temperature in TEMPERATURES:
                yield Cell(drafter=drafter, branching=branching, domain=domain, temperature=temperature)


def trace(cell: Cell, n_prompts: int = N_PROMPTS) -> pl.DataFrame:
    """Measure one cell in float64 with one BLAS thread.

    Parameters
    ----------
    cell : Cell
    n_prompts : int
        The first so many of our own prompts.

    Returns
    -------
    DataFrame
        One row a round, without seconds, under the names of the cell.
    """
    target = load_target("ref64")
    reader = specbook_reader(own=True)
    prompts = [(prompt.identifier, reader.encode(prompt)) for prompt in own_prompts(cell.domain)[:n_prompts]]
    config = MeasuringConfig(
        shape=cell.shape,
        sampling=SamplingConfig(temperature=cell.temperature),
        max_new_tokens=MAX_NEW_TOKENS,
        stop_tokens=reader.stop_tokens,
        seed=SEED,
    )
    with blas_threads(1):
        frame = measure_rounds(target, shipped_drafter(cell.drafter, target), prompts, config)
    rounded = pl.col("overlap").list.eval(pl.element().round(4))
    labels = {"drafter": cell.drafter, "shape": cell.shape_name, "domain": cell.domain, "temperature": cell.temperature}
    named = [pl.lit(value).alias(name) for name, value in labels.items()]
    return frame.drop("draft_s", "verify_s", "accept_s").with_columns(rounded).select(*named, pl.all())


@lru_cache(maxsize=1)
def book_traces() -> pl.DataFrame:
    """The committed traces, checked against their SHA-256.

    Raises
    ------
    BadInput
        If the file hashes to something else.

    Examples
    --------
    >>> book_traces().select(KEYS).n_unique()
    120
    """
    if sha256_of(FILE) != SHA256:
        raise BadInput("does not hash to what it should", file=str(FILE), remedy="install specbook anew")
    return pl.read_parquet(FILE)


def book_profile(drafter: str, shape: str, domain: str, temperature: float) -> AcceptanceProfile:
    """The acceptance profile of one cell.

    Parameters
    ----------
    drafter, shape, domain : str
        Such as ``small``, ``chain 4``, ``code``.
    temperature : float
        0 or 1.

    Raises
    ------
    ValueError
        If there is no such cell.

    Examples
    --------
    >>> book_profile("small", "chain 4", "code", 0.0).draft_length
    4
    """
    labels = dict(zip(KEYS, (drafter, shape, domain, temperature), strict=True))
    rounds = book_traces().filter(*(pl.col(name) == value for name, value in labels.items()))
    if rounds.is_empty():
        raise ValueError(f"no cell of the traces has {labels}")
    names = {"target": "specbook-target", "drafter": f"specbook-{drafter}", "method": METHODS[drafter]}
    return profile_of_rounds(rounds, {**labels, **names}, is_tree=shape.startswith("tree"))


def main(arguments: Sequence[str]) -> None:
    """Make the traces and print their SHA-256.

    Cells that a named folder holds are taken from it, so that an interrupted run goes on: name an empty one after any
    change of engine, weights or prompts.
    """
    with TemporaryDirectory() as temporary:
        folder = Path(arguments[0] if arguments else temporary)
        folder.mkdir(parents=True, exist_ok=True)
        whole = pl.concat([_part(cell, folder) for cell in cells()])
    write_atomically(FILE, lambda path: whole.write_parquet(path, compression="zstd", compression_level=19))
    sys.stdout.write(f"{FILE.name}: {whole.height} rounds, SHA-256 {sha256_of(FILE)}\n")


def _part(cell: Cell, folder: Path) -> pl.DataFrame:
    """The rounds of one cell, from the folder if they are there."""
    name = f"{cell.drafter}-{cell.shape_name}-{cell.domain}-{cell.temperature:g}".replace(" ", "_")
    part = folder / f"{name}.parquet"
    if not part.exists():
        write_atomically(part, trace(cell).write_parquet)
        sys.stdout.write(f"{name}\n")
        sys.stdout.flush()
    return pl.read_parquet(part)


if __name__ == "__main__":
    main(sys.argv[1:])
