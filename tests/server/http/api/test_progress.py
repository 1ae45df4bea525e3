"""Progress on a real terminal: it appears while a command waits, disappears, and never reaches a pipe."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.hook.cli.terminal import Terminal
from tests.matrix import represented
from tests.server.http.api.conftest import Trainer
from tests.server.http.api.test_mcp import token

TOCSIN = (sys.executable, "-m", "tocsin.cli")
WITHOUT_RICH = (
    "import sys; sys.modules['rich'] = None; from tocsin.cli.commands import main; sys.exit(main())"
)
PYTHONS = {"rich": TOCSIN, "plain": (sys.executable, "-c", WITHOUT_RICH)}
SHOWN = {
    "runs": "Reading",
    "report": "Writing",
    "export": "Exporting",
    "import": "Importing",
    "show": "Waiting",
}
"""Command and the word that its progress begins with."""


class HeldServer:
    """Passes connections on to a server, and holds its answers until they are released."""

    def __init__(self, base: str) -> None:
        host, _, port = base.removeprefix("http://").partition(":")
        self._target = (host, int(port))
        self._released = threading.Event()
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._start(self._accept)

    def release(self) -> None:
        """Let all answers pass from now on."""
        self._released.set()

    def close(self) -> None:
        """End all connections."""
        self.release()
        for one in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for one in (self._listener, *self._sockets):
            one.close()

    def _start(self, work: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=work, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
                self._sockets += (client, server)
                self._start(self._pass, client, server)
                self._start(self._pass, server, client, self._released)

    def _pass(
        self, source: socket.socket, sink: socket.socket, released: threading.Event | None = None
    ) -> None:
        with contextlib.suppress(OSError):  # either end was closed
            while data := source.recv(1 << 16):
                if released is not None:
                    released.wait()
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)


@pytest.fixture
def held(server: Any) -> Iterator[HeldServer]:
    """A server whose answers wait for ``held.release()``."""
    made = HeldServer(server.base)
    yield made
    made.close()


@pytest.fixture
def arguments(trainer: Callable[..., Trainer], tmp_path: Path) -> Callable[[str], list[str]]:
    """Return a function that returns the arguments of a command that has something to do."""
    run = trainer(name="shown [bold] as it is")
    run.records({"loss": [1.0] * 20})
    log = tmp_path / "train.jsonl"
    log.write_text("\n".join(f'{{"step": {step}, "loss": 1.0}}' for step in range(40)))
    given = {
        "runs": ["runs", "list", "--limit", "10000", f"id:{run.run}"],
        "show": ["runs", "show", run.run],
        "report": ["report", run.run, "-o", str(tmp_path / "[bold]a long name of a report.html")],
        "export": ["export", str(tmp_path / "out"), "--filter", f"id:{run.run}"],
        "import": ["import", str(log), "--project", "progress"],
    }
    return lambda command: given[command]


@pytest.mark.parametrize("columns", represented([40, 80]))
@pytest.mark.parametrize(
    ("command", "look"),
    represented(product(SHOWN, PYTHONS), ("runs", "plain"), *((command, "rich") for command in SHOWN)),
)
def test_it_appears_in_one_line_and_disappears(
    server: Any,
    held: HeldServer,
    arguments: Callable[[str], list[str]],
    command: str,
    look: str,
    columns: int,
) -> None:
    """While the server does not answer; at the end, only the results are on the screen."""
    environ = {"TOCSIN_URL": held.url, "TOCSIN_TOKEN": token(server, "admin")}
    with Terminal([*PYTHONS[look], *arguments(command)], environ, columns) as terminal:
        terminal.wait_for(lambda lines: bool(lines))
        shown = terminal.screen.lines
        held.release()
        screen, _ = terminal.end()
    assert [line.split(" ")[0] for line in shown] == [SHOWN[command]]
    assert terminal.process.returncode == 0, screen
    assert screen
    assert not any(SHOWN[command] in line for line in screen)


@pytest.mark.parametrize("command", ["runs", "report"])
def test_standard_output_stays_clean(
    server: Any, held: HeldServer, arguments: Callable[[str], list[str]], command: str
) -> None:
    """A pipe gets what it gets without a terminal, and the terminal is empty at the end."""
    environ = {"TOCSIN_URL": held.url, "TOCSIN_TOKEN": token(server, "admin")}
    with Terminal([*TOCSIN, *arguments(command)], environ, piped=True) as terminal:
        terminal.wait_for(lambda lines: bool(lines))
        held.release()
        screen, out = terminal.end()
    alone = subprocess.run(
        [*TOCSIN, *arguments(command)],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (screen, out) == ([], alone.stdout)
    assert out


@pytest.mark.parametrize("columns", represented([40, 80]))
def test_diagnose_shows_it_while_it_reads(columns: int) -> None:
    """Also a single log that takes long."""
    with Terminal([*TOCSIN, "diagnose", "-"], {}, columns) as terminal:
        terminal.wait_for(lambda lines: bool(lines))
        shown = terminal.screen.lines
        assert terminal.process.stdin is not None
        terminal.process.stdin.write("".join(f"step={step} loss=1.0\n" for step in range(100)))
        screen, _ = terminal.end()
    assert (len(shown), shown[0].split(" ")[0]) == (1, "Reading")
    assert "Reading" not in "\n".join(screen)
    assert "100 records" in "\n".join(screen)
