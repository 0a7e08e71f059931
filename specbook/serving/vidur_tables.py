"""Iteration times out of Vidur's tables: what its predictor says of one layer, looked up and never interpolated."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specbook.checks import BadInput, Floats, check_counts
from specbook.hardware.readers.documents import read_document
from specbook.hardware.readers.tables import csv_records, header_cells
from specbook.hardware.readers.values import numeral, whole

# Tables state the context in steps of 64 tokens and are asked for the next one up.
CONTEXT_STEP_TOKENS = 64
# What several sequences, or several chunks, cost more than the table of one says.
_SEVERAL = 1.1

_LINEAR = ("num_tokens", "non_attention_ms_per_layer", "kv_cache_save_ms_per_layer")
_DECODE = ("decode_batch_size", "avg_kv_rounded_up_64", "attn_decode_ms_per_layer")
_PREFILL = ("sum_kv_rounded_up_64", "chunk_rms_tokens", "attn_prefill_ms_per_layer")
_REMEDY = "bring a table that holds it, or keep the simulation within the table"

Cells = Mapping[tuple[int, int], float]


@dataclass(frozen=True, kw_only=True)
class VidurTables:
    r"""Seconds of an iteration by look-up in the tables of Vidur's predictor; an ``IterationTime``.

    Attributes
    ----------
    linear_ms, save_ms : dict of int to float
        By the tokens of the batch: products of a layer, and saving keys and values.
    decode_ms : dict of (int, int) to float
        Attention of decodes, by sequences and by their mean context, rounded up to 64 tokens.
    prefill_ms : dict of (int, int) to float
        Attention of chunks, by the sum of their contexts, each rounded up to 64, and the root of the sum of their
        squared tokens, rounded.
    n_layers : int

    Raises
    ------
    ValueError
        If a time is negative or not finite, or ``n_layers`` is not a whole number of at least 1.

    Notes
    -----
    .. math:: T = 10^{-3}\,n_l\,(T_{linear}[N] + T_{save}[N] + T_{decode} + T_{prefill})

    Attention costs a tenth more where there are several decodes, and again where there are several chunks. Decodes of
    several positions, as a verify pass has, count all of them in N and read the context of their sequence once. The
    embedding, the output head and the processor's own time are in none of the tables.

    References
    ----------
    vidur2024

    Examples
    --------
    >>> tables = VidurTables(
    ...     linear_ms={1: 0.5, 2: 0.6, 9: 0.7}, save_ms={1: 0.1, 2: 0.1, 9: 0.2},
    ...     decode_ms={(1, 64): 0.3, (2, 64): 0.4}, prefill_ms={(0, 8): 0.25}, n_layers=10,
    ... )
    >>> print(f"{tables.mixed_seconds(1, 1, 40, [(8, 0)]):.4f} s", tables.decode_seconds(2, 2, np.array([90])))
    0.0145 s [0.0114]
    >>> tables.mixed_seconds(0, 0, 0, [(3, 0)])
    Traceback (most recent call last):
        ...
    specbook.checks.BadInput: num_tokens = 3: the linear table holds 1 to 9; bring a table that holds it, or keep the
    simulation within the table
    """

    linear_ms: Mapping[int, float]
    save_ms: Mapping[int, float]
    decode_ms: Cells
    prefill_ms: Cells
    n_layers: int
    kind: str = field(default="vidur_tables", init=False)
    _rows: dict[int, Floats] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_counts("n_layers", self.n_layers, minimum=1)
        for name in ("linear_ms", "save_ms", "decode_ms", "prefill_ms"):
            if not all(0.0 <= ms < math.inf for ms in getattr(self, name).values()):
                raise ValueError(f"{name} must hold finite times that are not negative")

    @classmethod
    def read(cls, *, linear: Path, decode: Path, prefill: Path, n_layers: int) -> VidurTables:
        """Read the three tables from CSV files.

        Parameters
        ----------
        linear : Path
            Columns ``num_tokens``, ``non_attention_ms_per_layer``, ``kv_cache_save_ms_per_layer``.
        decode : Path
            Columns ``decode_batch_size``, ``avg_kv_rounded_up_64``, ``attn_decode_ms_per_layer``.
        prefill : Path
            Columns ``sum_kv_rounded_up_64``, ``chunk_rms_tokens``, ``attn_prefill_ms_per_layer``.
        n_layers : int

        Raises
        ------
        BadInput
            If a file is no such table, states a cell twice, or holds an impossible number.
        """
        lines = dict(_cells(linear, _LINEAR, n_keys=1))
        return cls(
            linear_ms={tokens: times[0] for (tokens,), times in lines.items()},
            save_ms={tokens: times[1] for (tokens,), times in lines.items()},
            decode_ms={(batch, context): times[0] for (batch, context), times in _cells(decode, _DECODE, n_keys=2)},
            prefill_ms={
                (context, tokens): times[0] for (context, tokens), times in _cells(prefill, _PREFILL, n_keys=2)
            },
            n_layers=n_layers,
        )

    def decode_seconds(self, n_decodes: int, decode_tokens: Any, context_tokens: NDArray[np.int64]) -> Floats:
        """Seconds of n iterations without prefills, as in ``IterationTime``.

        Raises
        ------
        BadInput
            If a value lies in none of the tables.
        """
        row = self._decode_row(n_decodes)
        places = -(-(context_tokens // n_decodes) // CONTEXT_STEP_TOKENS)
        attention_ms = row[np.minimum(places, row.size - 1)]
        missing = np.flatnonzero(np.isnan(attention_ms) | (places >= row.size))
        if missing.size:
            raise self._no_decode(n_decodes, int(places[missing[0]]) * CONTEXT_STEP_TOKENS)
        layer_ms = self._row_ms(decode_tokens) + attention_ms * (_SEVERAL if n_decodes > 1 else 1)
        seconds: Floats = self.n_layers * layer_ms * 1e-3
        return seconds

    def mixed_seconds(
        self, n_decodes: int, decode_tokens: int, context_tokens: int, prefills: Sequence[tuple[int, int]]
    ) -> float:
        """Seconds of one iteration, as in ``IterationTime``.

        Raises
        ------
        BadInput
            If a value lies in none of the tables.
        """
        layer_ms = self._tokens_ms(decode_tokens + sum(tokens for tokens, _ in prefills))
        if n_decodes:
            layer_ms += self._decode_attention_ms(n_decodes, context_tokens)
        if prefills:
            layer_ms += self._prefill_attention_ms(prefills)
        return self.n_layers * layer_ms * 1e-3

    def _tokens_ms(self, n_tokens: int) -> float:
        try:
            return self.linear_ms[n_tokens] + self.save_ms[n_tokens]
        except KeyError:
            raise _not_held("linear", "num_tokens", int(n_tokens), _range(self.linear_ms)) from None

    def _row_ms(self, decode_tokens: Any) -> Any:
        """The part of a layer without attention, for one number of tokens or for several."""
        if np.ndim(decode_tokens) == 0:
            return self._tokens_ms(int(decode_tokens))
        values, places = np.unique(decode_tokens, return_inverse=True)
        return np.array([self._tokens_ms(int(value)) for value in values])[places]

    def _decode_attention_ms(self, n_decodes: int, context_tokens: int) -> float:
        context = _rounded_up(context_tokens // n_decodes)
        ms = self.decode_ms.get((n_decodes, context))
        if ms is None:
            raise self._no_decode(n_decodes, context)
        return ms * (_SEVERAL if n_decodes > 1 else 1)

    def _prefill_attention_ms(self, prefills: Sequence[tuple[int, int]]) -> float:
        context = sum(_rounded_up(done) for _, done in prefills)
        tokens = round(math.sqrt(sum(tokens**2 for tokens, _ in prefills)))
        ms = self.prefill_ms.get((context, tokens))
        if ms is None:
            held = _held(self.prefill_ms, "sum_kv", "chunk_rms_tokens")
            raise _not_held("prefill", "sum_kv_rounded_up_64, chunk_rms_tokens", (context, tokens), held)
        return ms * (_SEVERAL if len(prefills) > 1 else 1)

    def _decode_row(self, n_decodes: int) -> Floats:
        """The decode table of so many sequences, by steps of context; NaN where it holds nothing."""
        if n_decodes not in self._rows:
            cells = {context: ms for (batch, context), ms in self.decode_ms.items() if batch == n_decodes}
            row = np.full(max(cells, default=0) // CONTEXT_STEP_TOKENS + 1, np.nan)
            for context, ms in cells.items():
                if context % CONTEXT_STEP_TOKENS == 0:
                    row[context // CONTEXT_STEP_TOKENS] = ms
            self._rows[n_decodes] = row
        return self._rows[n_decodes]

    def _no_decode(self, n_decodes: int, context: int) -> BadInput:
        held = _held(self.decode_ms, "decode_batch_size", "avg_kv")
        return _not_held("decode", "decode_batch_size, avg_kv_rounded_up_64", (n_decodes, context), held)


def _rounded_up(tokens: int) -> int:
    return -(-tokens // CONTEXT_STEP_TOKENS) * CONTEXT_STEP_TOKENS


def _range(values: Any) -> str:
    return f"{min(values):,} to {max(values):,}" if values else "nothing"


def _held(cells: Cells, first: str, second: str) -> str:
    """Which values of its two keys a table holds."""
    firsts, seconds = ({key[place] for key in cells} for place in (0, 1))
    return f"{first} {_range(firsts)}, {second} {_range(seconds)}"


def _not_held(table: str, name: str, value: Any, held: str) -> BadInput:
    return BadInput(f"the {table} table holds {held}", field=name, value=value, remedy=_REMEDY)


def _cells(path: Path, columns: Sequence[str], *, n_keys: int) -> Iterator[tuple[tuple[int, ...], list[float]]]:
    """Yield the keys and the milliseconds of each row, each cell once."""
    document = read_document(path)
    missing = [name for name in columns if name not in header_cells(document)]
    if missing:
        remedy = f"a table of Vidur's predictor has the columns {', '.join(columns)}"
        raise BadInput("has no such column", file=str(path), field="header", value=missing[0], remedy=remedy)
    seen: set[tuple[int, ...]] = set()
    for where, cells in csv_records(document):
        key = tuple(whole(numeral(cells[name], where, name), where, name, minimum=0) for name in columns[:n_keys])
        if key in seen:
            problem, field_name = "stands in an earlier row too", ", ".join(columns[:n_keys])
            raise BadInput(problem, file=where, field=field_name, value=key, remedy="keep one of the two")
        seen.add(key)
        yield key, [_milliseconds(cells[name], where, name) for name in columns[n_keys:]]
    if not seen:
        raise BadInput("holds no row", file=str(path), remedy="export the table again")


def _milliseconds(spelled: str, where: str, name: str) -> float:
    value = float(numeral(spelled, where, name))
    if value < 0.0 or value > 1e6:
        raise BadInput("must lie in [0, 1e6]", file=where, field=name, value=value, remedy="it is in milliseconds")
    return value
