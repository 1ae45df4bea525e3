"""Recording the output of a script never changes it."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hook.ingest_server import IngestServer
from tests.hook.trainers import run_script
from tocsin.api.console import is_recorded
from tocsin.core.redaction import Redactor
from tocsin.media import console
from tocsin.media.console import BURST_CHARACTERS, KIND, PIECES, Console


class Outbox:
    """Knows the newest step."""

    last_step = 12


class Reporter:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.redact = Redactor()
        self.outbox = Outbox()
        self.state = "running"
        self.error: dict[str, Any] | None = None
        self.events: list[dict[str, Any]] = []

    def put_event(self, kind: str, data: dict[str, Any], step: int | None = None) -> None:
        assert kind == KIND
        self.events.append({**data, "step": step})

    @property
    def texts(self) -> list[str]:
        """Return the texts of all lines."""
        return [line[3] for event in self.events for line in event["lines"]]


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Any]]:
    """Return a function that replaces both streams by real ones on memory; it returns the new stdout.

    pytest replaces them too before a test begins, so a fixture cannot.
    """

    def replaced() -> Any:
        for name in ("stdout", "stderr"):
            monkeypatch.setattr(sys, name, io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline=""))
        return sys.stdout

    yield replaced
    assert not console._streams


@pytest.fixture
def record(streams: Callable[[], Any]) -> Iterator[Callable[..., Console]]:
    """Return a function that begins to record new streams, until the end of the test."""
    begun: list[Console] = []

    def record(reporter: Reporter, **options: Any) -> Console:
        if not begun:
            streams()
        begun.append(Console(reporter, **options))
        return begun[-1]

    yield record
    for one in begun:
        one.stop()


def test_the_stream_stays_the_same_object_and_gets_its_write_back(streams: Any) -> None:
    stdout = streams()
    one = Console(Reporter())
    assert sys.stdout is stdout
    assert (stdout.encoding, stdout.isatty(), "write" in vars(stdout)) == ("utf-8", False, True)
    one.stop()
    assert "write" not in vars(stdout)


def test_lines_carry_stream_step_and_text(record: Any) -> None:
    reporter = Reporter()
    one = record(reporter)
    print("loss", 0.5)
    print("careful", file=sys.stderr)
    one.sample()
    (event,) = reporter.events
    assert [line[1:] for line in event["lines"]] == [
        [12, "out", "loss 0.5", False],
        [12, "err", "careful", False],
    ]
    assert event["step"] == 12


def test_the_result_and_the_exception_are_those_of_the_original(record: Any) -> None:
    record(Reporter())
    stdout: Any = sys.stdout
    assert stdout.write("four") == 4
    with pytest.raises(TypeError, match="must be str"):
        stdout.write(b"bytes")
    stdout.detach()
    with pytest.raises(ValueError, match="detached"):
        print("x", file=stdout)


def test_a_listener_that_fails_does_not_affect_the_output(
    record: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(Reporter())
    stdout: Any = sys.stdout

    def broken() -> int:
        raise RuntimeError

    monkeypatch.setattr(console, "time_ns", broken)
    print("kept")
    stdout.flush()
    assert stdout.buffer.getvalue() == b"kept\n"


@pytest.mark.parametrize("stream", [None, object(), io.StringIO()])
def test_a_stream_that_cannot_be_recorded_is_left_alone(stream: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", stream)
    Console(Reporter()).stop()
    assert sys.stdout is stream


def test_two_runs_record_the_same_lines_once_each(record: Any) -> None:
    first, second = Reporter(), Reporter()
    one, other = record(first), record(second)
    print("both")
    one.finish()
    print("second only")
    other.finish()
    assert (first.texts, second.texts) == (["both"], ["both", "second only"])
    assert "write" not in vars(sys.stdout)


def test_a_wrapper_that_came_later_keeps_working(record: Any) -> None:
    """Another tracker replaced ``write`` after us; removing ours would break its chain."""
    one = record(Reporter())
    stdout: Any = sys.stdout
    inner, seen = stdout.write, []

    def outer(text: str) -> int:
        seen.append(text)
        return int(inner(text))

    stdout.write = outer
    one.stop()
    print("still")
    stdout.flush()
    assert (stdout.buffer.getvalue(), seen) == (b"still\n", ["still", "\n"])


def test_what_is_too_much_is_dropped_and_counted(record: Any) -> None:
    reporter = Reporter()
    one = record(reporter)
    for number in range(PIECES):
        print(number)
    one.sample()
    (event,) = reporter.events
    assert event["lines"][-1][3] == str(PIECES - 1)
    assert event["dropped"] == PIECES - len(event["lines"])


def test_one_huge_text_is_bounded(record: Any) -> None:
    reporter = Reporter()
    one = record(reporter)
    sys.stdout.write("".join(f"row {number}\n" for number in range(100_000)))
    one.sample()
    (event,) = reporter.events
    assert event["lines"][-1][3] == "row 99999"
    assert event["dropped"] + len(event["lines"]) == 100_000


def test_the_rate_is_limited_and_the_end_is_still_sent(record: Any) -> None:
    """After the burst, about 512 characters per second; the last lines are always sent."""
    now, reporter = [0.0], Reporter()
    one = record(reporter, clock=lambda: now[0])
    for _ in range(400):
        for _ in range(20):
            print("x" * 900)
        now[0] += 1.0
        one.sample()
    sent = sum(len(text) for text in reporter.texts)
    assert 0.8 * BURST_CHARACTERS < sent < BURST_CHARACTERS + 400 * 512
    print("the end")
    one.finish()
    assert reporter.texts[-1] == "the end"


@pytest.mark.parametrize(
    ("state", "texts"), [("finished", []), ("failed", ["working", "Traceback", "Error: x"])]
)
def test_another_rank_sends_its_lines_only_if_it_fails(record: Any, state: str, texts: list[str]) -> None:
    reporter = Reporter()
    one = record(reporter, rank=lambda: 1)
    print("working")
    one.sample()
    assert reporter.events == []
    reporter.state, reporter.error = state, {"lines": ["Traceback", "Error: x"]}
    one.finish()
    assert reporter.texts == texts


def test_threads_lose_no_line(record: Any) -> None:
    reporter = Reporter()
    one = record(reporter)

    def work(name: str) -> None:
        for number in range(200):
            sys.stdout.write(f"{name}{number}\n")

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    one._assemble()
    assert {line.text for line in one._lines.lines} == {f"{name}{n}" for name in "abcd" for n in range(200)}


@pytest.mark.parametrize(
    ("given", "value", "is_on"),
    [(None, "", True), (None, "0", False), (None, "off", False), (True, "0", True), (False, "", False)],
)
def test_the_switches(given: bool | None, value: str, is_on: bool) -> None:
    assert is_recorded(given, {"TOCSIN_CONSOLE": value}) is is_on


LOUD = """
import logging, os, sys
sys.stdout.write("\\r 10%\\r 20%\\n")
print("\\u00e9t\\u00e9 \\U0001f600", flush=True)
print("to stderr", file=sys.stderr)
logging.warning("a warning")
os.write(1, b"raw\\n")
sys.stdout.buffer.write(b"\\xff\\x00\\n")
print(sys.stdout.isatty(), sys.stdout.encoding, sys.stdout.fileno(), sep="|")
if pid := os.fork():
    os.waitpid(pid, 0)
else:
    print("child", "write" in vars(sys.stdout), flush=True)
    os._exit(0)
"""


def outputs(body: str, server: IngestServer, spool: Path, value: str) -> tuple[bytes, bytes]:
    """Return both streams of a script that trains, with ``TOCSIN_CONSOLE`` set to a value."""
    options = f"url={server.url!r}, spool_dir={str(spool)!r}, quiet=True"
    whole = f"import tocsin\nrun = tocsin.watch('p', {options})\n{body}"
    environ = {**os.environ, "TOCSIN_CONSOLE": value, "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run([sys.executable, "-c", whole], capture_output=True, env=environ, timeout=60)
    return done.stdout, done.stderr


@pytest.mark.parametrize(
    "end", ["run.log(loss=1.0)\nrun.finish()\n", "raise ValueError('late')\n", "print('\\ud800')\n"]
)
def test_the_output_is_identical_byte_by_byte(server: IngestServer, spool: Path, end: str) -> None:
    """Also in a forked child, which is not recorded, and with an uncaught exception."""
    off = outputs(LOUD + end, server, spool, "0")
    assert outputs(LOUD + end, server, spool, "1") == off
    assert b"child False" in off[0]


def test_a_closed_stdout_and_an_early_exit_do_no_harm(server: IngestServer, spool: Path) -> None:
    body = (
        "sys = __import__('sys'); print('a'); sys.stdout.close(); print('b', file=sys.stderr); sys.exit(3)\n"
    )
    assert outputs(body, server, spool, "1") == outputs(body, server, spool, "0") == (b"a\n", b"b\n")


def lines_of(server: IngestServer) -> list[str]:
    """Return the texts of all lines that the server got."""
    events = [event for kept in server.writers.values() for event in kept.events]
    return [line[3] for event in events if event.kind == KIND for line in event.data["lines"]]


def test_the_log_of_a_failed_run_ends_with_its_traceback(server: IngestServer, spool: Path) -> None:
    body = "run = watch(patch=True)\nprint('epoch 1')\ntrain(run, 3)\n"
    body += "raise ValueError('token=ghp_' + 'a' * 30)\n"
    run_script(body, server.url, spool)
    lines = lines_of(server)
    assert lines[0] == "epoch 1"
    assert lines[-1] == "ValueError: token=[redacted]"


def test_nothing_is_recorded_if_it_is_switched_off(server: IngestServer, spool: Path) -> None:
    run_script(
        "run = watch(patch=True, console=False)\nprint('epoch 1')\ntrain(run, 3)\nrun.finish()\n",
        server.url,
        spool,
    )
    assert server.only.steps
    assert lines_of(server) == []
