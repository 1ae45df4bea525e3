"""Data types of reading a log.

A format's parser converts lines to rows, with the file's own names. The Assembly converts rows to records
with tocsin's names, and counts steps and attempts. Callers see only records, facts and unread lines.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Union


@dataclass(frozen=True)
class About:
    """What a tracker knows of one run besides its values."""

    name: str = ""
    project: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    key: str = ""
    """Identifies the run, also when it grows. Empty if only its content identifies it."""
    notes: str = ""
    error: str = ""
    """Why the run failed; empty if it finished, or if that is unknown."""
    began_ns: int = 0
    """Time of records without one, Unix ns; 0 if only the file has a time."""


@dataclass(slots=True)
class Row:
    """The content of one line, with the file's own names.

    ``step`` is a step of the whole run. Without it, the step follows from ``iteration`` within ``epoch`` and
    the length of an epoch (``per_epoch``), or else from the row's number. ``null`` names the fields without a
    number. ``evaluation``: the values are those of an evaluation.
    """

    line: int
    values: dict[str, float]
    step: float | None = None
    epoch: float | None = None
    iteration: float | None = None
    per_epoch: float | None = None
    epochs: float | None = None
    time_ns: int | None = None
    rank: int | None = None
    attempt: int | None = None
    evaluation: bool = False
    between: bool = False
    """It was printed between two records (an overflow message) and belongs to the step after the newest."""
    again: bool = False
    """It adds to the step of the message before it (``Scaler low``)."""
    null: tuple[str, ...] = ()
    ours: bool = False
    """The values have tocsin's names already, and are written in full."""
    binary: bool = False
    """The values were stored as floats, not printed."""

    @property
    def is_placed(self) -> bool:
        """Whether it has a step, an epoch or an iteration."""
        return self.step is not None or self.epoch is not None or self.iteration is not None


@dataclass(slots=True)
class Restart:
    """A new run begins in the same file, because the header is repeated."""

    line: int


@dataclass(slots=True)
class Unread:
    """A line that should be a record and could not be parsed."""

    line: int
    why: str


@dataclass(slots=True)
class Fact:
    """An event of docs/internals/protocol.md: kind and data."""

    line: int
    kind: str
    data: dict[str, Any] = field(default_factory=dict)


Parsed = Union[Row, Restart, Unread, Fact]
"""Output of a format's parser."""


@dataclass(slots=True)
class LogRecord:
    """The values of one writer at one step, with tocsin's names. ``attempt`` counts the runs in the file from
    0.
    """

    line: int
    step: int
    values: dict[str, float]
    time_ns: int | None = None
    attempt: int = 0
    rank: int = 0
    copy: int = 0
    """Index of the process, if several processes of the same rank print into one file."""


Item = Union[LogRecord, Fact, Unread]
"""Output of reading a log."""
