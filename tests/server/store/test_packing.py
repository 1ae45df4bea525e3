"""A tail that is too short for a chunk is compressed, and nothing that reads it notices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sqlalchemy import func, select

from tests.server.store.conftest import batch, sealed
from tests.server.store.test_compactor import bits, long_run
from tocsin_server.core.models import RecordBatch, RunState, WriteBatch, Writer
from tocsin_server.store import compaction_schedule, replay
from tocsin_server.store.chunks import RECORDS
from tocsin_server.store.compactor import pack_tail, pack_whole_tail
from tocsin_server.store.database import Database
from tocsin_server.store.reader import StoreReader
from tocsin_server.store.tables import packed, tail
from tocsin_server.store.writer import StoreWriter

Pack = Callable[..., int]


@pytest.fixture
def pack(store: StoreWriter) -> Pack:
    """Pack the tail of a writer of ``r1``."""

    def pack_now(work: Any = pack_tail, writer_no: int = 0) -> int:
        return int(store.call(lambda connection: work(connection, "r1", writer_no)).result(60))

    return pack_now


def rows(database: Database) -> list[tuple[int, int]]:
    """Return (first record number, records) of each packed row."""
    with database.reader.connect() as connection:
        return [tuple(row) for row in connection.execute(select(packed.c.seq, packed.c.n).order_by("seq"))]


def waiting(database: Database) -> int:
    """Return the number of batches in the tail."""
    with database.reader.connect() as connection:
        return int(connection.execute(select(func.count()).select_from(tail)).scalar_one())


def test_packed_records_are_read_back_bit_for_bit(
    database: Database, admit: Any, put: Any, pack: Pack
) -> None:
    """Packed, packed again, in a chunk and in the rest of a batch after it: pages and batches are as sent."""
    who, reader = admit().writer, StoreReader(database)
    sent = long_run(who, 2 * RECORDS + 700, 61)
    for some in np.array_split(np.arange(len(sent)), 9):
        put(*(sent[no] for no in some))
        pack()
    sealed(database, 2)
    pack(pack_whole_tail)
    assert (rows(database), waiting(database)) == ([(2 * RECORDS, 700)], 0)
    page = reader.records("r1", limit=100_000)
    for name in ("loss", "val"):
        assert bits(page.columns[name].v) == bits(np.concatenate([b.columns[name].v for b in sent]))
    assert page.step.tolist() == np.concatenate([b.step for b in sent]).tolist()
    assert page.seq.tolist() == list(range(2 * RECORDS + 700))
    again = [b for b in reader.recovery("r1").replay if isinstance(b, RecordBatch)]
    assert [(b.arrival, b.seq, b.n) for b in again] == [(b.arrival, b.seq, b.n) for b in sent]


def test_a_delta_of_packed_records_begins_at_the_cursor(
    database: Database, admit: Any, put: Any, pack: Pack
) -> None:
    """A packed row has the arrival of its newest batch; older ones in it are not sent again."""
    who = admit().writer
    put(*(batch(who, seq, list(range(seq, seq + 10)), loss=np.ones(10)) for seq in range(0, 100, 10)))
    pack()
    delta = StoreReader(database).since("r1", ["loss"], cursor=70)
    assert delta is not None
    assert delta.series["loss"][0].x.tolist() == list(range(80, 100))


def test_packing_meanwhile_changes_nothing(
    database: Database, admit: Any, put: Any, pack: Pack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replay that has read some of the batches reads the others from the packed row."""
    monkeypatch.setattr(replay, "TAIL_ROWS", 2)
    who = admit().writer
    put(*(batch(who, seq, list(range(seq, seq + 10)), loss=np.ones(10)) for seq in range(0, 100, 10)))
    way = iter(replay.replayed(database.reader, "r1", -1, 10**9))
    reported = [next(way)]
    pack()
    reported += way
    assert [(one.seq, one.n) for one in reported if isinstance(one, RecordBatch)] == [
        (seq, 10) for seq in range(0, 100, 10)
    ]


def test_a_resend_after_packing_is_applied_once(database: Database, admit: Any, put: Any, pack: Pack) -> None:
    """Also for a server that has just started and knows the last record number only from the row."""
    sent = long_run(admit().writer, 200, 50)
    put(*sent)
    pack()
    again = StoreWriter(database, interval_s=0.005)
    again.start()
    for one in sent:
        again.submit(WriteBatch("r1", batch=one))
    again.stop(10)
    assert admit().last_seq == 199
    assert StoreReader(database).records("r1", limit=1000).n == 200


def test_a_gap_in_record_numbers_begins_another_row(
    database: Database, admit: Any, put: Any, pack: Pack
) -> None:
    """A row stands for consecutive numbers, from which the next expected one is derived."""
    who = admit().writer
    put(batch(who, 0, [0, 1], loss=[1, 2]), batch(who, 50, [50], loss=[3]), batch(who, 51, [51], loss=[4]))
    pack()
    assert rows(database) == [(0, 2), (50, 2)]
    assert StoreReader(database).records("r1", limit=9).seq.tolist() == [0, 1, 50, 51]


def test_a_slow_run_is_rewritten_rarely(database: Database, admit: Any, put: Any, pack: Pack) -> None:
    """With 64 new records each time: at most 7 rows, and each record is rewritten at most 6 times."""
    who, written, most = admit().writer, 0, 0
    for seq in range(0, RECORDS - 64, 64):
        put(batch(who, seq, list(range(seq, seq + 64)), loss=np.ones(64)))
        pack()
        found = rows(database)
        written += found[-1][1]
        most = max(most, len(found))
    assert most <= 7
    assert written <= (1 + 6) * RECORDS


def all_packed(database: Database, records: int) -> bool:
    """Return whether that many records are packed, and none are in the tail."""
    return (sum(n for _, n in rows(database)), waiting(database)) == (records, 0)


def test_the_tail_of_a_run_that_ended_is_packed(
    database: Database, admit: Any, put: Any, store: StoreWriter, monkeypatch: Any, eventually: Any
) -> None:
    """Soon after its end, however short it is."""
    monkeypatch.setattr(compaction_schedule, "OVER_S", 0.0)
    put(*long_run(admit().writer, 50, 7))
    assert (rows(database), waiting(database)) == ([], 8)
    store.submit(WriteBatch("r1", changes={"state": RunState.FINISHED}))
    eventually(lambda: all_packed(database, 50), "the tail to be packed")


def test_a_tail_that_waited_is_packed(database: Database, admit: Any, put: Any, eventually: Any) -> None:
    """Also one of an earlier process, of a run that is still live, after a restart."""
    put(*long_run(admit().writer, 200, 7))
    again = StoreWriter(database, interval_s=0.005, pack_after_s=0.001)
    again.start()
    eventually(lambda: all_packed(database, 200), "the tail to be packed")
    again.stop(10)


def test_a_tail_of_a_run_that_ended_before_a_restart_is_packed(
    database: Database, admit: Any, put: Any, store: StoreWriter, monkeypatch: Any, eventually: Any
) -> None:
    """The server was stopped before it was due; there are too few records to pack them by age."""
    monkeypatch.setattr(compaction_schedule, "OVER_S", 0.0)
    put(*long_run(admit().writer, 20, 7))
    store.stop(10)
    with database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE run SET state = 'lost'")
    again = StoreWriter(database, interval_s=0.005)
    again.start()
    eventually(lambda: all_packed(database, 20), "the tail to be packed")
    again.stop(10)


@pytest.mark.parametrize("steps", [50, 200, 3000])
def test_a_short_run_takes_four_bytes_a_point(
    database: Database, admit: Any, put: Any, pack: Pack, steps: int
) -> None:
    """Four float32 series at jittering times; its packed rows are all that its records take."""
    random, who = np.random.default_rng(1), admit().writer
    noise = random.normal(size=(2, steps)).astype(np.float32)
    times = 10**18 + np.cumsum(random.normal(3e7, 3e5, steps)).astype(np.int64)
    for at in np.array_split(np.arange(steps), -(-steps // 7)):
        columns = {"loss": noise[0, at], "norm": noise[1, at], "lr": at * 0 + 0.5, "scale": at * 0 + 2.0}
        made = batch(who, int(at[0]), at.tolist(), **columns)
        put(RecordBatch(who, made.arrival, made.seq, made.n, made.step, times[at], made.columns))
    pack(pack_whole_tail)
    with database.reader.connect() as connection:
        assert (
            connection.execute(select(func.sum(func.length(packed.c.body) + 100))).scalar_one()
            <= 4 * 4 * steps
        )


def test_a_full_chunk_is_sealed_before_the_rest_is_packed(
    database: Database, admit: Any, put: Any, pack: Pack
) -> None:
    """A packed row never grows beyond a chunk, also if the records were not counted yet."""
    who: Writer = admit().writer
    put(*long_run(who, RECORDS - 1, 100))
    assert pack(pack_whole_tail) == RECORDS - 1
    put(*(batch(who, seq, [seq], loss=[1.0]) for seq in range(RECORDS - 1, RECORDS + 5)))
    sealed(database, 1)
    assert pack(pack_whole_tail) == 5
