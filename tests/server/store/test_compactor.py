"""Sealed data equals what was sent, and is removed from the tail."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sqlalchemy import func, select

from tests.server.store.conftest import batch, sealed
from tocsin_server.core.models import RecordBatch, Writer
from tocsin_server.store.chunks import RECORDS, rows_of
from tocsin_server.store.database import Database
from tocsin_server.store.reader import StoreReader
from tocsin_server.store.tables import chunk_dir, tail

ODD = np.array(
    [0x7FF0000000000001, 0xFFF8000000000123, 0x8000000000000000, 1, 0x7FF0000000000000, 0x3FB999999999999A],
    dtype=np.uint64,
).view(np.float64)
"""A signalling NaN, a negative NaN with a payload, -0.0, the smallest subnormal, +Inf, 0.1."""


def long_run(who: Writer, n: int, size: int) -> list[RecordBatch]:
    """Return ``n`` records in batches of ``size``, steps out of order and repeated, all kinds of values."""
    random = np.random.default_rng(7)
    out = []
    for seq in range(0, n, size):
        k = min(size, n - seq)
        steps = (np.arange(seq, seq + k) - random.integers(0, 3, k)).clip(0).tolist()
        loss = random.normal(size=k)
        loss[:: max(1, k // 3)] = random.choice(ODD, len(loss[:: max(1, k // 3)]))
        rows = np.flatnonzero(random.random(k) < 0.1)
        out.append(
            batch(who, seq, steps, loss=loss, lr=np.full(k, 0.5), val=(rows, random.choice(ODD, len(rows))))
        )
    return out


def bits(values: Any) -> list[int]:
    """Return the values as integers, so that NaNs can be compared."""
    return [int(word) for word in np.asarray(values, dtype=np.float64).view(np.uint64)]


@pytest.mark.parametrize("size", [7, 500, 5000])
def test_what_was_sent_is_read_back_bit_for_bit(database: Database, admit: Any, put: Any, size: int) -> None:
    """Sealed and unsealed, sparse and dense, unusual NaNs and repeated steps: records equal the batches."""
    who = admit().writer
    sent = long_run(who, 2 * RECORDS + 1000, size)
    put(*sent)
    sealed(database, 2)
    page = StoreReader(database).records("r1", limit=100_000)
    assert page.step.tolist() == np.concatenate([b.step for b in sent]).tolist()
    assert page.time_ns.tolist() == np.concatenate([b.time_ns for b in sent]).tolist()
    assert page.seq.tolist() == list(range(page.n))
    assert bits(page.columns["loss"].v) == bits(np.concatenate([b.columns["loss"].v for b in sent]))
    assert bits(page.columns["val"].v) == bits(np.concatenate([b.columns["val"].v for b in sent]))
    rows = np.concatenate([rows_of(b.columns["val"], b.n) + b.seq for b in sent])
    assert rows_of(page.columns["val"], page.n).tolist() == rows.tolist()


def test_recovery_returns_every_batch_unchanged(database: Database, admit: Any, put: Any) -> None:
    """Batches are returned by arrival wherever they are stored; those across a chunk boundary are whole."""
    who = admit().writer
    sent = long_run(who, 2 * RECORDS + 1000, 500)
    put(*sent)
    sealed(database, 2)
    replay = [b for b in StoreReader(database).recovery("r1").replay if isinstance(b, RecordBatch)]
    assert [(b.arrival, b.seq, b.n) for b in replay] == [(b.arrival, b.seq, b.n) for b in sent]
    for mine, theirs in zip(replay, sent, strict=True):
        assert bits(mine.columns["loss"].v) == bits(theirs.columns["loss"].v)
        assert bits(mine.columns["val"].v) == bits(theirs.columns["val"].v)


def test_the_tail_is_deleted_once_sealed(database: Database, admit: Any, put: Any) -> None:
    """After sealing, the tail has only what no chunk covers."""
    who = admit().writer
    put(*long_run(who, RECORDS + 100, 500))
    sealed(database, 1)
    with database.reader.connect() as connection:
        assert connection.execute(select(func.sum(tail.c.n))).scalar() == RECORDS + 100 - 8 * 500
        assert connection.execute(select(chunk_dir.c.seq0, chunk_dir.c.seq1)).one() == (0, RECORDS - 1)


def test_a_resend_after_sealing_is_applied_once(database: Database, admit: Any, put: Any) -> None:
    """The tail's key does not know sealed records; the writer's high-water mark does."""
    who = admit().writer
    sent = long_run(who, RECORDS + 100, 500)
    put(*sent)
    sealed(database, 1)
    put(*sent)
    assert admit().last_seq == RECORDS + 99
    assert StoreReader(database).records("r1", limit=100_000).n == RECORDS + 100


def test_gaps_in_record_numbers_survive_sealing(database: Database, admit: Any, put: Any) -> None:
    """If the client dropped records, the gap is there before and after sealing."""
    who = admit().writer
    put(batch(who, 0, list(range(100)), loss=np.zeros(100)))
    put(batch(who, 500, list(range(500, 500 + RECORDS)), arrival=1, loss=np.zeros(RECORDS)))
    sealed(database, 1)
    seq = StoreReader(database).records("r1", limit=100_000).seq
    assert seq.tolist() == [*range(100), *range(500, 500 + RECORDS)]
