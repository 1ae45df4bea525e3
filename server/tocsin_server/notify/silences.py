"""Silences: for a while, alerts that match are not told. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tocsin_server.notify.matching import Matcher, all_hold


@dataclass(frozen=True, slots=True)
class Silence:
    """From ``starts_ns`` to ``ends_ns`` (Unix ns); who asked for it and why."""

    id: str
    matchers: tuple[Matcher, ...]
    starts_ns: int
    ends_ns: int
    author: str
    reason: str
    created_ns: int = 0

    def state(self, now_ns: int) -> str:
        """``pending``, ``active`` or ``expired``, as Alertmanager says it."""
        if now_ns < self.starts_ns:
            return "pending"
        return "active" if now_ns < self.ends_ns else "expired"

    def mutes(self, labels: Mapping[str, str], now_ns: int) -> bool:
        """Whether an alert with these labels is silenced now."""
        return self.state(now_ns) == "active" and all_hold(self.matchers, labels)


def silenced_by(labels: Mapping[str, str], silences: Iterable[Silence], now_ns: int) -> tuple[str, ...]:
    """Ids of the silences that mute an alert with these labels now."""
    return tuple(silence.id for silence in silences if silence.mutes(labels, now_ns))
