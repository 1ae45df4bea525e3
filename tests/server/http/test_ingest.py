"""The clients' socket: real WebSockets and the real application on both databases."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sqlalchemy import func, select
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin

from tocsin import protocol
from tocsin.protocol import Ack, Alert, Event, Finish, Refused
from tocsin.transport.rejections import sentence_of
from tocsin_server.core.permissions import Scope, Token, digest_of
from tocsin_server.store.tables import chunk_dir
from tocsin_server.store.tokens import add_token

Start = Callable[..., Any]
Dial = Callable[..., Any]
pytestmark = pytest.mark.usefixtures("url")


def stored(server: Any, run: str) -> list[tuple[int, float]]:
    """Return (step, loss) of every durable record of a run, in the order in which it was made."""
    page = server.services.reader.records(run, names=["loss"], limit=100_000)
    return list(zip(page.step.tolist(), page.columns["loss"].v.tolist(), strict=True))


@pytest.mark.both_databases
def test_an_acked_record_is_durable_to_the_bit(run_server: Start, dial: Dial) -> None:
    """What was acked can be read from the database, NaN and infinities included."""
    server = run_server()
    client = dial(server.base, "r1", server.token)
    client.acked(client.train([0, 1, 2], loss=[1.0, math.nan, -math.inf]))
    assert repr(stored(server, "r1")) == "[(0, 1.0), (1, nan), (2, -inf)]"


def test_a_trainer_resumes_where_it_was_durable(run_server: Start, dial: Dial) -> None:
    """The welcome has the last durable numbers; a resend is applied once."""
    server = run_server()
    first = dial(server.base, "r1", server.token)
    first.train([0, 1], loss=[1.0, 2.0])
    first.send(Event(0, "checkpoint", time.time_ns()))
    first.acked(1, 0)
    second = dial(server.base, "r1", server.token)
    assert (second.welcome.seq, second.welcome.events) == (1, 0)
    second.next_seq = 1
    second.acked(second.train([1, 2], loss=[2.0, 3.0]))
    assert stored(server, "r1") == [(0, 1.0), (1, 2.0), (2, 3.0)]


@pytest.mark.both_databases
def test_a_resend_before_the_commit_is_applied_once(run_server: Start, dial: Dial, make_records: Any) -> None:
    """Records that were accepted but are not durable yet are not evaluated or stored twice."""
    server = run_server(commit_ms=300)
    client = dial(server.base, "r1", server.token)
    for _ in range(5):
        client.send(make_records(0, [0, 1], loss=[1.0, 2.0]))
    client.acked(1)
    client.acked(trainer_last(client))
    assert stored(server, "r1") == [(0, 1.0), (1, 2.0), (2, 3.0)]


@pytest.mark.both_databases
def test_a_writer_on_two_connections_is_one_writer(
    run_server: Start, dial: Dial, make_records: Any, eventually: Any
) -> None:
    """The old connection stays open beside the new one, both send the same: stored once, sealed or not."""
    server = run_server(limit_records_per_s=10**9)
    steps = list(range(5000))
    values = np.array(steps, dtype=float)
    old, new = (dial(server.base, "r1", server.token) for _ in range(2))
    for first in range(0, 5000, 500):
        part = make_records(first, steps[first : first + 500], loss=values[first : first + 500])
        for socket in (old, new, old):
            socket.send(part)
    for socket in (old, new):
        socket.acked(4999)
    eventually(lambda: chunks_of(server, "r1") == 1, "the first chunk to be sealed")
    late = dial(server.base, "r1", server.token)
    assert late.welcome.seq == 4999
    late.send(make_records(3000, steps[3000:], loss=values[3000:]))
    late.acked(late_last(late, 5000))
    assert stored(server, "r1") == [*((step, float(step)) for step in steps), (5000, 0.5)]


def late_last(client: Any, seq: int) -> int:
    client.next_seq = seq
    return int(client.train([seq], loss=[0.5]))


def chunks_of(server: Any, run: str) -> int:
    with server.services.database.reader.connect() as connection:
        query = select(func.count()).select_from(chunk_dir).where(chunk_dir.c.run_id == run)
        return int(connection.execute(query).scalar_one())


def test_five_hundred_series_and_not_one_more(run_server: Start, dial: Dial) -> None:
    """All 500 are stored; the 501st is rejected, and its client gets a notice."""
    server = run_server(limit_series=500)
    client = dial(server.base, "r1", server.token)
    client.acked(client.train([0, 1], **{f"s{no}": [float(no), -0.0] for no in range(500)}))
    last = client.train([2], **{"s0": [7.0], "one too many": [1.0]})
    assert client.receive(Refused).code == "too-many-series"
    client.acked(last)
    page = server.services.reader.records("r1", limit=10)
    assert (len(page.columns), page.n) == (500, 3)
    assert page.columns["s499"].v.tolist() == [499.0, -0.0]


def trainer_last(client: Any) -> int:
    client.next_seq = 2
    return int(client.train([2], loss=[3.0]))


def test_a_gap_is_legal(run_server: Start, dial: Dial) -> None:
    """A client that dropped records continues, and the gap is counted."""
    server = run_server()
    client = dial(server.base, "r1", server.token)
    client.next_seq = 10
    client.acked(client.train([10], loss=[1.0]))
    assert server.health()["gaps"] == 10


@pytest.mark.both_databases
def test_many_trainers_at_once(run_server: Start, dial: Dial) -> None:
    """Twenty clients report at once, and all records of each are stored."""
    server = run_server()
    clients = [dial(server.base, f"r{i}", server.token) for i in range(20)]
    for step in range(10):
        for number, client in enumerate(clients):
            client.train([step], loss=[float(number)])
    for client in clients:
        client.acked(9)
    for number in range(20):
        assert stored(server, f"r{number}") == [(step, float(number)) for step in range(10)]


@pytest.mark.both_databases
def test_ranks_share_a_run(run_server: Start, dial: Dial) -> None:
    """Two processes of one attempt number their records separately in one run."""
    server = run_server()
    ranks = [dial(server.base, "r1", server.token, rank=rank, world_size=2) for rank in (0, 1)]
    for client in ranks:
        client.acked(client.train([0], loss=[1.0]))
    assert len(server.services.reader.run("r1").writers) == 2
    assert stored(server, "r1") == [(0, 1.0), (0, 1.0)]


def test_invalid_parts_affect_only_themselves(run_server: Start, dial: Dial, make_records: Any) -> None:
    """Each bad part of a batch gets an error; the good records are stored and acked."""
    server = run_server(limit_series=3)
    client = dial(server.base, "r1", server.token)
    message = make_records(0, [0, -7, 2], loss=[1.0, 2.0, 3.0], a=[0.0] * 3, b=[0.0] * 3, c=[0.0] * 3)
    message.cols |= {"short": b"123", "n" * 10_000: b"\0" * 24}
    client.send(message)
    client.acked(2)
    refused = [received for received in client.received if isinstance(received, Refused)]
    assert {refusal.code for refusal in refused} == {"bad-column", "too-many-series", "negative-step"}
    assert all(refusal.expected and refusal.got for refusal in refused)
    assert stored(server, "r1") == [(0, 1.0), (2, 3.0)]


def test_a_refused_batch_is_acked_and_stays_so(run_server: Start, dial: Dial, make_records: Any) -> None:
    """A batch that is rejected completely is acked, also after a reconnect, so that it blocks nothing."""
    server = run_server()
    client = dial(server.base, "r1", server.token)
    message = make_records(0, [0, 1], loss=[1.0, 2.0])
    message.t = b"short"
    client.send(message)
    assert client.receive(Refused).code == "bad-batch"
    client.acked(1)
    assert dial(server.base, "r1", server.token).welcome.seq == 1


def test_repeated_and_backward_steps_are_kept_and_reported(run_server: Start, dial: Dial) -> None:
    """Steps that repeat or go back are stored as sent, and one notice reports it."""
    server = run_server()
    client = dial(server.base, "r1", server.token)
    client.train([5, 6], loss=[1.0, 2.0])
    client.train([6, 3], loss=[3.0, 4.0])
    notice = client.receive(Refused)
    assert (notice.scope, notice.code) == ("notice", "step-order")
    client.train([3], loss=[5.0])
    client.acked(4)
    assert len(client.received) - sum(isinstance(received, Ack) for received in client.received) == 2
    assert stored(server, "r1") == [(5, 1.0), (6, 2.0), (6, 3.0), (3, 4.0), (3, 5.0)]


def test_malformed_frames_are_answered_and_then_end_the_connection(run_server: Start, dial: Dial) -> None:
    """One malformed frame gets an error; three in a row close with 4400."""
    server = run_server()
    client = dial(server.base, "r1", server.token)
    client.send(b"\xc1 garbage")
    assert client.receive(Refused).code == "malformed-frame"
    client.send(b"\x82\xa4type\xa5event\xa4data\x81\xa1a" + b"\x91" * 5000 + b"\x01")
    assert client.receive(Refused).code == "malformed-frame"
    client.acked(client.train([0], loss=[1.0]))
    for _ in range(3):
        client.send(b"again")
    assert client.ended() == 4400
    assert dial(server.base, "r1", server.token).welcome.seq == 0


def test_a_frame_above_the_limit_is_explained(run_server: Start, dial: Dial) -> None:
    """A frame that is too large is rejected and acked; the connection stays."""
    server = run_server(limit_frame_bytes=10_000)
    client = dial(server.base, "r1", server.token)
    client.train(range(1000), loss=[1.0] * 1000)
    refusal = client.receive(Refused)
    assert (refusal.code, refusal.seq) == ("frame-size", 0)
    client.acked(client.train([1000], loss=[2.0]))
    assert stored(server, "r1") == [(1000, 2.0)]


@pytest.mark.parametrize(
    ("changes", "code", "close"),
    [
        ({"token": "wrong"}, "bad-token", 4401),
        ({"token": ""}, "bad-token", 4401),
        ({"version": 99, "oldest_version": 99}, "protocol-version", 4400),
        ({"name": "n" * 10_000}, "bad-hello", 4400),
        ({"rank": -1}, "bad-hello", 4400),
        ({"project": ""}, "bad-hello", 4400),
    ],
)
def test_a_bad_hello_is_rejected(
    run_server: Start, dial: Dial, make_hello: Any, changes: dict[str, Any], code: str, close: int
) -> None:
    """An unacceptable hello gets an error and a close code; the server continues."""
    server = run_server()
    client = dial(server.base)
    client.send(make_hello("r1", **({"token": server.token} | changes)))
    assert client.ended() == close
    assert client.received[-1].code == code
    assert dial(server.base, "r1", server.token).welcome.seq == -1


def test_the_first_message_must_be_hello(run_server: Start, dial: Dial, make_records: Any) -> None:
    """Records before hello, and invalid data, are rejected."""
    server = run_server()
    for message in (make_records(0, [0], loss=[1.0]), b"garbage"):
        client = dial(server.base)
        client.send(message)
        assert client.ended() == 4400
        assert isinstance(client.received[-1], Refused)


def test_a_late_hello_is_asked_for_again(run_server: Start, dial: Dial) -> None:
    """A training process that got no CPU time for so long connects again, instead of giving up."""
    server = run_server(handshake_timeout_s=0.2)
    client = dial(server.base)
    assert client.ended() == 4503
    refusal = client.received[-1]
    assert isinstance(refusal, Refused)
    assert refusal.retry


def test_a_token_of_another_project_may_not_write(run_server: Start, dial: Dial, make_hello: Any) -> None:
    """An ingest token is valid only for its project, whatever the hello says."""
    server = run_server()
    token = Token("t1", "other", Scope.INGEST, "other", digest_of("secret"), 0)
    server.services.writer.call(lambda connection: add_token(connection, token)).result(10)
    client = dial(server.base)
    client.send(make_hello("r1", "secret"))
    assert client.ended() == 4403
    assert client.received[-1].code == "token-scope"
    assert dial(server.base, "r1", "secret", project="other").welcome.run == "r1"


def test_a_name_with_markup_is_accepted(run_server: Start, dial: Dial, make_hello: Any) -> None:
    """HTML in a run's name is stored as sent, and a notice reports it."""
    server = run_server()
    client = dial(server.base, "r1", server.token, name="<script>alert(1)</script>")
    assert client.receive(Refused).code == "markup-in-name"
    assert server.services.reader.run("r1").name == "<script>alert(1)</script>"


def test_alerts_reach_the_trainer(run_server: Start, dial: Dial) -> None:
    """A client that subscribes to alerts gets those of its own run only."""
    server = run_server()
    client = dial(server.base, "r1", server.token, wants=["alerts"])
    other = dial(server.base, "r2", server.token, wants=["alerts"])
    client.train([0, 1], loss=[1.0, math.nan])
    alert = client.receive(Alert)
    assert (alert.rule, alert.state, alert.onset_step) == ("nonfinite-loss", "firing", 1)
    other.acked(other.train([0], loss=[1.0]))
    assert not any(isinstance(received, Alert) for received in other.received)


def test_a_finish_waits_for_its_records(run_server: Start, dial: Dial) -> None:
    """A finish takes effect, and is acked, once every record that it names is stored."""
    server = run_server()
    client = dial(server.base, "r1", server.token)
    client.send(Finish(0, time.time_ns(), records=2))
    client.acked(client.train([0], loss=[1.0]))
    assert server.services.reader.run("r1").state == "running"
    client.train([1], loss=[1.0])
    client.acked(1, 0)
    assert server.services.reader.run("r1").state == "finished"


def test_a_failed_run_keeps_its_error(run_server: Start, dial: Dial) -> None:
    """A failed finish ends the run immediately, with the error."""
    server = run_server()
    client = dial(server.base, "r1", server.token)
    client.send(Finish(0, time.time_ns(), state="failed", error={"type": "OutOfMemoryError", "message": "m"}))
    client.acked(events=0)
    facts = server.services.reader.run("r1")
    assert (facts.state, facts.error["type"]) == ("failed", "OutOfMemoryError")


def test_an_ended_run_stays_ended_when_its_trainer_looks_again(run_server: Start, dial: Dial) -> None:
    """A writer that reconnects only to check that all is durable does not reopen its run; a new writer
    does."""
    server = run_server()
    client = dial(server.base, "r1", server.token)
    client.train([0], loss=[1.0])
    client.send(Finish(0, time.time_ns(), records=1))
    client.acked(0, 0)
    again = dial(server.base, "r1", server.token)
    assert (again.welcome.events, server.services.reader.run("r1").state) == (0, "finished")
    dial(server.base, "r1", server.token, attempt="second")
    assert server.services.reader.run("r1").state == "running"


def test_a_bad_event_counts_as_dealt_with(run_server: Start, dial: Dial) -> None:
    """An event above the limit is rejected, acked, and stored as a ``refused`` event."""
    server = run_server(limit_event_bytes=100)
    client = dial(server.base, "r1", server.token)
    client.send(Event(0, "note", time.time_ns(), data={"text": "x" * 200}))
    assert client.receive(Refused).code == "event-size"
    client.send(Event(1, "note", time.time_ns(), data={"psnr": math.inf}))
    client.acked(events=1)
    events = server.services.reader.events("r1").items
    assert [event.kind for event in events] == ["refused", "note"]


def test_events_beyond_their_rate_are_rejected_counted_and_acked(run_server: Start, dial: Dial) -> None:
    """Of a loop that sends events, the first are stored; one stored event counts the others."""
    server = run_server(limit_events_per_s=1)
    client, made_ns = dial(server.base, "r1", server.token), time.time_ns()
    for no in range(150):
        client.send(Event(no, "note", made_ns))
    refused = client.receive(Refused)
    assert refused.code == "event-rate"
    client.acked(events=149)
    events = server.services.reader.events("r1").items
    assert [event.kind for event in events].count("note") == 100
    assert len(events) < 110
    assert (events[-1].no, events[-1].data["got"]) == (
        149,
        "50 events above the limit so far, which were rejected",
    )
    assert sentence_of(refused) == (
        "the server rejects some events of this run because there are too many (it accepts at most 1 events "
        "per second, in bursts of up to 100). Records are not affected. Call run.event() less often."
    )


def test_events_of_hours_are_kept_when_they_come_at_once(run_server: Start, dial: Dial) -> None:
    """After an outage, a client delivers buffered events: the rate at which they were made counts."""
    server = run_server(limit_events_per_s=1)
    client, made_ns = dial(server.base, "r1", server.token), time.time_ns()
    for no in range(300):
        client.send(Event(no, "note", made_ns + no * 10**9))
    client.acked(events=299)
    assert {event.kind for event in server.services.reader.events("r1").items} == {"note"}


def test_a_finish_behind_refused_events_ends_the_run(run_server: Start, dial: Dial) -> None:
    """The rejected events before it count as processed, and so does its own number."""
    server = run_server(limit_events_per_s=1)
    client, made_ns = dial(server.base, "r1", server.token), time.time_ns()
    for no in range(120):
        client.send(Event(no, "note", made_ns))
    client.send(Finish(120, time.time_ns()))
    client.acked(events=120)
    assert server.services.reader.run("r1").state == "finished"


def test_an_event_that_is_large_in_memory_affects_only_itself(run_server: Start, dial: Dial) -> None:
    """Two megabytes of empty lists are rejected without decoding and acked; what follows is accepted."""
    server = run_server()
    client = dial(server.base, "r1", server.token)
    client.send(Event(0, "note", time.time_ns(), data={"lists": [[]] * 2_000_000}))
    assert client.receive(Refused).code == "event-size"
    client.send(Event(1, "note", time.time_ns()))
    client.acked(events=1)
    assert [event.kind for event in server.services.reader.events("r1").items] == ["refused", "note"]


def test_a_writer_above_its_rate_is_delayed_and_loses_nothing(run_server: Start, dial: Dial) -> None:
    """Records above the rate are accepted later, all of them."""
    server = run_server(limit_records_per_s=100)
    client = dial(server.base, "r1", server.token)
    for start in range(0, 250, 50):
        client.train(range(start, start + 50), loss=[1.0] * 50)
    client.acked(249)
    assert len(stored(server, "r1")) == 250


def test_a_page_of_another_site_may_not_report(run_server: Start) -> None:
    """A browser from another site is rejected before the handshake completes, with or without a cookie."""
    server = run_server()
    url = server.base.replace("http", "ws") + protocol.PATH
    with pytest.raises(InvalidStatus, match="403"), connect(url, origin=Origin("http://evil.example")):
        pass


def test_the_token_may_come_in_the_header(run_server: Start, dial: Dial, make_hello: Any) -> None:
    """A bearer token in the WebSocket request is equivalent to one in hello."""
    server = run_server()
    url = server.base.replace("http", "ws") + protocol.PATH
    with connect(url, additional_headers={"authorization": f"Bearer {server.token}"}) as socket:
        socket.send(protocol.encode(make_hello("r1")))
        assert isinstance(protocol.decode_server(socket.recv()), protocol.Welcome)  # type: ignore[arg-type]
