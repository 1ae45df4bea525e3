"""A client of the live socket for the server's tests."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection

DEADLINE_S = 60.0


class BrowserSocket:
    """The browser's side of the live socket."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    def send(self, message: object) -> None:
        """Send a message as JSON; text is sent unchanged."""
        self.socket.send(message if isinstance(message, str) else json.dumps(message))

    def receive(self, kind: str, true: Callable[[dict[str, Any]], bool] = lambda _: True) -> dict[str, Any]:
        """Return the next message of type ``kind`` for which ``true`` holds."""
        ends = time.monotonic() + DEADLINE_S
        while time.monotonic() < ends:
            message: dict[str, Any] = json.loads(
                self.socket.recv(timeout=DEADLINE_S), parse_constant=_no_json
            )
            if message["type"] == kind and true(message):
                return message
        raise AssertionError(f"received no {kind}")

    def ended(self) -> int | None:
        """Read to the end of the connection; return its close code."""
        try:
            while True:
                self.socket.recv(timeout=DEADLINE_S)
        except ConnectionClosed:
            return self.socket.close_code


def _no_json(word: str) -> None:
    raise AssertionError(f"expected strict JSON, got {word}")
