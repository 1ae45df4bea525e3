"""Objects are events of the step at which they were logged; their number is bounded."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

import tocsin
from tests.hook.captured import watched
from tests.hook.ingest_server import IngestServer, wait_until
from tocsin.api.run import Run
from tocsin.media import Image, Text
from tocsin.media.queue import MOST, PROBLEMS, WAITING, MediaQueue


class Reporter:
    """Keeps events and warnings."""

    def __init__(self) -> None:
        from tocsin.core.redaction import Redactor

        self.redact = Redactor()
        self.events: list[dict[str, Any]] = []
        self.contents: list[dict[str, Any]] = []
        self.warnings: list[str] = []

    def add_event_later(self, kind: str, data: dict[str, Any], step: int | None = None) -> None:
        {"media": self.events, "media-content": self.contents}[kind].append({"step": step, **data})

    def warn(self, text: str) -> None:
        self.warnings.append(text)


def test_a_content_is_sent_once_and_named_by_its_hash() -> None:
    reporter = Reporter()
    queue = MediaQueue(reporter)
    for step in (3, 4):
        queue.put("sample", Text("hello", caption="a greeting"), step)
    queue.sample()
    first, second = reporter.events
    (content,) = reporter.contents
    assert (first["name"], first["step"], first["caption"]) == ("sample", 3, "a greeting")
    assert base64.b64decode(content["content"]) == b"hello"
    assert first["hash"] == second["hash"] == content["hash"]


def test_the_number_of_objects_is_bounded() -> None:
    reporter = Reporter()
    queue = MediaQueue(reporter)
    for step in range(MOST + 5):
        queue.put("sample", Text(step), step)
        queue.sample()
    assert len(reporter.events) == MOST
    assert f"a run has at most {MOST}" in reporter.warnings[0]


def test_a_loop_that_logs_faster_than_they_are_encoded_waits_for_nothing() -> None:
    reporter = Reporter()
    queue = MediaQueue(reporter)
    for step in range(WAITING + 1):
        queue.put("sample", Text(step), step)
    assert "Log them less often" in reporter.warnings[0]
    queue.finish()
    assert len(reporter.events) == WAITING


def test_a_list_of_a_thousand_is_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Each has its own name. Of those that cannot be shown, a few are named."""
    with watched() as (run, _):
        run.log({"texts": [Text(number) for number in range(1000)]}, step=1)
        run.log({"pictures": [Image("missing.png") for _ in range(1000)]}, step=2)
    assert sum("are left out while" in line for line in caplog.messages) == 1
    assert sum("is not shown" in line for line in caplog.messages) == PROBLEMS


def test_what_cannot_be_shown_is_a_warning_and_the_numbers_go_on(caplog: pytest.LogCaptureFixture) -> None:
    with watched() as (run, outbox):
        run.log({"picture": Image("missing.png"), "loss": 1.0}, step=2)
        assert outbox.series("loss") == [(2, 1.0)]
    assert '"picture" is not shown' in caplog.text
    assert outbox.events("media") == []


def test_a_list_of_objects_is_numbered() -> None:
    with watched() as (run, outbox):
        run.log({"samples": [tocsin.Text("a"), tocsin.Text("b")]}, step=2)
    assert [(event["name"], event["step"]) for event in outbox.events("media")] == [
        ("samples/0", 2),
        ("samples/1", 2),
    ]


def test_the_sender_encodes_it_while_the_training_goes_on(server: IngestServer, spool: Path) -> None:
    """A run that logs an object and then only waits: the next record brings it."""
    run = tocsin.watch("p", url=server.url, spool_dir=spool, patch=False, quiet=True)
    assert isinstance(run, Run)
    run.log({"sample": tocsin.Text("hello")}, step=1)
    wait_until(lambda: not run._reporter.media._waiting)
    run.log(loss=1.0, step=2)
    wait_until(
        lambda: any(event.kind == "media" for kept in server.writers.values() for event in kept.events)
    )
