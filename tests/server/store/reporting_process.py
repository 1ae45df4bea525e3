"""Store records until the process is killed, and print what was acknowledged.

Run by ``test_kill.py``: ``python reporting_process.py DATABASE_URL``.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable

import numpy as np

from tocsin.protocol import Hello, WriterId
from tocsin_server.core.models import Column, RecordBatch, RunEvent, WriteBatch, Writer
from tocsin_server.store.database import open_database
from tocsin_server.store.registration import Registered, register
from tocsin_server.store.writer import StoreWriter

IN_FLIGHT = 50


def hello(rank: int) -> Hello:
    """Return the hello of the same process every time, so that it resumes."""
    who = WriterId("a1", rank, "boot", 1 + rank, 1)
    return Hello(1, "t", "p", "n", "r1", who, 2, "node", 1)


def records(who: Writer, seq: int, n: int) -> RecordBatch:
    """Return records whose values follow from their numbers."""
    step = np.arange(seq, seq + n, dtype=np.int64)
    return RecordBatch(who, 2 * seq + who.rank, seq, n, step, step * 10, {"loss": Column(np.sqrt(step))})


def report(store: StoreWriter, rank: int) -> None:
    """Store one rank's records and events indefinitely; a bounded number of batches waits."""
    found: Registered = store.call(lambda connection: register(connection, hello(rank), 1)).result()
    who, seq, no = found.writer, found.last_seq + 1, found.last_event + 1
    room = threading.Semaphore(IN_FLIGHT)
    while True:
        n = 1 + (seq * 7919) % 120
        room.acquire()
        store.submit(
            WriteBatch("r1", batch=records(who, seq, n), done=announce(f"{rank} {seq + n - 1}", room))
        )
        room.acquire()
        event = RunEvent(who, 10**9 + 2 * no + rank, no, "checkpoint", 5, seq)
        store.submit(WriteBatch("r1", event=event, done=announce(f"event{rank} {no}", room)))
        seq, no = seq + n, no + 1


def announce(line: str, room: threading.Semaphore) -> Callable[[], None]:
    """Return a done callback that notifies the parent immediately."""

    def done() -> None:
        os.write(1, f"{line}\n".encode())
        room.release()

    return done


def main() -> None:
    """Let two ranks report until the process is killed."""
    store = StoreWriter(open_database(sys.argv[1]), interval_s=0.01, pack_after_s=0.02)
    store.start()
    ranks = [threading.Thread(target=report, args=(store, rank), daemon=True) for rank in (0, 1)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()


if __name__ == "__main__":
    main()
