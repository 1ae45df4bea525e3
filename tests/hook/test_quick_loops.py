"""A loop that logs faster than records are sent: the call waits, capture never does, nothing is dropped."""

from __future__ import annotations

import csv
import io
import os
import signal
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Tower, tower_in
from tests.hook.ingest_server import IngestServer, closed_port, wait_until
from tests.hook.reading import Reader, rest_of
from tests.hook.trainers import assert_whole, bring_in, run_script
from tests.hook.transport.test_sender import Trainer, assert_exactly_once
from tests.matrix import ALL
from tocsin import protocol
from tocsin.spool import log_file
from tocsin.spool.log import BLOCK_BYTES, BLOCKS, Log
from tocsin.spool.segments import Spool, find_spools
from tocsin.transport.backlog import Backlog
from tocsin.transport.backpressure import PATIENCE_S, WaitBudget
from tocsin.transport.outbox import Outbox

LOSS = ("loss",)
ROOM = 24
"""Records of one value in a block of 1000 bytes, after their names."""
MANY = 250_000 if ALL else 100_000
MILLION = 1_000_000
LOOPS = {
    "log": "run = watch(exit_timeout=None)\nfor i in range({n}):\n    run.log(step=i, loss=float(i))\n",
    "step": "run = watch(exit_timeout=None)\nfor i in range({n}):\n    run.step(loss=float(i))\n",
    "captured": (
        "import torch\nrun = watch(exit_timeout=None, patch=True, grad_norm=False)\n"
        "torch.set_num_threads(1)\nweight = torch.nn.Parameter(torch.ones(()))\n"
        "optimizer = torch.optim.SGD([weight], lr=0.0)\n"
        "for i in range({n}):\n    (weight * i).backward()\n    optimizer.step()\n"
    ),
}
FIGURES = """
stats = run._reporter.sender.stats
with open("/proc/self/status") as status:
    (peak,) = (int(line.split()[1]) for line in status if line.startswith("VmHWM"))
print(stats.dropped, stats.memory_error is None, peak >> 10)
"""


class FakeSender:
    """Stand-in for the sender: counts waits, and makes room when asked."""

    def __init__(self, relieve: Callable[[], object] = lambda: None) -> None:
        self.relieve = relieve
        self.waits = self.drops = 0

    def wake(self) -> None:
        """Do nothing: the test reads."""

    def wait(self, ready: Callable[[], bool]) -> None:
        """Count a wait; the test decides whether it makes room."""
        self.waits += 1
        self.relieve()

    def dropping(self) -> str:
        """Return the reason for the run's page."""
        self.drops += 1
        return "the disk is full"


def outbox_with(sender: FakeSender) -> Outbox:
    """Return an outbox with 8 blocks of 24 records that asks ``sender`` for room when two are free."""
    outbox = Outbox(8, 1000)
    outbox.backpressure = sender
    return outbox


def fill(outbox: Outbox, count: int, *, may_wait: bool, first: int = 0) -> None:
    """Put ``count`` records."""
    for step in range(first, first + count):
        outbox.put((step, step, LOSS, float(step)), may_wait)


def test_a_call_of_the_script_waits_while_few_blocks_are_free() -> None:
    """The sender makes room meanwhile: all records are kept, none is dropped."""
    sender = FakeSender(lambda: found.extend(reader.records()))
    found: list[protocol.Records] = []
    outbox = outbox_with(sender)
    reader = Reader(outbox)
    fill(outbox, 16 * ROOM, may_wait=True)
    assert (sender.waits, outbox.dropped) == (2, 0)
    assert sum(records.n for records in found) + len(outbox) == 16 * ROOM


def test_capture_never_waits() -> None:
    """It accepts records while there is room, and counts those above it."""
    sender = FakeSender()
    outbox = outbox_with(sender)
    fill(outbox, 8 * ROOM + 20, may_wait=False)
    assert (sender.waits, len(outbox), outbox.dropped) == (0, 8 * ROOM, 20)


def test_a_wait_in_vain_takes_the_record_while_there_is_room() -> None:
    """The sender hangs for a moment: the call returns after its wait, and the record is kept."""
    sender = FakeSender()
    outbox = outbox_with(sender)
    fill(outbox, 8 * ROOM, may_wait=True)
    assert (len(outbox), outbox.dropped, sender.waits) == (8 * ROOM, 0, 2)


def test_dropped_records_are_reported_once_there_is_room() -> None:
    """One event has the number, the first and last step, and the reason."""
    sender = FakeSender()
    outbox = outbox_with(sender)
    reader = Reader(outbox)
    fill(outbox, 8 * ROOM + 20, may_wait=True)
    outbox.report_dropped()
    assert reader.events() == []
    outbox.report_dropped()
    outbox.report_dropped()
    (event,) = reader.events()
    assert (event.kind, event.step, event.data["records"], sender.drops) == ("dropped", 8 * ROOM + 19, 20, 1)
    assert event.data["reason"] == "the disk is full"


def test_wide_records_are_bounded_by_their_bytes() -> None:
    """A thousand values in each record: what waits is no larger than the log."""
    outbox = Outbox()
    names = tuple(f"layer{index}" for index in range(1000))
    for step in range(1000):
        outbox.put((step, 0, names, *[0.5] * 1000))
    assert outbox.dropped == 1000 - len(outbox)
    assert 0.8 * BLOCKS * BLOCK_BYTES < len(outbox) * 8032 < BLOCKS * BLOCK_BYTES


def test_events_wait_too() -> None:
    """``run.event`` waits for the sender as ``log`` does."""
    sender = FakeSender(lambda: reader.frames())
    outbox = outbox_with(sender)
    reader = Reader(outbox)
    for number in range(500):
        outbox.put_event("note", number, None, {}, may_wait=True)
    assert outbox.dropped == 0
    assert sender.waits > 0


def test_waiting_in_vain_ends_and_comes_back_slowly() -> None:
    """A disk that hangs for hours slows training by 5 %, not by 50 ms for every call."""
    patience = WaitBudget(0.0)
    assert patience.left(0.0)
    patience.spend(PATIENCE_S)
    assert not patience.left(0.0)
    assert patience.left(1.0)
    patience.spend(1.0)
    assert not patience.left(1.0)


def test_the_terminal_the_page_and_the_end_say_what_was_dropped(
    server: IngestServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No spool and no server: what does not fit in memory is dropped, and reported in three places."""
    monkeypatch.setenv("TOCSIN_LOG_WAIT_MS", "0")
    server.stop()
    trainer = Trainer(server.url, None, outbox=Outbox(8, 1000))
    trainer.sender.start()
    fill(trainer.outbox, 8 * ROOM + 20, may_wait=True)
    dropped = trainer.sender.stats.dropped
    assert dropped >= 20
    server.start()
    wait_until(lambda: len(trainer.outbox) == 0 and trainer.outbox.free_blocks > 2)
    fill(trainer.outbox, 1, may_wait=True, first=8 * ROOM + 20)
    trainer.sender.close()
    (reported,) = [event for event in server.only.events if event.kind == "dropped"]
    assert reported.data["records"] == dropped == 8 * ROOM + 21 - len(server.only.seqs)
    assert "there is no offline buffer on disk" in reported.data["reason"]
    messages = [record.getMessage() for record in caplog.records if "dropped" in record.getMessage()]
    assert [text.partition(":")[2].split()[:2] for text in messages] == [
        ["records", "are"],
        [str(dropped), "records"],
    ]


def kept_in(root: Path) -> int:
    """Return the number of records on disk in the only spool."""
    (path,) = find_spools(root)
    spool = Spool.recover(path)
    assert spool is not None
    found = rest_of(Backlog(Log(b"", []), spool, is_live=False))
    spool.close()
    return sum(frame.count for frame in found)


@pytest.mark.parametrize("is_shared", [True, False])
def test_the_end_counts_what_a_full_disk_did_not_take(
    spool: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_shared: bool
) -> None:
    """No server, and a spool that accepts only some records: the end reports how many are lost, or that they
    are in shared memory."""
    monkeypatch.setenv("TOCSIN_LOG_WAIT_MS", "0")
    if not is_shared:
        monkeypatch.setattr(log_file, "filesystem_of", lambda path: "nfs4")
    trainer = Trainer(f"http://127.0.0.1:{closed_port()}", spool, exit_timeout=0.1)
    assert trainer.sender._spool is not None
    trainer.sender._spool._limit = 100_000
    fill(trainer.outbox, 3000, may_wait=True)
    trainer.sender.start()
    trainer.sender.close()
    assert "the last 3,000 records and the end of this run were not delivered" in caplog.text
    if is_shared:
        assert "until this machine restarts" in caplog.text
    lost = 3000 - kept_in(spool)
    assert 0 < lost < 3000
    assert (f"The last {lost:,} records and the end are lost" in caplog.text) is not is_shared


def test_a_name_service_that_hangs_keeps_no_record_from_the_disk(
    spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sender continues to spool while it waits for the server's address."""
    asked, answer, real = threading.Event(), threading.Event(), socket.getaddrinfo

    def hang(host: Any, *given: Any, **options: Any) -> Any:
        if host != "tower.invalid" or options.get("flags"):
            return real(host, *given, **options)
        asked.set()
        answer.wait()
        raise socket.gaierror("unknown")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    trainer = Trainer("http://tower.invalid:1", spool, exit_timeout=0.1)
    trainer.train(10)
    assert asked.wait(20)
    trainer.train(2000)
    wait_until(lambda: trainer.sender.stats.spooled_bytes > 2000 * 48)
    answer.set()
    trainer.sender.close()


def test_a_driver_that_hangs_keeps_no_record_from_the_server(server: IngestServer, spool: Path) -> None:
    """The readings of the machine use a separate thread."""
    back = threading.Event()
    trainer = Trainer(server.url, spool, sampler=lambda now: back.wait())
    trainer.train(2000)
    wait_until(lambda: server.writers and server.only.seq == 1999)
    back.set()
    trainer.sender.close()
    assert_exactly_once(server.only, 2000)


def test_sigkill_while_the_queue_is_full_loses_no_step(server: IngestServer, spool: Path) -> None:
    """Records wait in shared memory or in the spool, even at a speed that fills the queue."""
    body = (
        "run = watch()\nwhile True:\n    run.log(step=step, loss=float(step), lr=0.1)\n"
        "    if step == 150_000:\n        os.kill(os.getpid(), signal.SIGKILL)\n    step += 1\n"
    )
    status, _ = run_script(body, f"http://127.0.0.1:{closed_port()}", spool)
    assert status == -signal.SIGKILL
    bring_in(spool, server.url)
    assert_whole(server.only, 150_001)


@pytest.fixture(scope="module")
def wide_tower(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tower]:
    """A real server that does not slow down a single writer."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOCSIN_LIMIT_RECORDS_PER_S", "1000000")
        with tower_in(tmp_path_factory.mktemp("tower")) as running:
            yield running


def steps_after(loop: str, count: int, tower: Tower, spool: Path) -> list[int]:
    """Run the loop as a process; return the steps that the server has after its end."""
    environ = {"TOCSIN_TOKEN": tower.token}
    status, script = run_script(LOOPS[loop].format(n=count) + FIGURES, tower.base, spool, environ=environ)
    assert status == 0, script.complaints
    dropped, is_shared, megabytes = script.out.split()
    assert (dropped, is_shared) == ("0", "True")
    assert loop == "captured" or int(megabytes) < 100
    run = tower.run_named("n")
    assert run is not None
    address = f"{tower.base}/api/v1/runs/{run['id']}/records?format=csv"
    request = urllib.request.Request(address, headers={"authorization": f"Bearer {tower.token}"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return [int(row["step"]) for row in csv.DictReader(io.TextIOWrapper(answer, "utf-8"))]


@pytest.mark.parametrize(("loop", "count"), [("log", MANY), ("step", MANY // 5), ("captured", MANY // 125)])
def test_all_records_of_a_quick_loop_are_on_the_server(
    wide_tower: Tower, spool: Path, loop: str, count: int
) -> None:
    """0.5 s of ``run.log(step=i)``: nothing is dropped, and a SIGKILL would have lost nothing."""
    assert steps_after(loop, count, wide_tower, spool) == list(range(count))


@pytest.mark.timeout(3600)
@pytest.mark.skipif("TOCSIN_SLOW_TESTS" not in os.environ, reason="takes minutes; set TOCSIN_SLOW_TESTS")
@pytest.mark.parametrize("loop", list(LOOPS))
def test_all_of_a_million_quick_records_are_on_the_server(wide_tower: Tower, spool: Path, loop: str) -> None:
    """The same with a million records, on both paths."""
    assert steps_after(loop, MILLION, wide_tower, spool) == list(range(MILLION))


def test_the_end_waits_while_the_server_acknowledges(server: IngestServer, spool: Path) -> None:
    """A finished run is delivered completely, even if that takes longer than ``exit_timeout``."""
    server.ack_after_s = 0.03
    trainer = Trainer(server.url, spool, exit_timeout=1.0, linger_s=60.0)
    trainer.train(40_000)
    began = time.monotonic()
    trainer.sender.close()
    assert time.monotonic() - began > 1.0  # else it had nothing to wait for
    assert (server.only.seq, server.only.finish is not None) == (39_999, True)
