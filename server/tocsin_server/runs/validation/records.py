"""Validate records: turn the columns of a message into a batch of NumPy arrays."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tocsin.protocol import MOST_STEP, Records, Refused, Sparse
from tocsin_server.core.models import I64, Column, RecordBatch, Writer
from tocsin_server.runs.validation.limits import HIGHEST, MOST_RECORDS, Limits
from tocsin_server.runs.validation.names import PLAIN_NAME, is_name, shown

ALWAYS_TAKEN = frozenset(("loss", "grad_norm", "scale", "lr", "skipped", "step_time"))
"""Series that most rules judge. A run may have them beyond its limit, whatever it has logged before."""
MOST_SENTENCES = 8
"""Rejections reported per message; the last one counts the others."""
SHORT = 64
"""Up to this many numbers, a plain loop is faster than NumPy."""


@dataclass(frozen=True, slots=True)
class Position:
    """The state that validation depends on besides the message: its writer and the series of its run."""

    writer: Writer
    arrival: int
    """Number that the next batch of the run gets."""
    seq: int
    """Highest record number accepted from the writer."""
    event: int
    """Highest event number accepted from the writer."""
    offset_ns: int
    """Added to the client's times to get the server's."""
    series: Collection[str]
    """Series that the run already has; new ones count towards the limit."""


@dataclass(frozen=True, slots=True)
class ValidatedRecords:
    """The valid part of a ``records`` message as a batch, which may be empty, and the rejections.

    ``last_seq`` is the highest number in the message, rejected records included; None if the message does not
    have valid numbers.
    """

    batch: RecordBatch
    last_seq: int | None
    rejected: tuple[Refused, ...] = ()


def read_records(message: Records, position: Position, limits: Limits) -> ValidatedRecords:
    """Return the records of ``message`` that its writer has not sent before."""
    wrong = _misshapen(message)
    if wrong is not None:
        countable = message.seq >= 0 and 0 < message.n <= MOST_RECORDS and message.seq < HIGHEST
        last = message.seq + message.n - 1 if countable else None
        return ValidatedRecords(_empty(position), last, (wrong,))
    last = message.seq + message.n - 1
    if last <= position.seq:
        return ValidatedRecords(_empty(position), last)
    columns, rejected = _read_columns(message, position.series, limits)
    step = np.frombuffer(message.step, "<i8")
    time_ns = np.frombuffer(message.t, "<i8") + position.offset_ns
    keep, out_of_range = _valid_rows(step, message.seq, position.seq)
    rejected += out_of_range
    writer, arrival = position.writer, position.arrival
    batch = RecordBatch(writer, arrival, message.seq, message.n, step, time_ns, columns)
    return ValidatedRecords(_kept(batch, keep), last, tuple(rejected))


def _empty(position: Position) -> RecordBatch:
    none = np.empty(0, np.int64)
    return RecordBatch(position.writer, position.arrival, max(position.seq + 1, 0), 0, none, none, {})


def _misshapen(message: Records) -> Refused | None:
    """Reject a message whose numbers, steps and times are inconsistent."""
    n, seq = message.n, message.seq
    if not (0 <= seq < HIGHEST and 0 < n <= MOST_RECORDS):
        expected = f"seq from 0 and n from 1 to {MOST_RECORDS}"
        return Refused("records", "bad-batch", expected, f"seq {seq} and n {n}")
    for name, body in (("step", message.step), ("t", message.t)):
        if len(body) != 8 * n:
            return Refused("records", "bad-batch", f"{name} of {8 * n} bytes", f"{len(body)} bytes", seq)
    earliest, newest = _ends(np.frombuffer(message.t, "<i8"))
    if earliest < 0 or newest >= HIGHEST:
        return Refused("records", "bad-batch", "times in Unix ns", f"{earliest} to {newest}", seq)
    return None


def _ends(numbers: I64) -> tuple[int, int]:
    """Return the lowest and highest of ``numbers`` [n], n > 0."""
    if numbers.size <= SHORT:
        few = numbers.tolist()
        return min(few), max(few)
    return int(np.minimum.reduce(numbers)), int(np.maximum.reduce(numbers))


def _read_columns(
    message: Records, known: Collection[str], limits: Limits
) -> tuple[dict[str, Column], list[Refused]]:
    columns: dict[str, Column] = {}
    rejections: list[Refused] = []
    invalid, room = 0, limits.series - len(known)
    left_out: list[str] = []
    for name, body in message.cols.items():
        new = name not in known
        is_named = not new or is_name(name, limits.name_bytes)
        read = _read_column(body, message.n) if is_named else None
        if not isinstance(read, Column):
            invalid += 1
            if invalid <= MOST_SENTENCES:
                rejections.append(
                    _bad_name(name, message, limits)
                    if read is None
                    else _bad_column(name, body, message, read)
                )
        elif new and room <= 0 and name not in ALWAYS_TAKEN:
            left_out.append(name)
        else:
            room -= new
            columns[name] = read
    rejected = _few(rejections, invalid, message.seq)
    if left_out:
        rejected.append(_too_many(left_out, limits, message.seq))
    return columns, rejected


def _few(rejections: list[Refused], count: int, seq: int) -> list[Refused]:
    """Return the first few of ``count`` rejections, and one that counts the others."""
    rest = count - len(rejections)
    if not rest:
        return rejections
    more = Refused(
        "series", "bad-column", "columns as in docs/internals/protocol.md", f"{rest} more invalid ones", seq
    )
    return [*rejections, more]


def _too_many(left_out: list[str], limits: Limits, seq: int) -> Refused:
    names = ", ".join(map(shown, left_out[:MOST_SENTENCES]))
    more = ", ..." if len(left_out) > MOST_SENTENCES else ""
    got = f"{len(left_out)} more, which were left out: {names}{more}"
    return Refused("series", "too-many-series", f"at most {limits.series} series per run", got, seq)


def _bad_name(name: str, message: Records, limits: Limits) -> Refused:
    return Refused("series", "bad-column", PLAIN_NAME.format(limits.name_bytes), shown(name), message.seq)


def _bad_column(name: str, body: bytes | Sparse, message: Records, expected: str) -> Refused:
    if isinstance(body, Sparse):
        got = f"{shown(name)} with {len(body.at)} bytes of at, {len(body.v)} of v, n {message.n}"
    else:
        got = f"{shown(name)} of {len(body)} bytes, n {message.n}"
    return Refused("series", "bad-column", expected, got, message.seq)


def _read_column(body: bytes | Sparse, n: int) -> Column | str:
    """Return the column, or what was expected."""
    if isinstance(body, bytes):
        return Column(np.frombuffer(body, "<f8")) if len(body) == 8 * n else f"f64le[n], {8 * n} bytes"
    if len(body.at) % 4 or len(body.v) != 2 * len(body.at):
        return "at u32le[k] and v f64le[k]"
    at = np.frombuffer(body.at, "<u4")
    if at.size and (int(at[-1]) >= n or bool((at[1:] <= at[:-1]).any())):
        return f"at ascending and below n, {n}"
    return Column(np.frombuffer(body.v, "<f8"), at)


def _valid_rows(step: I64, seq: int, after: int) -> tuple[NDArray[np.bool_] | None, list[Refused]]:
    """Return which rows [n] are new and have steps from 0 to 2^53 (None: all), and the rejections."""
    lowest, highest = _ends(step)
    if seq > after and lowest >= 0 and highest <= MOST_STEP:
        return None, []
    keep = np.arange(seq, seq + step.size) > after
    negative, large = keep & (step < 0), keep & (step > MOST_STEP)
    rejected = []
    if negative.any():
        got = f"{int(negative.sum())} records with negative steps, the lowest {int(step[negative].min())}"
        rejected.append(Refused("records", "negative-step", "steps from 0", got, seq))
    if large.any():
        got = f"{int(large.sum())} records with larger steps, the highest {int(step[large].max())}"
        rejected.append(Refused("records", "step-too-large", f"steps up to 2^53 ({MOST_STEP})", got, seq))
    return keep & ~negative & ~large, rejected


def _kept(batch: RecordBatch, keep: NDArray[np.bool_] | None) -> RecordBatch:
    """Return the rows ``keep`` [n] of ``batch``; None means all."""
    if keep is None or keep.all():
        return batch
    rows, place = np.flatnonzero(keep), np.cumsum(keep) - 1
    kept = {name: column.where(keep, place) for name, column in batch.columns.items()}
    columns = kept if rows.size else {}
    # Records after a rejected one move up; their numbers stay within the range of this message.
    seq = batch.seq + int(rows[0]) if rows.size else batch.seq + batch.n
    return replace(
        batch, seq=seq, n=int(rows.size), step=batch.step[rows], time_ns=batch.time_ns[rows], columns=columns
    )
