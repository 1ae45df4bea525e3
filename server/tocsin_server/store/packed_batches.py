"""The body of a tail row that holds many batches: columns of less than a chunk, compressed together.

A run that ends before a chunk is full, and the older records of a slow one, are stored like this. Each row,
key and checksum of a chunk's columns would take more space than the values of a short run, and
its pyramid would be of no use: a tail is always read exactly. Pure functions.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec
import numpy as np

from tocsin_server.core.errors import DamagedError
from tocsin_server.store import chunks
from tocsin_server.store.arrays import Points


class Packed(msgspec.Struct, array_like=True, frozen=True):
    """Consecutive records: numbers as ``chunks.int_bytes``, series by number as ``chunks.float_bytes``."""

    step: bytes
    t: bytes
    arrival: bytes
    cols: dict[int, tuple[int, bytes]]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Packed)


def pack(points: Points) -> bytes:
    """Return records with consecutive numbers as one tail body."""
    step, t, arrival = map(chunks.int_bytes, (points.step, points.time_ns, points.arrival))
    columns = {col: chunks.float_bytes(column, points.n) for col, column in points.columns.items()}
    return chunks.compress_together(_encoder.encode(Packed(step, t, arrival, columns)))


def unpack(body: bytes, seq: int, n: int, wanted: Collection[int] | None = None) -> Points:
    """Return the ``n`` records from ``seq`` of a packed body, with the ``wanted`` columns (None: all).

    Raises:
        DamagedError: ``body`` cannot be decoded, or it holds another number of records.
    """
    try:
        found = _decoder.decode(chunks.expand(body))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedError(str(error)) from error
    step, t, arrival = (chunks.ints_of(raw) for raw in (found.step, found.t, found.arrival))
    columns = {
        col: chunks.floats_of(codec, raw, n)
        for col, (codec, raw) in found.cols.items()
        if wanted is None or col in wanted
    }
    sizes = {len(step), len(t), len(arrival), *(len(c.v) for c in columns.values() if c.at is None)}
    if sizes != {n} or any(len(c.at) != len(c.v) for c in columns.values() if c.at is not None):
        raise DamagedError(f"expected {n} records, got columns of {sorted(sizes)}")
    return Points(np.arange(seq, seq + n, dtype=np.int64), arrival, step, t, columns)
