"""Bounded queues count the memory that data really uses, whatever its structure."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from tocsin import protocol
from tocsin_server.core.memory_size import size_of, size_of_batch, size_of_event, size_of_write_batch
from tocsin_server.core.models import RecordBatch, RunEvent, WriteBatch, Writer
from tocsin_server.runs.validation.limits import Limits
from tocsin_server.runs.validation.records import Position, read_records

WRITER = Writer("r", 0, 1, 0)
COPIES = 20


def held_by(make: Callable[[], object]) -> float:
    """Return the bytes of memory of one result of ``make``."""
    gc.collect()
    tracemalloc.start()
    kept = [make() for _ in range(COPIES)]
    gc.collect()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(kept) == COPIES
    return held / COPIES


@pytest.mark.parametrize(
    "data",
    [
        {"text": "x" * 60_000},
        {"lists": [[] for _ in range(20_000)]},
        {"maps": [{} for _ in range(20_000)]},
        {"numbers": [float(number) for number in range(5000)]},
        {f"name {number}": {"value": number} for number in range(500)},
    ],
    ids=["text", "lists", "maps", "numbers", "names"],
)
def test_an_event_counts_what_it_holds(data: dict[str, Any]) -> None:
    """Within a factor of two, also if it is seventy times the size on the wire."""
    frame = protocol.encode(protocol.Event(0, "note", 1, 1, data))

    def make() -> RunEvent:
        message = protocol.decode_client(frame)
        assert isinstance(message, protocol.Event)
        return RunEvent(WRITER, 1, 0, message.kind, 1, None, message.data)

    assert 0.5 < size_of_event(make()) / held_by(make) < 2.0


@pytest.mark.parametrize(("n", "columns"), [(1, 4), (1, 500), (50, 6), (1000, 100)])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_batch_counts_what_it_holds(
    make_records: Any, make_sparse: Any, n: int, columns: int, sparse: bool
) -> None:
    """Within a factor of two, also with many more columns than values."""
    values = make_sparse(range(n), [0.5] * n) if sparse else [0.5] * n
    message = make_records(0, range(n), **{f"a/name/{number:04d}": values for number in range(columns)})
    frame = protocol.encode(message)

    def make() -> RecordBatch:
        decoded = protocol.decode_client(frame)
        assert isinstance(decoded, protocol.Records)
        return read_records(decoded, Position(WRITER, 1, -1, -1, 1, ()), Limits()).batch

    assert 0.5 < size_of_batch(make()) / held_by(make) < 2.0


def test_an_intake_counts_all_that_it_carries() -> None:
    """The run's changes and its event are added, and what was measured is not traversed again."""
    event = RunEvent(WRITER, 1, 0, "note", 1, data={"text": "x" * 10_000}, size=50_000)
    write = WriteBatch("r", event=event, changes={"summary": {"text": "y" * 20_000}})
    assert 70_000 < size_of_write_batch(write) < 75_000


def test_a_message_of_the_protocol_counts_its_fields(make_hello: Any) -> None:
    """A hello includes its configuration."""
    assert 100_000 < size_of(make_hello("r", config={"text": "x" * 100_000})) < 110_000
