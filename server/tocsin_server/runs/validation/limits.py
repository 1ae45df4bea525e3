"""The limits of sizes, counts and numbers."""

from __future__ import annotations

from dataclasses import dataclass

from tocsin_server.core.settings import Settings

HIGHEST = 1 << 62
"""Exclusive limit of numbers and times, so that adding a clock offset fits the databases' 64 bits."""
MOST_RECORDS = 1 << 20
"""Maximum records per message; a frame of the default size cannot contain more than a quarter of it."""
SMALL_FRAME = 64 << 10
"""A message up to this size is decoded directly, because its size bounds the memory that it needs."""
WIRE_FACTOR = 3
"""Maximum ratio of the length of plain data in msgpack to that in JSON (9 bytes for the number ``1.0``)."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of sizes and counts for one training process."""

    frame_bytes: int = 4 << 20
    series: int = 512
    name_bytes: int = 256
    records_per_s: int = 20_000
    event_bytes: int = 64 << 10
    events_per_s: int = 100
    config_bytes: int = 1 << 20

    def as_message(self) -> dict[str, int]:
        """Return the limits for the ``welcome`` message."""
        return {
            "frame_bytes": self.frame_bytes,
            "series": self.series,
            "name_bytes": self.name_bytes,
            "records_per_s": self.records_per_s,
            "event_bytes": self.event_bytes,
            "events_per_s": self.events_per_s,
        }


def limits_of(settings: Settings) -> Limits:
    """Return the limits of docs/internals/protocol.md with the values of this server."""
    return Limits(
        frame_bytes=settings.limit_frame_bytes,
        series=settings.limit_series,
        name_bytes=settings.limit_name_bytes,
        records_per_s=settings.limit_records_per_s,
        event_bytes=settings.limit_event_bytes,
        events_per_s=settings.limit_events_per_s,
        config_bytes=settings.limit_config_bytes,
    )
