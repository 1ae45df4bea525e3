"""Silences: mute matching alerts for some time. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tocsin_server.core.errors import FieldError
from tocsin_server.notify.matching import Matcher, all_hold, parse_matchers, size_of

LARGEST_PATTERNS = 2_000
"""Limit of the instructions of one silence's regular expressions (see ``matching.LARGEST_PATTERN``)."""
LARGEST_OF_ALL = 20_000
"""The same for all unexpired silences together, because every alert is compared with each of them."""
MOST = 1_000
"""Maximum number of unexpired silences."""


@dataclass(frozen=True, slots=True)
class Silence:
    """A silence from ``starts_ns`` to ``ends_ns`` (Unix ns), with its author and reason."""

    id: str
    matchers: tuple[Matcher, ...]
    starts_ns: int
    ends_ns: int
    author: str
    reason: str
    created_ns: int = 0
    problem: str = ""
    """Why its matchers cannot be read; such a silence has no effect."""

    def state(self, now_ns: int) -> str:
        """Return ``pending``, ``active`` or ``expired``, as in Alertmanager."""
        if now_ns < self.starts_ns:
            return "pending"
        return "active" if now_ns < self.ends_ns else "expired"

    def mutes(self, labels: Mapping[str, str], now_ns: int) -> bool:
        """Return whether an alert with these labels is silenced now."""
        if self.problem or self.state(now_ns) != "active":
            return False
        return all_hold(self.matchers, labels)


def read_matchers(texts: object) -> tuple[Matcher, ...]:
    """Return the matchers of a silence. Raises FieldError."""
    matchers = parse_matchers(texts, "matchers", least=1)
    if (size := size_of(matchers)) > LARGEST_PATTERNS:
        expected = f"regular expressions of at most {LARGEST_PATTERNS} instructions in all"
        raise FieldError("matchers", expected, size)
    return matchers


def check_room(wanted: Silence, others: Iterable[Silence]) -> None:
    """Raise FieldError if ``wanted`` exceeds the limits together with ``others``, which have not expired."""
    beside = [other for other in others if other.id != wanted.id]
    if len(beside) >= MOST:
        raise FieldError(
            "silences", f"at most {MOST} that have not expired; delete some first", len(beside) + 1
        )
    size = size_of(wanted.matchers) + sum(size_of(other.matchers) for other in beside)
    if size > LARGEST_OF_ALL:
        expected = (
            f"regular expressions of at most {LARGEST_OF_ALL} instructions in all silences; delete some first"
        )
        raise FieldError("matchers", expected, size)


def silenced_by(labels: Mapping[str, str], silences: Iterable[Silence], now_ns: int) -> tuple[str, ...]:
    """Return the ids of the silences that mute an alert with these labels now."""
    return tuple(silence.id for silence in silences if silence.mutes(labels, now_ns))
