"""Store notification settings: channels, silences, routing. Functions of a Connection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Row, delete, select, update

from tocsin_server.store.damage import Damaged, checked, values_of
from tocsin_server.store.row_builder import upsert
from tocsin_server.store.tables import channel, notification, setting, silence

ROUTING = "notify.routing"
LINK_KEY = "notify.link-key"
EXPIRED_KEPT_NS = 90 * 86_400 * 10**9
"""How long silences are kept after they end, to explain later why no notification was sent."""


@dataclass(frozen=True, slots=True)
class ChannelRow:
    """A channel with its secret. Never include it in a response."""

    id: str
    name: str
    kind: str
    enabled: bool = True
    limit_per_hour: int = 60
    config: Mapping[str, Any] = field(default_factory=dict)
    secret: Mapping[str, Any] = field(default_factory=dict, repr=False)
    created_ns: int = 0
    updated_ns: int = 0


def channels(connection: Connection) -> list[ChannelRow]:
    """Return every channel, oldest first."""
    return [_channel(row) for row in connection.execute(select(channel).order_by(channel.c.created_ns))]


def read_channel(connection: Connection, channel_id: str) -> ChannelRow | None:
    """Return one channel, or None."""
    row = connection.execute(select(channel).where(channel.c.id == channel_id)).first()
    return None if row is None else _channel(row)


def put_channel(connection: Connection, row: ChannelRow) -> None:
    """Create or update a channel.

    Raises:
        IntegrityError: Another channel has the same name.
    """
    values = {name: getattr(row, name) for name in channel.c.keys()}  # noqa: SIM118 - not a dict
    if connection.execute(update(channel).where(channel.c.id == row.id).values(values)).rowcount == 0:
        connection.execute(channel.insert(), values)


def delete_channel(connection: Connection, channel_id: str) -> bool:
    """Delete a channel and fail its waiting notifications; return False if there is none."""
    gone = connection.execute(delete(channel).where(channel.c.id == channel_id)).rowcount
    waiting = (notification.c.channel_id == channel_id) & notification.c.state.in_(("waiting", "claimed"))
    connection.execute(
        update(notification).where(waiting).values(state="failed", error="The channel was deleted")
    )
    return bool(gone)


def _channel(row: Row[Any]) -> ChannelRow:
    return ChannelRow(**values_of(channel, row))


@dataclass(frozen=True, slots=True)
class SilenceRow:
    """A stored silence; its matchers are text."""

    id: str
    matchers: list[str]
    starts_ns: int
    ends_ns: int
    author: str
    reason: str
    created_ns: int


def silences(connection: Connection, *, ending_after_ns: int = 0) -> list[SilenceRow]:
    """Return the silences that end after ``ending_after_ns``, newest first."""
    query = select(silence).where(silence.c.ends_ns > ending_after_ns).order_by(silence.c.created_ns.desc())
    return [_silence(row) for row in connection.execute(query)]


def read_silence(connection: Connection, silence_id: str) -> SilenceRow | None:
    """Return one silence, or None."""
    row = connection.execute(select(silence).where(silence.c.id == silence_id)).first()
    return None if row is None else _silence(row)


def put_silence(connection: Connection, row: SilenceRow) -> None:
    """Create or update a silence, and delete those that ended long ago."""
    values = {name: getattr(row, name) for name in silence.c.keys()}  # noqa: SIM118
    connection.execute(delete(silence).where(silence.c.ends_ns < row.created_ns - EXPIRED_KEPT_NS))
    if connection.execute(update(silence).where(silence.c.id == row.id).values(values)).rowcount == 0:
        connection.execute(silence.insert(), values)


def expire_silence(connection: Connection, silence_id: str, now_ns: int) -> bool:
    """End a silence now, even if it has not begun; return False if there is none."""
    row = read_silence(connection, silence_id)
    if row is None:
        return False
    ends = {"ends_ns": min(row.ends_ns, now_ns), "starts_ns": min(row.starts_ns, now_ns)}
    connection.execute(update(silence).where(silence.c.id == silence_id).values(ends))
    return True


def _silence(row: Row[Any]) -> SilenceRow:
    return SilenceRow(**values_of(silence, row))


def read_choice(connection: Connection, name: str) -> Any:
    """Return a setting of this installation, or None if it is not set or cannot be read."""
    row = connection.execute(select(setting).where(setting.c.name == name)).first()
    value = None if row is None else checked(row.value, setting, row, "value")
    return None if isinstance(value, Damaged) else value


def write_choice(connection: Connection, name: str, value: Any, now_ns: int, *, keep: bool = False) -> None:
    """Set a setting of this installation; with ``keep`` only if it is not set."""
    insert = upsert(connection, setting)
    later = {"value": insert.excluded.value, "updated_ns": insert.excluded.updated_ns}
    put = (
        insert.on_conflict_do_nothing()
        if keep
        else insert.on_conflict_do_update(index_elements=["name"], set_=later)
    )
    connection.execute(put, {"name": name, "value": value, "updated_ns": now_ns})
