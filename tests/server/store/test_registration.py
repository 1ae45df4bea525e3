"""A hello finds or creates run, attempt and writer."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select

from tests.server.store.conftest import batch, hello
from tocsin.protocol import WriterId
from tocsin_server.store import registration
from tocsin_server.store.database import Database
from tocsin_server.store.registration import register_keeping_end
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


def dead(at: int) -> dict[str, Any]:
    """Return the fields of a handshake that another process sends for one that began at ``at``."""
    return {"writer": WriterId(f"dead-{at}", 0, "boot", at, at), "time_ns": 2_000, "began_ns": at}


def test_a_late_delivery_is_not_the_newest_attempt(admit: Any) -> None:
    """The process died before it reached the server, so its successor's attempt stays the newest."""
    live = admit(now_ns=900)
    late, later = admit(**dead(500)), admit(**dead(300))
    assert [one.writer.attempt_no for one in (live, late, later)] == [1, 0, -1]
    assert [one.superseded for one in (live, late, later)] == [False, True, True]
    assert admit().superseded is False
    assert (later.attempts, admit(attempt="a2").writer.attempt_no) == (3, 2)


def test_dead_processes_are_ordered_by_their_beginning(admit: Any) -> None:
    """The order of attempts does not depend on when they are delivered."""
    assert [admit(**dead(at)).writer.attempt_no for at in (300, 500, 400)] == [1, 2, 0]


def test_starts_are_compared_on_the_server_s_clock(admit: Any) -> None:
    """The clock of the dead process's machine is an hour ahead, which its handshake reveals."""
    hour = 3600 * SECOND
    admit(now_ns=hour + 900)
    ahead = dead(2 * hour + 500) | {"time_ns": 2 * hour + 2_000}
    assert admit(now_ns=hour + 2_000, **ahead).writer.attempt_no == 0


@pytest.mark.parametrize("at", [-(2**63), 2**63 - 1])
def test_an_impossible_beginning_is_no_error(admit: Any, at: int) -> None:
    """A start time in the future is limited to now."""
    admit(now_ns=900)
    assert admit(**dead(at)).writer.attempt_no in (0, 2)


def test_a_late_attempt_does_not_change_the_run(database: Database, admit: Any, store: Any) -> None:
    """State, config, tags and host of the run do not change."""
    admit(now_ns=900, config={"lr": 1}, tags=["new"])
    end = run.update().values(state="finished", ended_ns=5)
    store.call(lambda connection: connection.execute(end)).result(30)
    greeting = hello(**dead(500), config={"lr": 2}, tags=["old"])
    registered = store.call(lambda connection: register_keeping_end(connection, greeting, 2_000)).result(30)
    assert registered[1] is True
    with database.reader.connect() as connection:
        row = connection.execute(select(run)).one()
    assert (row.state, row.ended_ns, row.tags, row.config) == ("finished", 5, ["new"], {"lr": 1})


def test_dead_ranks_without_a_launch_join_when_they_are_delivered(admit: Any) -> None:
    """Ranks that began together are one attempt, even if delivered much later and minutes apart."""
    met = {"run": "", "rendezvous": "10.0.0.1:29500", "world_size": 2, "began_ns": 500 * SECOND}
    hour = 3600 * SECOND
    zero = admit(rank=0, attempt="x", now_ns=hour, time_ns=hour, **met)
    one = admit(rank=1, attempt="y", now_ns=hour + 300 * SECOND, time_ns=hour + 300 * SECOND, **met)
    assert (one.writer.run_id, one.writer.attempt_no) == (zero.writer.run_id, 1)


@pytest.mark.parametrize("state", ["running", "finished"])
def test_a_known_writer_is_registered_as_any_other(
    database: Database, admit: Any, put: Any, store: Any, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    """The single query for a known writer finds, and changes, the same as the general way."""
    who = admit(config={"lr": 1}, tags=["new"]).writer
    put(batch(who, 0, [0, 1], loss=[1.0, 2.0]))
    store.call(lambda connection: connection.execute(run.update().values(state=state))).result(30)
    reported = hello(config={"lr": 1.0}, notes="again", host="other", time_ns=3_000)

    def returned(now_ns: int) -> Any:
        found = store.call(lambda connection: register_keeping_end(connection, reported, now_ns)).result(30)
        with database.reader.connect() as connection:
            row = connection.execute(select(run)).one()
        return found, repr(row)

    quick = returned(9_000)
    monkeypatch.setattr(registration, "known_writer", lambda *_: None)
    assert quick == returned(9_000)
    assert (quick[0][0].last_seq, quick[0][1]) == (1, state == "finished")
