"""Delivery over a real WebSocket from real processes: every record exactly once, in order."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.hook.ingest_server import IngestServer, Kept, closed_port, wait_until
from tests.matrix import STALL_S
from tocsin import protocol
from tocsin.transport.outbox import Outbox
from tocsin.transport.sender import Sender

NAMES = ("loss", "lr")
COUNT = 1200


@pytest.fixture
def server() -> Iterator[IngestServer]:
    """A server on loopback that has started."""
    server = IngestServer()
    server.start()
    yield server
    server.stop()


class Trainer:
    """One writer in this process: outbox and sender, and the steps it has reported."""

    def __init__(
        self, url: str, spool_dir: Path | None, *, outbox: Outbox | None = None, pid: int = 1, **options: Any
    ) -> None:
        self.outbox = Outbox() if outbox is None else outbox
        self.writer = protocol.WriterId("launch", 0, "boot", pid, 1)
        self.sender = Sender(self.outbox, self._hello, url=url, spool_dir=spool_dir, **options)
        self.steps = 0

    def _hello(self) -> protocol.Hello:
        return protocol.Hello(1, "tk", "p", "n", "r_1", self.writer, 1, "host", time.time_ns())

    def train(self, steps: int) -> None:
        """Report ``steps`` more steps; the loss of step i is i."""
        for step in range(self.steps, self.steps + steps):
            self.outbox.put((step, time.time_ns(), NAMES, float(step), 0.1))
        self.steps += steps
        self.sender.start()


@pytest.fixture
def spool_dir(tmp_path: Path) -> Path:
    """Directory for the spools of this test."""
    return tmp_path / "spool"


def assert_exactly_once(kept: Kept, steps: int) -> None:
    """Check that all records are stored once, without gaps, in order, with their values."""
    assert kept.seqs == list(range(steps))
    assert kept.steps == list(range(steps))
    assert kept.columns["loss"] == [float(step) for step in range(steps)]


def has_more_than(server: IngestServer, records: int) -> bool:
    """Return whether the server has more than that many records of its one writer."""
    return bool(server.writers) and server.only.seq >= records


def left_behind(spool_dir: Path) -> list[str]:
    """Return the spools in the directory."""
    return [path.name for path in spool_dir.glob("*")]


def test_a_run_arrives_whole_and_leaves_nothing_behind(server: IngestServer, spool_dir: Path) -> None:
    """Records, an event and the finish arrive; the spool is gone afterwards."""
    trainer = Trainer(server.url, spool_dir)
    trainer.outbox.put_event("checkpoint", 1, 7, {"path": Path("a.pt"), "norm": float("inf")})
    trainer.train(COUNT)
    trainer.sender.close()
    assert_exactly_once(server.only, COUNT)
    assert server.only.events == [
        protocol.Event(0, "checkpoint", 1, 7, {"path": "a.pt", "norm": float("inf")})
    ]
    finish = server.only.finish
    assert finish is not None
    assert (finish.no, finish.records, finish.state) == (1, COUNT, "finished")
    assert left_behind(spool_dir) == []


def test_a_failed_run_says_with_what(server: IngestServer) -> None:
    """The finish has the error of an uncaught exception."""
    trainer = Trainer(server.url, None)
    trainer.train(3)
    trainer.sender.close(state="failed", error={"type": "ValueError", "message": "x", "lines": []})
    finish = server.only.finish
    assert finish is not None
    assert (finish.state, finish.error["type"]) == ("failed", "ValueError")


def test_a_run_that_fails_before_its_first_step_is_reported(server: IngestServer) -> None:
    """Events alone are delivered by the closing thread, although no sender thread was started."""
    trainer = Trainer(server.url, None)
    trainer.outbox.put_event("attached", 1, None, {})
    trainer.sender.close(state="failed", error={"type": "ImportError"})
    assert [event.kind for event in server.only.events] == ["attached"]
    assert server.only.finish is not None


def test_a_run_that_logged_nothing_stays_silent(server: IngestServer, spool_dir: Path) -> None:
    """No record and no event: no thread, no connection, no spool."""
    before = threading.active_count()
    trainer = Trainer(server.url, spool_dir)
    trainer.sender.close()
    assert (server.connections, threading.active_count(), spool_dir.exists()) == (0, before, False)


def test_dropped_connections_lose_and_double_nothing(server: IngestServer, spool_dir: Path) -> None:
    """Two disconnects during the run, one of them before the ack: all records arrive once."""
    trainer = Trainer(server.url, spool_dir)
    server.drop_after = 200
    for part in range(4):
        trainer.train(300)
        wait_until(partial(has_more_than, server, 300 * part))
        server.drop_connections()
    trainer.sender.close()
    assert_exactly_once(server.only, 1200)
    assert server.connections >= 4


def test_a_restarted_server_gets_what_it_missed(server: IngestServer, spool_dir: Path) -> None:
    """The server is down during the run: no record is missing afterwards."""
    trainer = Trainer(server.url, spool_dir)
    trainer.train(400)
    wait_until(lambda: server.writers and server.only.seq == 399)
    server.stop()
    trainer.train(400)
    wait_until(lambda: trainer.sender.stats.last_error)
    server.start()
    trainer.train(400)
    wait_until(lambda: server.writers and server.only.seq == 1199)
    trainer.sender.close()
    assert_exactly_once(server.only, 1200)


def test_a_server_that_comes_late_gets_everything(spool_dir: Path) -> None:
    """The server is down at the start: the run's first step arrives."""
    server = IngestServer()
    server.port = closed_port()
    trainer = Trainer(server.url, spool_dir)
    trainer.train(500)
    wait_until(lambda: trainer.sender.stats.last_error)
    server.start()
    wait_until(lambda: server.writers and server.only.seq == 499)
    trainer.sender.close()
    server.stop()
    assert_exactly_once(server.only, 500)


def test_withheld_acks_stop_the_trainer_at_its_window(server: IngestServer, spool_dir: Path) -> None:
    """At most 64 messages of records are under way; when acks come, the rest follows."""
    server.withhold_acks = True
    trainer = Trainer(server.url, spool_dir)
    trainer.train(50_000)
    wait_until(lambda: server.largest_flight == 64)
    server.withhold_acks = False
    server.drop_connections()
    wait_until(lambda: server.writers and server.only.seq == 49_999)
    trainer.sender.close()
    assert_exactly_once(server.only, 50_000)
    assert server.largest_flight == 64


def test_repeated_acks_do_no_harm(server: IngestServer) -> None:
    """Every ack twice: still every record once."""
    server.ack_twice = True
    trainer = Trainer(server.url, None)
    trainer.train(COUNT)
    trainer.sender.close()
    assert_exactly_once(server.only, COUNT)


def test_a_server_that_lost_acknowledged_records_gets_them_again(
    server: IngestServer, spool_dir: Path
) -> None:
    """A server restored from an older copy: what the spool still holds is sent again."""
    trainer = Trainer(server.url, spool_dir)
    trainer.train(600)
    wait_until(lambda: trainer.sender.stats.acked_seq == 599)
    server.writers[trainer.writer] = Kept()
    server.drop_connections()
    trainer.train(100)
    wait_until(lambda: server.writers and server.only.seq == 699)
    trainer.sender.close()
    assert_exactly_once(server.only, 700)


def test_the_server_chooses_the_flush_interval(server: IngestServer) -> None:
    """After an ack that requests 2 s between flushes, the queue is not drained for that time."""
    server.flush_ms = 2000
    trainer = Trainer(server.url, None)
    trainer.train(1)
    wait_until(lambda: trainer.sender._session.flush_s == 2.0)
    before = time.monotonic()
    trainer.train(1)
    wait_until(lambda: trainer.sender.stats.acked_seq == 1)
    assert trainer.sender._flush_at >= before + 2.0
    trainer.sender.close()


def test_the_thread_wakes_for_a_short_flush_interval(server: IngestServer) -> None:
    """While a browser shows the run, it does not sleep longer than the server asks for."""
    server.flush_ms = 70
    trainer = Trainer(server.url, None)
    trainer.train(1)
    wait_until(lambda: trainer.sender._session.flush_s == 0.07)
    with trainer.sender._lock:
        trainer.sender._flush_at = 0.0  # the first interval is not the server's yet
        assert trainer.sender._turn(time.monotonic()) <= 0.07 + 1e-6  # a difference of two clock readings
    trainer.sender.close()


def test_alerts_and_requests_reach_the_script(server: IngestServer, caplog: pytest.LogCaptureFixture) -> None:
    """The handlers get the messages that the script opted in to; a failing handler does not affect others."""
    server.say = [
        protocol.Alert("a", "scaler-collapse", "critical", "firing", "s"),
        protocol.Request("q", "stop"),
    ]
    received: list[Any] = []

    def handler(message: protocol.Alert | protocol.Request) -> None:
        received.append(message)
        raise RuntimeError("a handler's own mistake")

    trainer = Trainer(server.url, None, on_message=handler)
    trainer.train(10)
    wait_until(lambda: len(received) == 2)
    trainer.sender.close()
    assert received == server.say
    assert caplog.text.count("internal error in the processing of a server message: RuntimeError") == 1
    assert_exactly_once(server.only, 10)


def test_a_handler_may_end_the_run(server: IngestServer) -> None:
    """``close`` from the sender's own thread ends the run and does not wait for itself."""
    server.say = [protocol.Request("q", "stop")]
    trained = threading.Event()

    def handler(message: protocol.Alert | protocol.Request) -> None:
        assert trained.wait(30)
        trainer.sender.close()

    trainer = Trainer(server.url, None, on_message=handler)
    trainer.train(10)
    trained.set()
    wait_until(lambda: server.writers and server.only.finish)
    assert_exactly_once(server.only, 10)


def test_a_wrong_token_stops_sending_and_keeps_the_spool(
    server: IngestServer, spool_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """After a permanent rejection: one warning, no further attempts, the records stay on disk."""
    server.refuse = protocol.Refused("connection", "bad-token", "a known token", "tk_...", None, False)
    trainer = Trainer(server.url, spool_dir)
    with caplog.at_level(logging.WARNING, "tocsin"):
        trainer.train(100)
        wait_until(lambda: trainer.sender._session.stopped)
        trainer.train(100)
        trainer.sender.close()
    assert server.connections == 1
    assert trainer.sender.stats.refused == {"bad-token": 1}
    stopped, left = [record.message for record in caplog.records if "bad-token" in record.message]
    reason = "the server rejected the token (bad-token): expected a known token, got tk_..."
    assert stopped.startswith(f"tocsin: sending stopped: {reason}. Set TOCSIN_TOKEN; ")
    assert f"records are kept in {spool_dir}" in stopped
    assert "`tocsin sync`" in stopped
    assert f"({reason})" in left
    assert len(left_behind(spool_dir)) == 1


def test_try_later_is_tried_later(server: IngestServer) -> None:
    """After a rejection with ``retry`` there is another attempt."""
    server.refuse = protocol.Refused("connection", "busy", "room", "none", None, True)
    server.close_code = 4503
    trainer = Trainer(server.url, None)
    trainer.train(10)
    wait_until(lambda: server.connections >= 2)
    server.refuse = None
    wait_until(lambda: server.writers and server.only.seq == 9)
    trainer.sender.close()
    assert_exactly_once(server.only, 10)


def test_refused_data_are_counted_and_reported_once(
    server: IngestServer, caplog: pytest.LogCaptureFixture
) -> None:
    """A rejected series does not stop the run and is logged once."""
    refused = protocol.Refused("series", "too-many-series", "512", "513", 0)
    server.say = [refused] * 5
    trainer = Trainer(server.url, None)
    with caplog.at_level(logging.WARNING, "tocsin"):
        trainer.train(10)
        wait_until(lambda: trainer.sender.stats.refused == {"too-many-series": 5})
        trainer.sender.close()
    assert sum("too-many-series" in record.message for record in caplog.records) == 1
    assert_exactly_once(server.only, 10)


def test_orphaned_records_are_delivered_as_their_own_writer(server: IngestServer, spool_dir: Path) -> None:
    """The server is down for a whole run: the next process delivers it once, under its own identity."""
    lost = Trainer(f"http://127.0.0.1:{server.port}", spool_dir, pid=7, exit_timeout=0.2)
    server.stop()
    lost.train(3000)
    lost.sender.close(state="failed", error={"type": "KeyboardInterrupt"})
    assert len(left_behind(spool_dir)) == 1
    server.start()
    heir = Trainer(server.url, spool_dir, pid=8)
    heir.train(10)
    wait_until(lambda: not [name for name in left_behind(spool_dir) if "pid7" in name])
    heir.sender.close()
    assert_exactly_once(server.writers[lost.writer], 3000)
    assert_exactly_once(server.writers[heir.writer], 10)
    finish = server.writers[lost.writer].finish
    assert finish is not None
    assert finish.error == {"type": "KeyboardInterrupt"}


def test_the_token_is_never_on_disk(spool_dir: Path) -> None:
    """Neither the header nor a segment holds the token."""
    trainer = Trainer(f"http://127.0.0.1:{closed_port()}", spool_dir, exit_timeout=0.1)
    trainer._hello = lambda: None  # type: ignore[assignment,method-assign,return-value]
    trainer = Trainer(f"http://127.0.0.1:{closed_port()}", spool_dir, exit_timeout=0.1)
    trainer.train(10)
    trainer.sender.close()
    files = [path for path in spool_dir.rglob("*") if path.is_file()]
    assert len(files) >= 3
    assert not [path for path in files if b"tk" in path.read_bytes()]


@pytest.mark.parametrize("kind", ["refusing", "black-holed", "unresolvable", "mute"])
def test_exit_takes_no_longer_than_its_limit(kind: str, spool_dir: Path) -> None:
    """Whatever the server does, ``close`` returns within limit + 1 s."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        filler = [socket.socket() for _ in range(4)] if kind == "black-holed" else []
        for sock in filler:
            sock.setblocking(False)
            sock.connect_ex(("127.0.0.1", port))  # fills the queue: further connections hang
        host = {"refusing": f"127.0.0.1:{closed_port()}", "unresolvable": "no-such-host.invalid:1"}
        trainer = Trainer(f"http://{host.get(kind, f'127.0.0.1:{port}')}", spool_dir, exit_timeout=0.5)
        trainer.train(100)
        started = time.monotonic()
        trainer.sender.close()
        assert time.monotonic() - started < 1.5 + STALL_S
        for sock in filler:
            sock.close()
    assert len(left_behind(spool_dir)) == 1


def test_a_spool_that_cannot_be_written_harms_nothing(server: IngestServer, tmp_path: Path) -> None:
    """The spool's path is a file: records go through memory, and the stats have the reason."""
    place = tmp_path / "spool"
    place.write_text("not a directory")
    trainer = Trainer(server.url, place)
    trainer.train(COUNT)
    wait_until(lambda: server.writers and server.only.seq == COUNT - 1)
    assert "spool" in (trainer.sender.stats.spool_error or "")
    trainer.sender.close()
    assert_exactly_once(server.only, COUNT)


def test_what_is_kept_nowhere_is_lost_at_the_end(tmp_path: Path) -> None:
    """The last line of a run does not promise to send it."""
    place = tmp_path / "spool"
    place.write_text("not a directory")
    trainer = Trainer(f"http://127.0.0.1:{closed_port()}", place, exit_timeout=0.1)
    trainer.train(100)
    trainer.sender.close()
    assert (trainer.sender.stats.dropped, trainer.sender.unsent) == (100, 0)


def test_a_spool_that_became_a_file_is_lost(spool_dir: Path) -> None:
    """Nothing refers to the records in shared memory any more."""
    trainer = Trainer(f"http://127.0.0.1:{closed_port()}", spool_dir, exit_timeout=0.1)
    trainer.train(100)
    wait_until(lambda: trainer.sender.stats.spooled_bytes)
    shutil.rmtree(spool_dir)
    spool_dir.write_text("not a directory")
    trainer.sender.close()
    assert (trainer.sender.stats.dropped, trainer.sender.unsent) == (100, 0)


def test_a_deleted_spool_is_created_again_with_what_memory_has(spool_dir: Path) -> None:
    """What was still in memory survives a SIGKILL again."""
    trainer = Trainer(f"http://127.0.0.1:{closed_port()}", spool_dir)
    trainer.train(100)
    wait_until(lambda: trainer.sender.stats.spooled_bytes)
    shutil.rmtree(spool_dir)
    wait_until(lambda: list(spool_dir.glob("*/log")) and trainer.sender.stats.spooled_bytes)
    assert (trainer.sender.stats.dropped, trainer.sender.unsent) == (0, 100)
    trainer.sender.close()


def test_a_full_queue_drops_the_newest_and_leaves_a_gap(server: IngestServer) -> None:
    """What was dropped is counted, and its numbers are missing, so that the server can show it."""
    trainer = Trainer(server.url, None, outbox=Outbox(4, 1024))
    for step in range(150):
        trainer.outbox.put((step, 1, NAMES, float(step), 0.1))
    dropped = trainer.outbox.dropped
    trainer.sender.start()
    wait_until(lambda: trainer.sender.stats.acked_seq == 149 - dropped and trainer.outbox.free_blocks)
    trainer.outbox.put((150, 1, NAMES, 150.0, 0.1))
    trainer.sender.close()
    assert server.only.steps == server.only.seqs == [*range(150 - dropped), 150]
    assert trainer.sender.stats.dropped == dropped > 50


# --- real processes

SCRIPT = """
import atexit, os, signal, sys, time
from pathlib import Path
from tocsin import protocol
from tocsin.transport.outbox import Outbox
from tocsin.transport.sender import Sender

url, spool, how = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
writer = protocol.WriterId("launch", 0, "boot", os.getpid(), 1)
outbox = Outbox()
def hello():
    return protocol.Hello(1, "tk", "p", "n", "r_1", writer, 1, "host", time.time_ns())
sender = Sender(outbox, hello, url=url, spool_dir=spool, exit_timeout=5.0)
def end():
    sender.close(state="failed" if how == "raise" else "finished")
atexit.register(end)
NAMES = ("loss", "lr")
def train(first, count):
    for step in range(first, first + count):
        outbox.put((step, time.time_ns(), NAMES, float(step), 0.1))
    sender.start()
def spooled():
    while sender.stats.spooled_bytes == 0 and sender.stats.acked_seq < 0:
        time.sleep(0.01)
train(0, 200)
if how == "fork":
    if os.fork() == 0:
        train(200, 200)
        sender.close()
        os._exit(0)
    os.wait()
train(200, 200)
if how in ("os._exit", "SIGTERM", "SIGKILL"):
    spooled()
    print("ready", flush=True)
if how == "os._exit":
    os._exit(3)
if how.startswith("SIG"):
    os.kill(os.getpid(), getattr(signal, how))
    time.sleep(60)
if how == "raise":
    raise RuntimeError("boom")
if how == "sys.exit":
    sys.exit(4)
"""


def launch(url: str, spool_dir: Path, how: str) -> int:
    """Run the script to its end; return its exit status."""
    command = [sys.executable, "-c", SCRIPT, url, str(spool_dir), how]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    return done.returncode


@pytest.mark.parametrize(
    ("how", "status", "state"),
    [
        ("end", 0, "finished"),
        ("raise", 1, "failed"),
        ("sys.exit", 4, "finished"),
        ("fork", 0, "finished"),
    ],
)
def test_a_process_that_ends_delivers_everything(
    server: IngestServer, spool_dir: Path, how: str, status: int, state: str
) -> None:
    """Normal end, exception, sys.exit, a fork: 400 of 400, once, then the finish."""
    assert launch(server.url, spool_dir, how) == status
    assert_exactly_once(server.only, 400)
    assert server.only.finish is not None
    assert server.only.finish.state == state
    assert left_behind(spool_dir) == []
    assert len(server.writers) == 1


@pytest.mark.parametrize(
    ("how", "status"), [("os._exit", 3), ("SIGTERM", -signal.SIGTERM), ("SIGKILL", -signal.SIGKILL)]
)
@pytest.mark.parametrize("present", [True, False], ids=["server present", "server absent"])
def test_what_a_killed_process_spooled_is_delivered_by_the_next(
    server: IngestServer, spool_dir: Path, how: str, status: int, present: bool
) -> None:
    """After a SIGKILL, the next process delivers the rest, nothing twice."""
    if not present:
        server.stop()
    assert launch(server.url, spool_dir, how) == status
    if not present:
        server.start()
    heir = Trainer(server.url, spool_dir)
    heir.train(5)
    wait_until(lambda: not [name for name in left_behind(spool_dir) if "pid1-" not in name])
    heir.sender.close()
    (dead,) = [kept for writer, kept in server.writers.items() if writer != heir.writer]
    assert_exactly_once(dead, 400)
    assert dead.finish is None
    assert_exactly_once(server.writers[heir.writer], 5)


def test_a_forked_child_sends_nothing_and_holds_nothing(server: IngestServer, spool_dir: Path) -> None:
    """The child has no descriptor of the sender open, and its records are discarded."""
    trainer = Trainer(server.url, spool_dir)
    trainer.train(100)
    wait_until(lambda: trainer.sender.stats.acked_seq == 99)
    names = {os.readlink(f"/proc/self/fd/{fd}") for fd in _descriptors()}
    ours = {name for name in names if str(spool_dir) in name}
    assert ours
    read_end, write_end = os.pipe()
    if os.fork() == 0:
        trainer.train(100)
        trainer.sender.close()
        left = [os.readlink(f"/proc/self/fd/{fd}") for fd in _descriptors()]
        os.write(write_end, str(sum(name in ours for name in left)).encode())
        os._exit(0)
    os.close(write_end)
    assert os.read(read_end, 10) == b"0"
    os.close(read_end)
    os.wait()
    trainer.sender.close()
    assert_exactly_once(server.only, 100)


def _descriptors() -> list[int]:
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
        found.append(int(name))
    return found
