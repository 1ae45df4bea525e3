"""Drive the Firefox of the system over WebDriver BiDi, the protocol it speaks without a driver."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

START_S, ANSWER_S = 60.0, 60.0
CONTROL, ESCAPE = "\ue009", "\ue00c"
"""Keys without a letter, as WebDriver names them."""


INTERRUPTED = "A ServiceWorker intercepted the request"
"""In what Firefox writes, sometimes late, about requests of a page that was left before they ended."""


class Firefox:
    """One tab of a headless Firefox.

    Attributes:
        said: what pages wrote to the console, and their uncaught errors.
    """

    def __init__(self, socket: ClientConnection) -> None:
        self.said: list[str] = []
        self._socket = socket
        self._id = 0
        self.command("session.new", capabilities={})
        self.command("session.subscribe", events=["log.entryAdded"])
        tree = self.command("browsingContext.getTree")
        self._tab = tree["contexts"][0]["context"]

    def command(self, method: str, **params: Any) -> Any:
        """Send a command and return its result.

        Raises:
            AssertionError: Firefox refused it.
        """
        self._id += 1
        self._socket.send(json.dumps({"id": self._id, "method": method, "params": params}))
        while True:
            message = json.loads(self._socket.recv(ANSWER_S))
            if message.get("method") == "log.entryAdded":
                if INTERRUPTED not in message["params"]["text"]:
                    self.said.append(f"{message['params']['level']}: {message['params']['text']}")
            elif message.get("id") == self._id:
                assert message["type"] == "success", message
                return message["result"]

    def go(self, url: str) -> None:
        """Open an address, and wait until it has loaded."""
        self.command("browsingContext.navigate", context=self._tab, url=url, wait="complete")

    def ask(self, expression: str) -> Any:
        """Return the value of a JavaScript expression, which may be a promise of a plain value."""
        target = {"context": self._tab}
        answer = self.command("script.evaluate", expression=expression, target=target, awaitPromise=True)
        assert answer["type"] == "success", answer
        return answer["result"].get("value")

    def press(self, key: str, held: str = "") -> None:
        """Press a key and release it, while ``held`` is down."""
        down, up = ([{"type": kind, "value": each} for each in order] for kind, order in (
            ("keyDown", held + key), ("keyUp", key + held)))  # fmt: skip
        keys = {"type": "key", "id": "keyboard", "actions": [*down, *up]}
        self.command("input.performActions", context=self._tab, actions=[keys])

    def until(self, expression: str, patience_s: float = 60) -> None:
        """Wait until an expression is true."""
        deadline = time.monotonic() + patience_s
        while not self.ask(f"Boolean({expression})"):
            assert time.monotonic() < deadline, f"waited {patience_s:g} s for {expression}: {self.said}"
            time.sleep(0.1)


@contextlib.contextmanager
def firefox(path: str, profile: Path) -> Iterator[Firefox]:
    """Start Firefox with this empty profile, and stop it at the end."""
    (profile / "user.js").write_text('user_pref("browser.shell.checkDefaultBrowser", false);\n')
    command = [path, "--headless", "--no-remote", "--remote-debugging-port", "0", "--profile", str(profile)]
    with open(profile / "output.txt", "w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        with connect(f"{_address(process, profile / 'output.txt')}/session", max_size=None) as socket:
            yield Firefox(socket)
    finally:
        process.terminate()
        process.wait(30)


def _address(process: subprocess.Popen[bytes], output: Path) -> str:
    deadline = time.monotonic() + START_S
    while True:
        found = re.search(r"WebDriver BiDi listening on (ws://\S+)", output.read_text())
        if found:
            return found[1]
        waiting = process.poll() is None and time.monotonic() < deadline
        assert waiting, f"Firefox did not start: {output.read_text()[-500:]}"
        time.sleep(0.1)
