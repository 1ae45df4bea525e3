"""A real HTTP receiver on loopback that accepts, rejects, hangs or redirects, as configured."""

from __future__ import annotations

import http.server
import json
import threading
import time
from dataclasses import dataclass, field
from typing import Any


@dataclass
class ReceivedRequest:
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes
    at: float

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Receiver:
    """``answers`` are returned in order, the last one repeatedly: a status, (status, headers), or
    ``hang``."""

    answers: list[Any] = field(default_factory=lambda: [200])
    received: list[ReceivedRequest] = field(default_factory=list)
    release: threading.Event = field(default_factory=threading.Event)
    """Set: hanging requests end."""

    def __post_init__(self) -> None:
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                receiver.received.append(ReceivedRequest(self.path, dict(self.headers), body, time.time()))
                receiver.answer(self)

            def do_GET(self) -> None:
                self.do_POST()

            def log_message(self, *_: Any) -> None:
                """Log nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    def answer(self, request: Any) -> None:
        given = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if given == "hang":
            self.release.wait(60)
            given = 200
        status, headers = given if isinstance(given, tuple) else (given, {})
        try:
            request.send_response(status)
            for name, value in headers.items():
                request.send_header(name, value)
            request.send_header("content-length", "0")
            request.end_headers()
        except OSError:
            return

    def close(self) -> None:
        self.release.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)
