"""Servers for the tests of this folder: an application in a thread, and the real command as a process."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

DEADLINE_S = 60.0


def wait_until(true: Callable[[], Any], what: str, deadline_s: float = DEADLINE_S) -> Any:
    """The first truthy answer of ``true``; fails with ``what`` after the deadline."""
    ends = time.monotonic() + deadline_s
    while time.monotonic() < ends:
        found = true()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError(f"waited {deadline_s} s for {what}")


@pytest.fixture
def eventually() -> Callable[..., Any]:
    """``eventually(lambda: condition, "what")``: waits for a condition, fails after a minute."""
    return wait_until


@contextlib.contextmanager
def serving(app: Any) -> Iterator[str]:
    """``app`` on a free loopback port in a thread of this process; its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(app, ws="websockets-sansio", log_config=None, timeout_graceful_shutdown=5)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            wait_until(lambda: server.started or not thread.is_alive(), "the application to start")
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(DEADLINE_S)


@pytest.fixture
def serve_app() -> Callable[[Any], contextlib.AbstractContextManager[str]]:
    """``with serve_app(app) as address``: an application on a real socket."""
    return serving


@dataclass
class ServerProcess:
    """A running ``tocsin-server serve`` and what it printed."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)
    base: str = ""
    token: str = ""
    trainer_token: str = ""

    @property
    def text(self) -> str:
        return "".join(self.lines)

    @property
    def headers(self) -> dict[str, str]:
        """The admin token as a header."""
        return {"authorization": f"Bearer {self.token}"}

    def get(self, path: str, **params: Any) -> Any:
        """The JSON of a GET under /api/v1 with the admin token; fails on any other status than 200."""
        answer = httpx.get(f"{self.base}/api/v1{path}", params=params, headers=self.headers, timeout=30)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Sends a signal and waits for the end; the exit status."""
        self.process.send_signal(number)
        return self.process.wait(DEADLINE_S)


def _read(server: ServerProcess) -> None:
    assert server.process.stdout is not None
    for line in server.process.stdout:
        server.lines.append(line)


def _understand(server: ServerProcess) -> bool:
    found = re.search(r"^\s+(\S+)/login\?token=(\S+)$", server.text, re.MULTILINE)
    trainer = re.search(r'token="(\S+)"', server.text)
    if not (found and trainer and "Ctrl-C" in server.text):
        return False
    server.base, server.token, server.trainer_token = found[1], found[2], trainer[1]
    return True


@contextlib.contextmanager
def server_process(data_dir: Path, *options: str, **environ: str) -> Iterator[ServerProcess]:
    """A real server on ``data_dir`` and a free port; stopped, killed if need be, at the end."""
    command = [sys.executable, "-m", "tocsin_server", "serve", "--port", "0", "--data-dir", str(data_dir)]
    with subprocess.Popen(
        [*command, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"} | environ,
        cwd=data_dir,
    ) as process:
        server = ServerProcess(process)
        reader = threading.Thread(target=_read, args=(server,))
        reader.start()
        try:
            wait_until(lambda: _understand(server) or process.poll() is not None, "the server to start")
            assert process.poll() is None, server.text
            yield server
        finally:
            _end(process)
            reader.join(DEADLINE_S)


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(DEADLINE_S / 2)
    except subprocess.TimeoutExpired:
        process.kill()
        raise


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[Callable[..., ServerProcess]]:
    """``start_server(*options, data_dir=...)``: real server processes, stopped after the test."""
    with contextlib.ExitStack() as stack:

        def start(*options: str, data_dir: Path = tmp_path, **environ: str) -> ServerProcess:
            return stack.enter_context(server_process(data_dir, *options, **environ))

        yield start


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One real server process for all tests that do not stop it; use run names of your own."""
    with server_process(tmp_path_factory.mktemp("server")) as running:
        yield running
