"""The body of a tail row: one received batch with its columns keyed by column number.

It is a msgpack array ``[step, t, cols]`` of raw little-endian bytes, so that every float64 bit survives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Union

import msgspec
import numpy as np

from tocsin_server.core.errors import DamagedError
from tocsin_server.core.models import Column, RecordBatch


class Sparse(msgspec.Struct, array_like=True, frozen=True):
    """A column with values in some records only: rows ``at`` u32le[k], values ``v`` f64le[k]."""

    at: bytes
    v: bytes


class Body(msgspec.Struct, array_like=True, frozen=True):
    """``step`` i64le[n], ``t`` i64le[n] in ns, ``cols`` by column number: f64le[n] or sparse."""

    step: bytes
    t: bytes
    cols: dict[int, Union[bytes, Sparse]]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Body)


def encode(batch: RecordBatch, numbers: Mapping[str, int]) -> bytes:
    """Return the batch as a tail body; ``numbers`` maps the name of each series to its column number."""
    cols = {numbers[name]: _column(column) for name, column in batch.columns.items()}
    return _encoder.encode(
        Body(batch.step.astype("<i8").tobytes(), batch.time_ns.astype("<i8").tobytes(), cols)
    )


def decode(body: bytes) -> Body:
    """Decode a tail body; its columns stay raw bytes.

    Raises:
        DamagedError: ``body`` cannot be decoded.
    """
    try:
        return _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedError(str(error)) from error


def checked(body: bytes, n: int) -> Body:
    """Decode the body of a row of ``n`` records and check its sizes.

    Raises:
        DamagedError: ``body`` cannot be decoded, or its sizes do not fit.
    """
    found = decode(body)
    _expect("bytes of steps and times", (8 * n, 8 * n), (len(found.step), len(found.t)))
    for column in found.cols.values():
        if isinstance(column, bytes):
            _expect("bytes of values", 8 * n, len(column))
            continue
        rows = len(column.at) // 4
        _expect("bytes of rows and values", (4 * rows, 8 * rows), (len(column.at), len(column.v)))
        at = np.frombuffer(column.at, dtype="<u4")
        _expect("rows below the batch's", True, not rows or int(at.max()) < n)
    return found


def _expect(what: str, expected: object, got: object) -> None:
    if expected != got:
        raise DamagedError(f"expected {what} {expected}, got {got}")


def trimmed(batch: RecordBatch, skip: int) -> RecordBatch:
    """Return ``batch`` without its first ``skip`` records."""
    columns = {name: _skip(column, skip) for name, column in batch.columns.items()}
    return RecordBatch(
        batch.writer,
        batch.arrival,
        batch.seq + skip,
        batch.n - skip,
        batch.step[skip:],
        batch.time_ns[skip:],
        {name: column for name, column in columns.items() if len(column.v)},
    )


def _column(column: Column) -> bytes | Sparse:
    values = column.v.astype("<f8", copy=False).tobytes()
    return values if column.at is None else Sparse(column.at.astype("<u4", copy=False).tobytes(), values)


def _skip(column: Column, skip: int) -> Column:
    if column.at is None:
        return Column(column.v[skip:])
    kept = column.at >= skip
    return Column(column.v[kept], (column.at[kept] - np.uint32(skip)).astype(np.uint32))
