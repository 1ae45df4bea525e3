"""What reading a log yields: rows as a format finds them, and records, facts and faults as others see them.

A format's parser makes a :class:`Row` of what one line says, in the file's own names. The
:class:`~tocsin.importers.assembly.Assembly` turns rows into :class:`LogRecord` in tocsin's names and
counts steps and attempts; whoever reads a log sees records, facts and unread lines only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Union


@dataclass(slots=True)
class Row:
    """What one line says, in the file's names.

    ``step`` is a step of the whole run. Without one, ``iteration`` within ``epoch`` and the length
    of an epoch (``per_epoch``) give it; without these, the row's number. ``null`` names what stood
    there as "no number". ``evaluation``: the values are those of an evaluation.
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
    """Said between two records (an overflow message): it belongs to the step after the newest."""
    again: bool = False
    """Of such: it says more of the step of the sentence before it (``Scaler low``)."""
    null: tuple[str, ...] = ()
    coarse: bool = False
    """The learning rate is printed with less than two digits of its own: 0.000002, 0.000000."""
    ours: bool = False
    """The values have tocsin's names already."""


@dataclass(slots=True)
class Restart:
    """A new run begins in the same file: a header came again."""

    line: int


@dataclass(slots=True)
class Unread:
    """A line that should have been a record and could not be read."""

    line: int
    why: str


@dataclass(slots=True)
class Fact:
    """What is not a number per step: an event of docs/protocol.md, by kind and data."""

    line: int
    kind: str
    data: dict[str, Any] = field(default_factory=dict)


Parsed = Union[Row, Restart, Unread, Fact]
"""What a format's parser yields."""


@dataclass(slots=True)
class LogRecord:
    """What one writer says of one step, in tocsin's names. ``attempt`` counts the runs of the file from 0."""

    line: int
    step: int
    values: dict[str, float]
    time_ns: int | None = None
    attempt: int = 0
    rank: int = 0
    copy: int = 0
    """Which of several processes of the same rank that print into one file it is of, from 0 on."""
    coarse: bool = False
    """Its learning rates are known to less than two digits: to be shown, not to be judged."""

    def judged(self) -> dict[str, float]:
        """The values that rules may see."""
        if not self.coarse:
            return self.values
        return {name: value for name, value in self.values.items() if name.partition("/")[0] != "lr"}


Item = Union[LogRecord, Fact, Unread]
"""What reading a log yields."""
