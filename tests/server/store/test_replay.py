"""A long run is evaluated again page by page, in whole batches in order of arrival."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.server.store.conftest import batch, sealed
from tocsin_server.core.models import RecordBatch, RunEvent, WriteBatch
from tocsin_server.store import replay
from tocsin_server.store.chunks import RECORDS
from tocsin_server.store.database import Database
from tocsin_server.store.writer import StoreWriter


@pytest.mark.parametrize("size", [300, 5000])
def test_two_ranks_come_merged_and_whole(
    database: Database, admit: Any, put: Any, store: StoreWriter, monkeypatch: Any, size: int
) -> None:
    """Batches of both ranks and events between them, across chunks and pages, in order of acceptance."""
    monkeypatch.setattr(replay, "TAIL_ROWS", 2)
    monkeypatch.setattr(replay, "EVENTS", 2)
    writers = [admit(rank=rank, world_size=2).writer for rank in (0, 1)]
    sent: list[Any] = []
    for seq in range(0, RECORDS + 3 * size, size):
        for who in writers:
            sent.append(batch(who, seq, list(range(seq, seq + size)), len(sent), loss=np.arange(size) * 0.5))
            sent.append(RunEvent(who, len(sent), seq // size, "note", 1, seq))
    for one in sent:
        made = {"batch": one} if isinstance(one, RecordBatch) else {"event": one}
        store.submit(WriteBatch("r1", **made))
    store.call(lambda connection: None).result(60)
    sealed(database, 2 * (sum(b.n for b in sent if isinstance(b, RecordBatch)) // 2 // RECORDS))
    for after, upto in ((-1, len(sent)), (9, len(sent) - 5)):
        found = list(replay.replayed(database.reader, "r1", after, upto))
        wanted = [one for one in sent if after < one.arrival <= upto]
        assert [comparable(one) for one in found] == [comparable(one) for one in wanted]


def comparable(item: Any) -> tuple[Any, ...]:
    if isinstance(item, RunEvent):
        return ("event", item.arrival, item.no)
    return (item.arrival, item.writer.rank, item.seq, item.n, item.columns["loss"].v.tolist())


def test_sealing_meanwhile_changes_nothing(database: Database, admit: Any, put: Any) -> None:
    """What was in the tail when the replay started may be in a chunk when it is read."""
    who = admit().writer
    put(*(batch(who, seq, list(range(seq, seq + 100)), loss=np.ones(100)) for seq in range(0, 4000, 100)))
    way = iter(replay.replayed(database.reader, "r1", -1, 10**9))
    first = next(way)
    assert isinstance(first, RecordBatch)
    put(*(batch(who, seq, list(range(seq, seq + 100)), loss=np.ones(100)) for seq in range(4000, 9000, 100)))
    sealed(database, 2)
    reported = [first, *(one for one in way if isinstance(one, RecordBatch))]
    assert [(one.seq, one.n) for one in reported] == [(seq, 100) for seq in range(0, 9000, 100)]
