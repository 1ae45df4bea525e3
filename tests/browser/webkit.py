"""Drive WebKitGTK's MiniBrowser, the engine of Safari, over WebDriver on a virtual screen."""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from tests.conftest import wait_for

ANSWER_S = 60.0


def programs() -> tuple[str, str, str] | None:
    """Return the paths of WebKitWebDriver, MiniBrowser and Xvfb, or None if one is not installed."""
    mini = next(iter(glob.glob("/usr/lib/*/webkit2gtk-4*/MiniBrowser")), None)
    driver, screen = shutil.which("WebKitWebDriver"), shutil.which("Xvfb")
    return (driver, mini, screen) if driver and mini and screen else None


class WebKit:
    """One window of MiniBrowser."""

    def __init__(self, driver: str, browser: str) -> None:
        options = {"binary": browser, "args": ["--automation"]}
        wanted = {"alwaysMatch": {"webkitgtk:browserOptions": options}}
        self._http = httpx.Client(base_url=driver, timeout=ANSWER_S)
        session = self._answer("POST", "/session", {"capabilities": wanted})
        self._http.base_url = f"{driver}/session/{session['sessionId']}"

    def _answer(self, method: str, path: str, body: Any = None) -> Any:
        answer = self._http.request(method, path, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()["value"]

    def go(self, url: str) -> None:
        """Open an address, and wait until it has loaded."""
        self._answer("POST", "/url", {"url": url})

    def ask(self, expression: str) -> Any:
        """Return the plain value of a JavaScript expression."""
        return self._answer("POST", "/execute/sync", {"script": f"return {expression};", "args": []})

    def until(self, expression: str, patience_s: float = 60) -> None:
        """Wait until an expression is true."""
        deadline = time.monotonic() + patience_s
        while not self.ask(f"Boolean({expression})"):
            assert time.monotonic() < deadline, f"waited {patience_s:g} s for {expression}"
            time.sleep(0.1)

    def close(self) -> None:
        """Close the window."""
        self._answer("DELETE", "")
        self._http.close()


@contextlib.contextmanager
def webkit(driver: str, browser: str, screen: str, folder: Path) -> Iterator[WebKit]:
    """Start MiniBrowser on a virtual screen. ``folder`` is empty and receives its output."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    # The sandbox of its processes needs privileges that a container lacks.
    own = {"HOME": str(folder), "WEBKIT_DISABLE_SANDBOX_THIS_IS_DANGEROUS": "1"}
    with _screen(screen) as display, open(folder / "output.txt", "w") as written:
        env = os.environ | own | {"DISPLAY": display}
        command = [driver, f"--port={port}"]
        process = subprocess.Popen(command, stdout=written, stderr=subprocess.STDOUT, env=env)
        try:
            wait_for(lambda: _listens(port), "WebKitWebDriver")
            window = WebKit(f"http://127.0.0.1:{port}", browser)
            yield window
            window.close()
        finally:
            process.terminate()
            process.wait(30)


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


@contextlib.contextmanager
def _screen(program: str) -> Iterator[str]:
    """Start Xvfb on a free display; yield its name."""
    reading, writing = os.pipe()
    command = [program, "-displayfd", str(writing), "-screen", "0", "1440x1200x24"]
    process = subprocess.Popen(command, pass_fds=[writing], stderr=subprocess.DEVNULL)
    os.close(writing)
    try:
        with os.fdopen(reading) as number:
            yield f":{number.readline().strip()}"
    finally:
        process.terminate()
        process.wait(30)
