"""Write the alerts of a run to the trackers that the script uses, on a separate thread.

A tracker may need a request to its server for each alert. Neither the training nor the delivery of records
waits for it.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .options import has_alerts

WAITING = 64
"""Maximum number of alerts that wait to be written; the oldest are dropped."""
TARGETS = 16
"""Maximum number of runs and writers of each tracker that alerts are written to; the newest."""
LEVELS = {"info": "INFO", "warning": "WARN", "critical": "ERROR"}
"""Severity -> the level of W&B and Trackio."""
ACTIVE = ("firing", "recovering")
ORDER = ("info", "warning", "critical")
STATES = {"firing": "firing", "recovering": "recovering", "resolved": "resolved", "ended": "run ended"}

LOG = logging.getLogger("tocsin")


@dataclass(frozen=True)
class Note:
    """One alert as the trackers show it."""

    id: str
    rule: str
    severity: str
    state: str
    summary: str
    step: int | None
    """The step at which it fired."""
    onset_step: int | None
    remedy: str
    url: str
    """The page of the run."""
    incident_url: str
    """The page of the incident; empty if the alert belongs to none."""
    active: tuple[str, ...] = ()
    """Severities of all active alerts of the run, this one included."""
    count: int = 0
    """Number of alerts of the run so far."""

    @property
    def fires(self) -> bool:
        """Whether the alert has just fired, or has become more severe."""
        return self.state == "firing"

    @property
    def title(self) -> str:
        """Severity and rule."""
        return f"tocsin: {self.rule} ({self.severity})"

    @property
    def status(self) -> str:
        """The highest severity of the active alerts, or ``healthy``."""
        return max(self.active, key=ORDER.index, default="healthy")

    @property
    def line(self) -> str:
        """State, step and summary in one line."""
        since = f" since step {self.onset_step}" if self.onset_step is not None else ""
        return f"{self.severity}, {STATES[self.state]}{since}: {self.summary}"

    @property
    def text(self) -> str:
        """Summary, first action and link."""
        action = f"First action: {self.remedy}" if self.remedy else ""
        return "\n\n".join(one for one in (self.summary, action, self.incident_url or self.url) if one)


Write = Callable[[Any, Note], None]
"""Writes an alert to a run or writer of a tracker. May raise."""


class Targets:
    """The runs or writers of one tracker that the script logs to."""

    def __init__(self, tracker: str, write: Write, *, weak: bool = True) -> None:
        self.tracker = tracker
        self._write = write
        self._weak = weak
        self._known: dict[Any, Callable[[], Any]] = {}
        trackers.append(self)

    def add(self, target: Any, key: Any = None) -> None:
        """Write alerts to ``target`` too. It is not kept alive unless the targets are not weak."""
        key = id(target) if key is None else key
        if key in self._known and (not self._weak or self._known[key]() is target):
            return
        self._known[key] = weakref.ref(target) if self._weak else lambda: target
        if len(self._known) > TARGETS:
            del self._known[next(iter(self._known))]

    def write(self, note: Note) -> None:
        """Write an alert to all targets that still exist."""
        for known in tuple(self._known.values()):
            target = known()
            if target is not None and has_alerts(self.tracker):
                self._write(target, note)


trackers: list[Targets] = []
"""The targets of all trackers that the script uses."""


class AlertWriter:
    """Writes the alerts of one run to the trackers. Its thread starts with the first alert."""

    def __init__(self, url: Callable[[], str], server: Callable[[], str]) -> None:
        self._url = url
        self._server = server
        self._severities: dict[str, str] = {}
        """Active alerts and their severity."""
        self._seen: set[str] = set()
        self._waiting: deque[Note] = deque(maxlen=WAITING)
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_writing = False
        self._failed: set[str] = set()

    def take(self, message: Any) -> None:
        """Queue an alert of the server. Called by the sender thread; other messages are ignored."""
        if getattr(message, "state", "") not in STATES or not trackers:
            return
        note = self._note(message)
        with self._wake:
            self._waiting.append(note)
            self._wake.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="tocsin-alerts", daemon=True)
                self._thread.start()

    def flush(self, timeout_s: float) -> None:
        """Wait until everything is written, at most for ``timeout_s`` seconds."""
        ends = time.monotonic() + timeout_s
        with self._wake:
            while (self._waiting or self._is_writing) and (left := ends - time.monotonic()) > 0:
                self._wake.wait(left)

    def _note(self, message: Any) -> Note:
        if message.state in ACTIVE:
            self._severities[message.id] = message.severity
        else:
            self._severities.pop(message.id, None)
        self._seen.add(message.id)
        incident = getattr(message, "incident", "")
        return Note(
            id=message.id,
            rule=message.rule,
            severity=message.severity,
            state=message.state,
            summary=message.summary,
            step=message.fired_step,
            onset_step=message.onset_step,
            remedy=message.remedy,
            url=self._url(),
            incident_url=f"{self._server()}/incidents/{incident}" if incident else "",
            active=tuple(self._severities.values()),
            count=len(self._seen),
        )

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._waiting:
                    self._wake.wait()
                note, self._is_writing = self._waiting.popleft(), True
            for targets in tuple(trackers):
                try:
                    targets.write(note)
                except Exception as error:
                    self._report(targets.tracker, error)
            with self._wake:
                self._is_writing = False
                self._wake.notify_all()

    def _report(self, tracker: str, error: Exception) -> None:
        if tracker not in self._failed:
            self._failed.add(tracker)
            LOG.warning("tocsin: alerts could not be written to %s: %r", tracker, error)
