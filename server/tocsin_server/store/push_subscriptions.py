"""Store the browsers that are subscribed to web push, and the server's key. Functions of a Connection.

Each is one of the installation's settings: the key belongs to the database, because subscriptions are valid
for one key only and several servers may share a database.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from sqlalchemy import Connection, delete, select

from tocsin_server.core.permissions import Identity, Scope, Session
from tocsin_server.store.damage import Damaged, checked, warn
from tocsin_server.store.notification_config import read_choice, write_choice
from tocsin_server.store.tables import setting

KEY = "push.vapid-key"
PREFIX = "push.subscription."
MOST, MOST_PER_TOKEN = 200, 50
"""Maximum number of subscribed browsers, in total and of one token."""


@dataclass(frozen=True, slots=True)
class SubscriptionRow:
    """A subscribed browser and the login that subscribed it. Never include it in a response."""

    endpoint: str = field(repr=False)
    public_key: str = field(repr=False)
    auth: str = field(repr=False)
    name: str
    token_id: str
    token_name: str
    digest: str = field(repr=False)
    session: list[Any] | None = field(repr=False)
    """Id, start and expiry of the browser session, or None for a bearer token."""
    created_ns: int
    confirmed_ns: int
    """When a page of that browser was last opened."""

    @property
    def id(self) -> str:
        """Return the id of the subscription, from which its address cannot be derived."""
        return id_of(self.endpoint)

    @property
    def identity(self) -> Identity:
        """Return the login that subscribed the browser."""
        session = None if self.session is None else Session(self.token_id, *self.session)
        return Identity(self.token_id, self.token_name, Scope.READ, "", self.digest, session)


def id_of(endpoint: str) -> str:
    """Return the id of the subscription with this address."""
    return hashlib.sha256(endpoint.encode("utf-8", "replace")).hexdigest()[:32]


def subscriptions(connection: Connection) -> list[SubscriptionRow]:
    """Return all subscribed browsers, oldest first. One that cannot be read is left out."""
    query = select(setting).where(setting.c.name.startswith(PREFIX, autoescape=True))
    found = [_row(row) for row in connection.execute(query)]
    return sorted((row for row in found if row is not None), key=lambda row: (row.created_ns, row.id))


def put_subscription(connection: Connection, row: SubscriptionRow) -> None:
    """Store a subscribed browser, or the newest login and name of a known one."""
    known = next((each for each in subscriptions(connection) if each.id == row.id), row)
    value = {**asdict(row), "created_ns": known.created_ns}
    write_choice(connection, PREFIX + row.id, value, row.confirmed_ns)


def remove_subscriptions(connection: Connection, ids: Iterable[str]) -> int:
    """Delete subscriptions; return how many existed."""
    names = [PREFIX + each for each in ids]
    return connection.execute(delete(setting).where(setting.c.name.in_(names))).rowcount


def read_key(connection: Connection) -> str | None:
    """Return the stored key, or None."""
    found = read_choice(connection, KEY)
    return found if isinstance(found, str) else None


def write_key(connection: Connection, key: str, now_ns: int, *, keep: bool) -> None:
    """Store a key; with ``keep`` only if there is none."""
    write_choice(connection, KEY, key, now_ns, keep=keep)


def _row(row: Any) -> SubscriptionRow | None:
    value = checked(row.value, setting, row, "value")
    if isinstance(value, Damaged):
        return None
    try:
        found = SubscriptionRow(**{each.name: value[each.name] for each in fields(SubscriptionRow)})
        assert found.identity
    except (TypeError, KeyError):
        warn(setting.name, row.name, "value", "expected a subscription")
        return None
    return found
