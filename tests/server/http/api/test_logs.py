"""What a script printed, read by ``tocsin.Api``, ``tocsin runs logs`` and the tool ``read_log``."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

import tocsin
from tests.hook.cli.terminal import Terminal
from tests.server.http.api.conftest import Trainer
from tests.server.http.api.test_mcp import Agent, agent, token  # noqa: F401 - a fixture
from tests.server.http.api.test_progress import HeldServer
from tests.server.http.api.test_terminal import Command, command  # noqa: F401 - a fixture
from tocsin.cli.logs import NO_ANSWER, WAITING
from tocsin.mcp.text import MOST_CHARACTERS
from tocsin.read import ConsoleLine, operations


def printed(run: Trainer, *texts: str, step: int | None = 0, is_open: bool = False) -> None:
    """Report lines that the script wrote."""
    lines = [[time.time_ns() // 1_000_000, step, "out", text, is_open] for text in texts]
    run.event("console", step=step, lines=lines)


def texts(lines: Any) -> list[str]:
    """Return the texts of lines."""
    return [line.text for line in lines]


@pytest.fixture
def run(trainer: Callable[..., Trainer]) -> Trainer:
    """A run that printed 30 lines at as many steps, and shows a progress bar."""
    run = trainer()
    for step in range(30):
        printed(run, f"line {step}", step=step)
        printed(run, f"{step} %", step=step, is_open=True)
    return run


@pytest.fixture
def api(server: Any, monkeypatch: pytest.MonkeyPatch) -> tocsin.Api:
    """An API that asks for small pages."""
    monkeypatch.setattr(operations, "LINES_AT_ONCE", 7)
    return tocsin.Api(server.base, token(server, "read"))


LINES = [f"line {step}" for step in range(30)]


def test_the_whole_log_is_read_in_pages_and_the_progress_bar_once(api: tocsin.Api, run: Trainer) -> None:
    lines = api.console(run.run).all()
    assert texts(lines) == [*LINES, "29 %"]
    first = lines[0]
    assert (type(first), first.step, first.stream, first.rank) == (ConsoleLine, 0, "out", 0)


def test_the_newest_lines_are_read(api: tocsin.Api, run: Trainer) -> None:
    assert texts(api.console(run.run, tail=11)) == [*LINES[-10:], "29 %"]
    assert texts(api.console(run.run, tail=0)) == []
    assert texts(api.console(run.run, tail=1000)) == [*LINES, "29 %"]


def test_lines_are_found_by_text_and_step(api: tocsin.Api, run: Trainer) -> None:
    assert texts(api.console(run.run, contains="LINE 1", start=11, stop=13)) == LINES[11:14]


def test_new_lines_are_followed_to_the_end_of_the_run(api: tocsin.Api, run: Trainer) -> None:
    found = []
    for line in api.follow_console(run.run, tail=2, interval=0.01):
        found.append(line.text)
        if len(found) == 2:
            printed(run, "newer")
            run.finish()
    assert found == ["line 29", "29 %", "newer"]


def test_asyncio_reads_the_same(server: Any, run: Trainer) -> None:
    async def read() -> list[ConsoleLine]:
        async with tocsin.AsyncApi(server.base, token(server, "read")) as api:
            return await api.console(run.run, contains="line").all()

    assert texts(asyncio.run(read())) == LINES


def test_the_command_prints_the_log(run: Trainer, command: Command) -> None:  # noqa: F811
    assert command("runs", "logs", run.run)[:2] == (0, "\n".join([*LINES, "29 %"]) + "\n")
    assert command("runs", "logs", run.run, "--tail", "2", "--grep", "line")[1] == "line 28\nline 29\n"


def test_the_command_prints_json(run: Trainer, command: Command) -> None:  # noqa: F811
    (line,) = json.loads(command("runs", "logs", run.run, "--tail", "1", "--json")[1])
    assert (line["text"], line["step"], line["open"]) == ("29 %", 29, True)
    run.finish()
    followed = command("runs", "logs", run.run, "--follow", "--json")[1].splitlines()
    assert json.loads(followed[0])["text"] == "line 0"


def follow(base: str, secret: str, run: str) -> Terminal:
    """Return a terminal that follows the log of a run."""
    line = [sys.executable, "-m", "tocsin.cli", "runs", "logs", run, "--follow"]
    return Terminal(line, {"TOCSIN_URL": base, "TOCSIN_TOKEN": secret})


@pytest.fixture
def following(server: Any, trainer: Callable[..., Trainer]) -> Iterator[tuple[Trainer, Terminal]]:
    """A run that printed one line, and a terminal that follows it and says that it waits."""
    run = trainer()
    printed(run, "first")
    with follow(server.base, token(server, "read"), run.run) as terminal:
        terminal.wait_for(lambda lines: lines == ["first", WAITING])
        yield run, terminal


def test_on_a_terminal_lines_replace_what_it_waits_for(following: tuple[Trainer, Terminal]) -> None:
    """And the last line says how the run ended."""
    run, terminal = following
    printed(run, "second")
    run.finish()
    assert terminal.end()[0] == ["first", "second", "The run is finished."]


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_leaves_only_lines_of_the_run(following: tuple[Trainer, Terminal]) -> None:
    """With the exit status that a shell expects."""
    _, terminal = following
    terminal.process.send_signal(signal.SIGINT)
    assert (terminal.end()[0], terminal.process.returncode) == (["first"], 130)


def test_a_server_that_is_down_is_named(server: Any, run: Trainer) -> None:
    """While it is tried again."""
    with closing(HeldServer(server.base)) as relay:
        relay.release()
        with follow(relay.url, token(server, "read"), run.run) as terminal:
            terminal.wait_for(lambda lines: lines[-1:] == ["29 %"])
            printed(run, "line 30")
            terminal.wait_for(lambda lines: lines[-2:] == ["line 30", WAITING])
            relay.close()
            terminal.wait_for(lambda lines: lines[-2:] == ["line 30", NO_ANSWER])


def test_lines_cannot_steer_the_terminal(trainer: Callable[..., Trainer], command: Command) -> None:  # noqa: F811
    run = trainer()
    printed(run, "a\tb\x1b[2J\u202e <b> 🔥")
    assert command("runs", "logs", run.run)[1] == "a\tb\\x1b[2J\\u202e <b> 🔥\n"


@pytest.mark.parametrize("arguments", [("--tail", "-1"), ("--tail", "x")])
def test_a_bad_number_of_lines_is_rejected(
    run: Trainer,
    command: Command,  # noqa: F811
    arguments: tuple[str, str],
) -> None:
    with pytest.raises(SystemExit, match="2"):
        command("runs", "logs", run.run, *arguments)


def test_an_agent_reads_lines_with_their_steps(run: Trainer, agent: Agent) -> None:  # noqa: F811
    text = agent.call("read_log", run=run.run, contains="line", first_step=10, last_step=12)
    assert text.endswith("| 10 out: line 10\n| 11 out: line 11\n| 12 out: line 12")
    newest = agent.call("read_log", run=run.run, contains="line", lines=2)
    assert "2 lines, oldest first, as step, stream, text; older ones were left out" in newest
    assert newest.endswith("| 28 out: line 28\n| 29 out: line 29")


def test_an_answer_has_the_newest_lines_that_fit(trainer: Callable[..., Trainer], agent: Agent) -> None:  # noqa: F811
    run = trainer()
    printed(run, *[f"{number} {'x' * 400}" for number in range(100)], "the last\nline")
    text = agent.call("read_log", run=run.run, lines=200)
    assert len(text) <= MOST_CHARACTERS
    assert text.endswith("| 0 out: the last line")


def test_a_run_without_lines_is_said(trainer: Callable[..., Trainer], agent: Agent) -> None:  # noqa: F811
    assert "no line of its log matches" in agent.call("read_log", run=trainer().run)
