"""How a record leaves the training thread."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import tocsin
from tests.hook.captured import KeptOutbox, KeptSender, watched
from tests.hook.ingest_server import IngestServer, wait_until
from tests.hook.loops.scaled import scaled_clip
from tests.hook.truth import Truth
from tocsin.api.reporter import RunReporter
from tocsin.transport.outbox import Outbox


class Late:
    """A staging whose values arrive when the test decides."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Any, Any]] = []

    def __len__(self) -> int:
        return len(self.waiting)

    def put(self, item: Any, note: Any = None) -> None:
        self.waiting.append((item, note))

    def drain(self) -> None:
        pass


@pytest.fixture
def late() -> tuple[RunReporter, KeptOutbox, Late]:
    outbox, queue = KeptOutbox(), Late()
    watch = RunReporter(outbox, KeptSender())
    watch._staging = queue
    return watch, outbox, queue


def test_records_stay_behind_those_that_wait_for_a_device(late: tuple[RunReporter, KeptOutbox, Late]) -> None:
    """A record of host values does not overtake an older one whose values are still on the device."""
    watch, outbox, queue = late
    watch.stage((0, 0, ("loss",), torch.ones(())))
    watch.put((1, 0, ("loss",), 2.0))
    assert [item[0] for item, _ in queue.waiting] == [0, 1]
    assert outbox.items == []


def test_a_scale_on_a_device_is_compared_when_it_arrives(late: tuple[RunReporter, KeptOutbox, Late]) -> None:
    """Growth and backoff are reported at the record after which the scale changed."""
    watch, outbox, _ = late
    for step, scale in enumerate((4.0, 4.0, 2.0, 8.0)):
        watch._arrived((step, 0, ("loss", "scale"), 0.0, scale), "amp")
    reported = [(one["step"], one["change"], one["from"], one["to"]) for one in outbox.events("scaler")]
    assert reported == [(1, "backoff", 4.0, 2.0), (2, "growth", 2.0, 8.0)]


def test_a_scale_that_changed_after_the_last_record_is_reported_at_the_end(
    late: tuple[RunReporter, KeptOutbox, Late],
) -> None:
    """There is no record: the scale on the device is compared, and the change belongs to the last step."""
    watch, outbox, queue = late
    watch._arrived((5, 0, ("loss", "scale"), 0.0, 4.0), "amp")
    watch.last_scale("amp", torch.tensor(8.0))
    watch.last_scale("never seen", torch.tensor(8.0))
    ((item, note),) = queue.waiting
    watch._arrived((*item[:3], float(item[3])), note)
    reported = [(one["step"], one["change"], one["from"], one["to"]) for one in outbox.events("scaler")]
    assert (reported, len(outbox.items)) == ([(5, "growth", 4.0, 8.0)], 1)


def test_record_times_are_wall_clock_and_never_go_back() -> None:
    """A record's time is Unix ns, derived from the monotonic clock."""
    with watched() as (run, outbox):
        for _ in range(3):
            run.log(a=1.0)
        assert abs(run._reporter.now_ns() - outbox.items[-1][1]) < 60 * 1_000_000_000
    times = [item[1] for item in outbox.items]
    assert times == sorted(times)


def test_names_are_interned() -> None:
    """Equal names of records are one tuple, so that a batch is grouped by identity."""
    with watched() as (run, outbox):
        for k in range(3):
            run.log(a=float(k), b=1.0)
        scaled_clip(Truth())
    names = [item[2] for item in outbox.items]
    assert len({id(one) for one in names}) == len(set(names)) == 3


@pytest.fixture
def server() -> Iterator[IngestServer]:
    server = IngestServer()
    server.start()
    yield server
    server.stop()


def test_a_training_reaches_a_server(server: IngestServer, tmp_path: Path) -> None:
    """Through outbox, sender and WebSocket, the server gets each step that the loop measured."""
    truth = Truth()
    run = tocsin.watch("p", name="n", url=server.url, token="t", spool_dir=tmp_path, config={"lr": 0.1})
    scaled_clip(truth)
    run.finish()
    wait_until(lambda: server.writers and server.only.finish is not None)
    kept = server.only
    assert kept.steps == list(range(len(truth.rows)))
    assert kept.columns["scale"] == [row["scale"] for row in truth.rows]
    assert kept.columns["loss"] == pytest.approx([row["loss"] for row in truth.rows], nan_ok=True)
    assert [event.kind for event in kept.events].count("scaler") == len(truth.changes)
    assert kept.hellos[0].config == {"lr": 0.1}
    assert kept.finish is not None
    assert (kept.finish.state, kept.finish.records) == ("finished", len(truth.rows))


def test_the_time_between_two_cells_is_a_pause() -> None:
    """It is counted once, when the next cell begins."""
    reporter = RunReporter(Outbox(), KeptSender())
    reporter.rest()
    assert reporter.is_resting
    reporter._rested_ns -= 10**12
    reporter.wake()
    paused = reporter.paused_ns
    reporter.wake()
    assert 10**12 <= reporter.paused_ns == paused
