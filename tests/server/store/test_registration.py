"""A hello finds or creates run, attempt and writer."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select

from tocsin_server.store.database import Database
from tocsin_server.store.tables import attempt, run

SECOND = 1_000_000_000


def test_a_restart_is_a_new_attempt_of_the_same_run(admit: Any) -> None:
    """A new attempt key creates attempt 2; the first process is still attempt 1."""
    first, second = admit(attempt="a1"), admit(attempt="a2")
    assert (first.run_is_new, second.run_is_new) == (True, False)
    assert (first.writer.attempt_no, second.writer.attempt_no) == (1, 2)
    assert admit(attempt="a1").writer == first.writer


def test_ranks_of_one_launch_share_an_attempt(admit: Any) -> None:
    """Ranks with the same attempt key are writers of one attempt."""
    writers = [admit(rank=rank, world_size=4).writer for rank in range(4)]
    assert {w.attempt_no for w in writers} == {1}
    assert [w.writer_no for w in writers] == [0, 1, 2, 3]


def test_ranks_without_a_launch_join_by_rendezvous(admit: Any) -> None:
    """Equal address and world size, distinct ranks, within 120 s: one run, one attempt."""
    met = {"run": "", "rendezvous": "10.0.0.1:29500", "world_size": 2}
    zero = admit(rank=0, attempt="x", now_ns=0, **met)
    one = admit(rank=1, attempt="y", now_ns=119 * SECOND, **met)
    assert (one.writer.run_id, one.writer.attempt_no) == (zero.writer.run_id, 1)


def test_a_rank_that_comes_late_or_twice_opens_its_own_run(admit: Any) -> None:
    """After 120 s, or if the rank is taken, it gets a new run."""
    met = {"run": "", "rendezvous": "10.0.0.1:29500", "world_size": 2}
    zero = admit(rank=0, attempt="x", now_ns=0, **met)
    late = admit(rank=1, attempt="y", now_ns=121 * SECOND, **met)
    twice = admit(rank=1, attempt="z", now_ns=122 * SECOND, **met)
    assert len({r.writer.run_id for r in (zero, late, twice)}) == 3


def test_a_joined_rank_finds_itself_again(admit: Any) -> None:
    """A rank that joined without a run id reconnects as the same writer, at any time."""
    met = {"run": "", "rendezvous": "10.0.0.1:29500", "world_size": 2}
    admit(rank=0, attempt="x", now_ns=0, **met)
    one = admit(rank=1, attempt="y", now_ns=SECOND, **met)
    assert admit(rank=1, attempt="y", now_ns=900 * SECOND, **met).writer == one.writer


def test_a_restart_without_a_launch_continues_its_run(admit: Any) -> None:
    """A later restart of the same rendezvous is attempt 2 of the run, for any world size."""
    met = {"run": "", "rendezvous": "10.0.0.1:29500"}
    first = admit(rank=0, attempt="x", now_ns=0, world_size=4, **met)
    again = admit(rank=0, attempt="y", now_ns=9000 * SECOND, world_size=2, restarts=1, **met)
    assert (again.writer.run_id, again.writer.attempt_no) == (first.writer.run_id, 2)


def test_hello_describes_the_run(database: Database, admit: Any) -> None:
    """Configuration, tags and versions are stored, also with NaN and NUL in them."""
    admit(config={"lr": float("nan"), "raw": b"x"}, tags=["fp16"], notes="a\x00b", versions={"torch": "2"})
    with database.reader.connect() as connection:
        row = connection.execute(select(run)).one()
    assert row.config == {"lr": "NaN", "raw": "b'x'"}
    assert (row.tags, row.notes, row.environment["versions"]) == (["fp16"], "a�b", {"torch": "2"})


def test_a_resumed_run_lives_again(database: Database, admit: Any, store: Any) -> None:
    """A hello sets an ended run to running and clears its error."""
    from tocsin_server.core.models import WriteBatch

    admit()
    store.submit(WriteBatch("r1", changes={"state": "failed", "ended_ns": 5, "error": {"type": "OOM"}}))
    admit(attempt="a2", now_ns=9_000)
    with database.reader.connect() as connection:
        row = connection.execute(select(run)).one()
        assert len(list(connection.execute(select(attempt)))) == 2
    assert (row.state, row.ended_ns, row.error) == ("running", None, None)
