"""``tocsin top`` on a real server: what is shown, and what the keys do."""

from __future__ import annotations

import math
import os
import pty
import re
import subprocess
import sys
import termios
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.hook.top.seen import Seen, scenario
from tests.server.http.api.conftest import Trainer
from tests.server.http.api.test_mcp import token
from tests.server.http.api.test_terminal import NAN
from tocsin.cli.commands import main

BRAILLE = re.compile("[\u2801-\u28ff]")
STEPS = 120


@pytest.fixture
def diverged(trainer: Callable[..., Trainer]) -> Trainer:
    """A run that is NaN from step 110 and skipped step 60. Its name is markup, which must not be read."""
    run = trainer(name="topped [bold]")
    run.records(
        {
            "loss": [2 - step / 100 for step in range(110)] + [math.nan] * 10,
            "grad_norm": [1.0 + step % 3 for step in range(STEPS)],
            "scale": [65536.0] * 60 + [32768.0] * 60,
            "skipped": [float(step == 60) for step in range(STEPS)],
        }
    )
    return run


def played(server: Any, run: Trainer, play: Callable[[Seen], Awaitable[None]], scope: str = "write") -> None:
    """Play a scenario that begins with the list of only this run."""

    async def begun(seen: Seen) -> None:
        await seen.until("topped [bold]")
        await play(seen)

    scenario(server.base, token(server, scope), begun, scope=scope, filter=f"id:{run.run}")


def test_the_most_severe_run_is_first_and_a_filter_is_set(
    server: Any, trainer: Callable[..., Trainer]
) -> None:
    worse, better = trainer(name="diverged", project="topped"), trainer(name="fine", project="topped")
    worse.records(NAN)
    better.records({"loss": [1.0]})

    async def play(seen: Seen) -> None:
        await seen.until("diverged", "fine")
        first, second = seen.lines[2:4]
        assert first.split()[0] == "critical"
        assert "nonfinite-loss, step 30" in first
        assert second.split()[0] == "ok"
        await seen.press("slash", *" nothing", "enter")
        await seen.until("No run matches the filter.")

    scenario(server.base, token(server, "read"), play, filter="project:topped")


def test_a_wrong_filter_is_an_error_and_nothing_loads(server: Any) -> None:
    async def play(seen: Seen) -> None:
        await seen.until("expected a number after loss<")
        assert "Loading" not in seen.text

    scenario(server.base, token(server, "read"), play, filter="loss<")


def test_a_run_has_live_charts_that_show_its_faults(server: Any, diverged: Trainer) -> None:
    """At 80 x 24: NaN marks at the right end, a skipped step in the middle, every key in the last line."""

    async def play(seen: Seen) -> None:
        await seen.press("enter")
        await seen.until(
            "loss NaN  10 NaN or Inf", "grad_norm", "scale 32768", "critical, open since step 110"
        )
        faults = next(line for line in seen.lines[2:] if "×" in line)
        assert faults.rstrip().endswith("×××")
        assert "▾" in faults[40:50]
        assert len([line for line in seen.lines if BRAILLE.search(line)]) >= 9
        assert "q Quit" in seen.lines[-1]
        diverged.records({"loss": [1.0], "scale": [512.0]}, first_step=STEPS)
        await seen.until("scale 512")

    played(server, diverged, play)


def test_zooming_shows_the_last_steps(server: Any, diverged: Trainer) -> None:
    async def play(seen: Seen) -> None:
        await seen.press("enter")
        await seen.until("step 0 ")
        await seen.press("plus")
        await seen.holds(lambda: re.search(r"step (5\d|6\d) ", seen.text), lambda: seen.text)
        await seen.press("minus")
        await seen.until("step 0 ")
        assert not re.search(r"step (5\d|6\d) ", seen.text)

    played(server, diverged, play)


def test_a_token_that_may_only_read_is_told_which_one_may_acknowledge(server: Any, diverged: Trainer) -> None:
    async def play(seen: Seen) -> None:
        await seen.press("enter")
        await seen.until("critical, open")
        await seen.press("a")
        await seen.until("Your token has scope read.", "--scope write")

    played(server, diverged, play, "read")
    assert not any(one["ack"] for one in server.get("/incidents", run=diverged.run)["items"])


def test_an_incident_is_explained_and_acknowledged_with_a_note(server: Any, diverged: Trainer) -> None:
    async def play(seen: Seen) -> None:
        await seen.press("enter")
        await seen.until("critical, open")
        await seen.press("i")
        await seen.until("Incidents of topped [bold]: 1 open", "Likely cause: ", "First action: ")
        await seen.press("a")
        await seen.until("Note for the team")
        await seen.press(*"mine", "enter")
        await seen.until("Acknowledged by ", ": mine")

    played(server, diverged, play)
    (incident,) = server.get("/incidents", run=diverged.run)["items"]
    assert incident["ack"]["note"] == "mine"


def test_in_a_real_terminal_of_80_by_24(server: Any, diverged: Trainer) -> None:
    environment = {**os.environ, "TOCSIN_URL": server.base, "TERM": "xterm-256color"}
    environment["TOCSIN_TOKEN"] = token(server, "read")
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    command = [sys.executable, "-m", "tocsin.cli", "top", f"id:{diverged.run}"]
    with subprocess.Popen(command, env=environment, stdin=theirs, stdout=theirs, stderr=theirs) as top:
        os.close(theirs)
        read_until(ours, re.compile("critical"))
        os.write(ours, b"\r")
        read_until(ours, BRAILLE)
        os.write(ours, b"q")
        read_until(ours, re.compile("\x1b\\[\\?1049l"))
        assert top.wait(60) == 0
    os.close(ours)


def test_a_terminal_without_the_characters_of_the_charts_is_an_error() -> None:
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "TERM": "xterm-256color"}
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "tocsin.cli", "top"]
    with subprocess.Popen(
        command, env={**os.environ, **plain}, stdin=theirs, stdout=theirs, stderr=theirs
    ) as top:
        read_until(ours, re.compile("LC_ALL=C.UTF-8 tocsin top"))
        assert top.wait(60) == 2
    os.close(ours)
    os.close(theirs)


def test_it_ends_with_its_terminal(server: Any, diverged: Trainer) -> None:
    """Also if no signal ends it, as in a pseudo-terminal that is not its controlling one."""
    environment = {**os.environ, "TOCSIN_URL": server.base, "TERM": "xterm-256color"}
    environment["TOCSIN_TOKEN"] = token(server, "read")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "tocsin.cli", "top", f"id:{diverged.run}"]
    with subprocess.Popen(command, env=environment, stdin=theirs, stdout=theirs, stderr=theirs) as top:
        os.close(theirs)
        read_until(ours, re.compile("critical"))
        os.close(ours)
        assert top.wait(60) == 1


def read_until(terminal: int, wanted: re.Pattern[str]) -> None:
    """Read what a program draws until it matches."""
    drawn = b""
    while not wanted.search(drawn.decode(errors="replace")):
        drawn += os.read(terminal, 1 << 16)


@pytest.mark.parametrize(
    ("missing", "said"),
    [("tocsin.top.app", "pip install 'tocsin[terminal]'"), ("nothing", "needs a terminal")],
)
def test_where_it_cannot_run_the_error_says_what_to_do(
    missing: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    status = main(["top"])
    out, err = capsys.readouterr()
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert said in err
