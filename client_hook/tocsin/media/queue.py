"""Send the objects that a script logs: encoded by the sender's thread, each content once, at most 500."""

from __future__ import annotations

import base64
import hashlib
import threading
from collections import deque
from collections.abc import Callable
from time import monotonic, sleep
from typing import Any, Protocol

from ..core.redaction import Redactor
from .objects import CONTENT_BYTES, Media

MOST = 500
"""Maximum number of objects of a run and process: at most 30 MB in the database."""
LONGEST_NAME = 500
WAITING = 16
"""Maximum number of objects that wait for the sender's thread."""
WHAT = "images, histograms, texts and tables"
PROBLEMS = 16
"""Maximum number of warnings about objects that cannot be shown."""
FINISH_S = 1.0
"""Longest wait for devices at the end of the run, s."""
POLL_S = 0.005


class Reporter(Protocol):
    """The part of the reporter that is used here."""

    redact: Redactor

    def add_event_later(self, kind: str, data: dict[str, Any], step: int | None = None) -> None: ...
    def warn(self, text: str) -> None: ...


class MediaQueue:
    """The objects of one run that are not sent yet."""

    def __init__(self, reporter: Reporter, clock: Callable[[], float] = monotonic) -> None:
        self._reporter = reporter
        self._clock = clock
        self._waiting: deque[tuple[str, int, Media]] = deque()
        self._sent: set[str] = set()
        self._count = self._problems = 0
        self._lock = threading.Lock()

    def put(self, name: str, value: Media, step: int) -> None:
        """Queue an object; those beyond the limits are left out, with one warning for each limit."""
        if value.problem:
            if self._problems < PROBLEMS:
                self._problems += 1
                self._reporter.warn(f'tocsin: "{name}" is not shown: {value.problem}.')
        elif self._count >= MOST:
            self._reporter.warn(f"tocsin: further {WHAT} are left out: a run has at most {MOST}.")
        elif len(self._waiting) >= WAITING:
            self._reporter.warn(
                f"tocsin: {WHAT} are left out while {WAITING} wait to be encoded. Log them less often."
            )
        else:
            self._count += 1
            self._waiting.append((name, step, value))

    def sample(self) -> None:
        """Encode what has arrived from its device. Called by the sender's thread."""
        if not self._waiting:
            return
        with self._lock:
            while self._waiting and self._waiting[0][2].is_ready:
                self._send(*self._waiting.popleft())

    def finish(self) -> None:
        """Encode the rest at the end of the run; what does not arrive in time is left out."""
        ends = self._clock() + FINISH_S
        self.sample()
        while self._waiting and self._clock() < ends:
            sleep(POLL_S)
            self.sample()

    def _send(self, name: str, step: int, value: Media) -> None:
        try:
            content, facts = value.content(self._reporter.redact)
            if len(content) > CONTENT_BYTES:
                limit = f"it has {len(content):,} bytes, more than {CONTENT_BYTES:,}"
                self._reporter.warn(f'tocsin: "{name}" is not shown: {limit}. Make it smaller.')
                return
            digest = hashlib.sha256(content).hexdigest()[:32]
            data = {
                "name": name[:LONGEST_NAME],
                "type": value.kind,
                "hash": digest,
                "bytes": len(content),
                **facts,
            }
            if value.caption:
                data["caption"] = value.caption
            if digest not in self._sent:
                self._sent.add(digest)
                body = {"hash": digest, "type": value.kind, "content": base64.b64encode(content).decode()}
                self._reporter.add_event_later("media-content", body, step)
            self._reporter.add_event_later("media", data, step)
        except Exception as error:
            self._reporter.warn(f'tocsin: "{name}" is not shown: {type(error).__name__}: {error}.')
