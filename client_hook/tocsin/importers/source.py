"""Sources of runs: what every log, folder and database of a tracker offers to its readers."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from .assembly import Assembly
from .items import About, Item, LogRecord, Parsed, Row, Unread

FIRST_UNREAD = 10
"""Number of unread lines whose numbers are kept. All of them are counted."""
BROKEN = (OSError, EOFError, zlib.error, sqlite3.Error)
"""Errors of reading a truncated or damaged file. A gzip file raises them only in its middle."""


class UnreadableLogError(ValueError):
    """The file cannot be opened, or has no known format."""


class Counts:
    """Convert parsed rows to records, and count what could not be read."""

    def __init__(self) -> None:
        self.records = 0
        self.unread = 0
        self.first_unread: list[Unread] = []
        self._assembly = Assembly()

    @property
    def names_left_out(self) -> int:
        """Number of names beyond the limit of series per file."""
        return len(self._assembly.names.left_out)

    @property
    def went_back(self) -> int:
        """Number of steps below the previous one without a new run: rewinds, or several writers."""
        return self._assembly.steps.went_back

    def take(self, parsed: Iterator[Parsed]) -> Iterator[Item]:
        """Yield records, facts and unread lines in order."""
        for item in self._assembly.take(parsed):
            if isinstance(item, LogRecord):
                self.records += 1
            elif isinstance(item, Unread):
                self.unread += 1
                if len(self.first_unread) < FIRST_UNREAD:
                    self.first_unread.append(item)
            yield item


class Source(Protocol):
    """One run that can be read: a log file, or one run of a tracker."""

    @property
    def path(self) -> Path:
        """The file or folder that contains it."""

    @property
    def kind(self) -> str:
        """The name of the format."""

    @property
    def about(self) -> About:
        """What the tracker knows of the run."""

    @property
    def planned_steps(self) -> int | None:
        """Planned number of steps, or None if unknown."""

    @property
    def counts(self) -> Counts:
        """What was read so far."""

    @property
    def broken(self) -> str:
        """Why it could not be read to its end; empty if it could."""

    def items(self) -> Iterator[Item]:
        """Yield records, facts and unread lines from the beginning, once."""

    def content(self) -> Iterator[bytes]:
        """Yield what identifies a run without an id: of a run that grew, this begins as before."""


@dataclass
class TrackedRun:
    """One run of a tracker: a folder, or some rows of a database. ``read`` yields it from the beginning."""

    path: Path
    kind: str
    about: About
    read: Callable[[], Iterator[Parsed]]
    planned_steps: int | None = None
    counts: Counts = field(default_factory=Counts)
    broken: str = ""

    def items(self) -> Iterator[Item]:
        """Yield records, facts and unread lines, up to the end or to where the source is damaged.

        Raises:
            UnreadableLogError: It is damaged before the first record.
        """
        try:
            yield from self.counts.take(self.read())
        except BROKEN as error:
            self.broken = reason(error)
        if self.broken and not self.counts.records:
            raise UnreadableLogError(f"{self.path}: {self.broken}")

    def content(self) -> Iterator[bytes]:
        """Yield each row as text."""
        try:
            for item in self.read():
                if isinstance(item, Row):
                    yield repr((item.step, item.epoch, sorted(item.values.items()))).encode()
        except BROKEN:
            return


@dataclass(frozen=True)
class UnreadableSource:
    """A file that belongs to a tracker and cannot be read, and why."""

    path: Path
    why: str


def reason(error: Exception) -> str:
    """Return why a file cannot be read."""
    return getattr(error, "strerror", None) or str(error).rstrip(".") or type(error).__name__
