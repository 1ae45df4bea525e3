"""Codec of sealed columns: lossless, 2 to 6 bytes per value. Pure functions.

Floats are stored as float32 if that preserves every bit, as whole numbers if all were printed with the same
number of decimal places (ALP, https://doi.org/10.1145/3626717), otherwise as float64; steps, times, arrivals
and record numbers as differences. Bytes are shuffled (all first bytes, all second bytes, ...) before zstd
level 1, because that makes floats compressible. A column without values in some records starts with a
presence bitmap: missing is not NaN.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import zstandard
from numpy.typing import NDArray

from tocsin_server.core.errors import DamagedError
from tocsin_server.core.models import F64, I64, U32, Column

RECORDS = 4096
"""Records of one writer in a chunk. More saves little space per point (docs/internals/storage.md)."""

FLOAT32, SPARSE, DELTA, DECIMAL = 1, 2, 4, 8
"""Bits of the codec number."""

LEVEL, LEVEL_TOGETHER = 1, 3
TENS: F64 = np.array([10.0**places for places in range(16)])
"""Powers of ten that a float64 represents exactly."""
SAMPLE = 16
"""Number of values at which it is seen that a column has no decimals."""
_local = threading.local()


def compress(raw: bytes) -> bytes:
    """Return ``raw`` compressed by zstd with a 4-byte checksum of the content.

    There is one compressor per thread, because it is not thread-safe.
    """
    if not hasattr(_local, "packer"):
        _local.packer = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True)
    packed: bytes = _local.packer.compress(raw)
    return packed


def compress_together(raw: bytes) -> bytes:
    """Return several short columns compressed at a higher level, which saves 4 % of them."""
    if not hasattr(_local, "together"):
        _local.together = zstandard.ZstdCompressor(level=LEVEL_TOGETHER, write_checksum=True)
    packed: bytes = _local.together.compress(raw)
    return packed


def expand(body: bytes) -> bytes:
    """Return ``body`` decompressed; bodies of older versions without a checksum are accepted.

    Raises:
        DamagedError: ``body`` is damaged.
    """
    if not hasattr(_local, "unpacker"):
        _local.unpacker = zstandard.ZstdDecompressor()
    try:
        raw: bytes = _local.unpacker.decompress(body)
    except zstandard.ZstdError as error:
        raise DamagedError(str(error)) from error
    return raw


def shuffle(values: NDArray[Any]) -> bytes:
    """Return the bytes of ``values`` [k], transposed: byte 0 of all, then byte 1 of all, ..."""
    width = values.dtype.itemsize
    return np.ascontiguousarray(values).view(np.uint8).reshape(-1, width).T.tobytes()


def unshuffle(raw: bytes | memoryview, dtype: str) -> NDArray[Any]:
    """Reverse :func:`shuffle`; return a new array [k] of ``dtype``."""
    width = np.dtype(dtype).itemsize
    planes = np.frombuffer(raw, dtype=np.uint8).reshape(width, -1)
    return np.ascontiguousarray(planes.T).reshape(-1).view(dtype)


def narrow(values: F64) -> NDArray[np.float32] | None:
    """Return ``values`` as float32 if that preserves every bit, including NaN payloads; else None."""
    with np.errstate(all="ignore"):
        small = values.astype("<f4")
        exact = np.array_equal(small.astype("<f8").view(np.uint64), values.view(np.uint64))
    return small if exact else None


def decimals(values: F64) -> tuple[int, I64] | None:
    """Return (places, integers [n]) if each value is exactly its integer / 10**places; else None."""
    sample = values[:: max(1, len(values) // SAMPLE), None]
    for places in np.flatnonzero(_are_decimals(sample, TENS)):
        if _are_decimals(values[:, None], TENS[places : places + 1]).all():
            return int(places), np.rint(values * TENS[places]).astype(np.int64)
    return None


def _are_decimals(values: F64, tens: F64) -> NDArray[np.bool_]:
    """Return for each of ``tens`` [k] whether all ``values`` [n, 1] are an integer divided by it."""
    with np.errstate(all="ignore"):
        scaled = np.rint(values * tens)
        back = np.where(np.abs(scaled) < 2.0**53, scaled, 0.0).astype(np.int64) / tens
    return np.asarray((back.view(np.uint64) == values.view(np.uint64)).all(axis=0), np.bool_)


def float_bytes(column: Column, rows: int) -> tuple[int, bytes]:
    """Return (codec, bytes) of a column over ``rows`` records, not compressed yet."""
    values = np.ascontiguousarray(column.v, dtype="<f8")
    small = narrow(values)
    found = None if small is not None else decimals(values)
    if found is not None:
        codec, raw = DECIMAL, bytes([found[0]]) + shuffle(found[1])
    else:
        codec, raw = (0, shuffle(values)) if small is None else (FLOAT32, shuffle(small))
    if column.at is None or len(column.at) == rows:
        return codec, raw
    present = np.zeros(rows, dtype=np.bool_)
    present[column.at] = True
    return codec | SPARSE, np.packbits(present).tobytes() + raw


def floats_of(codec: int, body: bytes, rows: int) -> Column:
    """Reverse :func:`float_bytes`."""
    raw, at = memoryview(body), None
    if codec & SPARSE:
        bitmap = (rows + 7) // 8
        present = np.unpackbits(np.frombuffer(raw[:bitmap], dtype=np.uint8), count=rows)
        at, raw = np.flatnonzero(present).astype(np.uint32), raw[bitmap:]
    if codec & DECIMAL:
        return Column(unshuffle(raw[1:], "<i8") / TENS[raw[0]], at)
    if not codec & FLOAT32:
        return Column(unshuffle(raw, "<f8"), at)
    with np.errstate(all="ignore"):
        return Column(unshuffle(raw, "<f4").astype(np.float64), at)


def encode_floats(column: Column, rows: int) -> tuple[int, bytes]:
    """Return (codec, body) of a column over ``rows`` records."""
    codec, raw = float_bytes(column, rows)
    return codec, compress(raw)


def decode_floats(codec: int, body: bytes, rows: int) -> Column:
    """Reverse :func:`encode_floats`."""
    return floats_of(codec, expand(body), rows)


def int_bytes(values: I64) -> bytes:
    """Return integers [n] as differences that wrap at 64 bits, not compressed yet."""
    return shuffle(np.diff(values.astype("<i8"), prepend=np.int64(0)))


def ints_of(raw: bytes) -> I64:
    """Reverse :func:`int_bytes`."""
    return np.cumsum(unshuffle(raw, "<i8"), dtype=np.int64)


def encode_ints(values: I64) -> tuple[int, bytes]:
    """Return (codec, body) of integers [n]."""
    return DELTA, compress(int_bytes(values))


def decode_ints(body: bytes) -> I64:
    """Reverse :func:`encode_ints`."""
    return ints_of(expand(body))


def rows_of(column: Column, rows: int) -> U32:
    """Return the rows that have a value, also for a dense column."""
    return np.arange(rows, dtype=np.uint32) if column.at is None else column.at
