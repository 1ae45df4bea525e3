"""Estimate the memory that data occupies; every bounded queue of the server counts it. Pure functions.

The estimates are for 64-bit CPython, within a factor of two of what ``tracemalloc`` measures
(``tests/server/core/test_memory_size.py``). External data can occupy many times its length on the wire:
an empty list is one byte of msgpack and 64 bytes of memory.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

import numpy as np

from tocsin_server.core.models import RecordBatch, RunEvent, WriteBatch, Writer

FIXED = 600
"""Bytes of a batch, an event or a write batch without its contents: the object and its queue entry."""
COLUMN, INDEX = 200, 150
"""Bytes of a column without its name and values, and of its index if some records have no value."""
ATOMS = frozenset({str, bytes, int, float})
SHARED = (bool, type(None), Enum, type, Writer)
"""Types whose instances are shared and therefore not counted."""


def size_of(value: object) -> int:
    """Return the bytes of memory of ``value`` and everything it refers to."""
    waiting: list[Any] = [value]
    total, measured = 0, sys.getsizeof
    while waiting:
        one = waiting.pop()
        kind = type(one)
        if kind in ATOMS:
            total += measured(one)
        elif kind is dict:
            total += measured(one)
            if one:
                waiting += one
                waiting += one.values()
        elif kind is list or kind is tuple:
            total += measured(one)
            waiting += one
        elif not isinstance(one, SHARED):
            total += measured(one)
            waiting += _held(one)
    return total


def _held(value: object) -> Iterable[object]:
    """Return the objects that an object of a less common type refers to."""
    if isinstance(value, Mapping):
        return [*value.keys(), *value.values()]
    if isinstance(value, (list, tuple, set, frozenset)):
        return value
    if isinstance(value, (str, bytes, int, float, np.ndarray)):
        return ()
    return [getattr(value, name) for name in getattr(value, "__slots__", ())]


def size_of_batch(batch: RecordBatch) -> int:
    """Return the bytes of memory of a batch of records."""
    total = FIXED + batch.step.nbytes + batch.time_ns.nbytes
    for name, column in batch.columns.items():
        total += COLUMN + len(name) + column.v.nbytes
        if column.at is not None:
            total += INDEX + column.at.nbytes
    return total


def size_of_event(event: RunEvent) -> int:
    """Return the bytes of memory of an event."""
    return FIXED + (event.size or size_of(event.data))


def size_of_write_batch(write: WriteBatch) -> int:
    """Return the bytes of memory of a write batch while it is queued."""
    total = FIXED
    if write.batch is not None:
        total += size_of_batch(write.batch)
    if write.event is not None:
        total += size_of_event(write.event)
    if write.rule_state is not None:
        total += len(write.rule_state.body)
    if write.changes:
        total += size_of(write.changes)
    if write.transitions:
        total += size_of(write.transitions)
    return total
