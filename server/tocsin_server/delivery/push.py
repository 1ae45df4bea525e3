"""Provide what web push needs: the server's key, the subscribed browsers, and the number on their icons."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial

from tocsin_server.core.permissions import Identity
from tocsin_server.notify.web_push import PushTargets, Subscription, VapidKey, decoded
from tocsin_server.store import push_subscriptions
from tocsin_server.store.connection import Connection
from tocsin_server.store.database import Database
from tocsin_server.store.incident_rows import count_open
from tocsin_server.store.push_subscriptions import SubscriptionRow
from tocsin_server.store.writer import StoreWriter

log = logging.getLogger("tocsin.notify")
WRITE_S = 30.0


class PushSubscriptions:
    """The subscribed browsers. Its methods block.

    Args:
        database: Where subscriptions are read.
        writer: How they are deleted.
        still_valid: Whether a login is still valid. A browser is not notified after its logout.
    """

    def __init__(
        self, database: Database, writer: StoreWriter, still_valid: Callable[[Identity], bool]
    ) -> None:
        self._database = database
        self._writer = writer
        self._still_valid = still_valid

    def key(self) -> VapidKey:
        """Return the server's key, created at the first call. A damaged one is replaced."""
        with self._database.reader.connect() as connection:
            known = _readable(push_subscriptions.read_key(connection))
        return known or self._writer.call(_made).result(WRITE_S)

    def active(self) -> list[SubscriptionRow]:
        """Return the subscriptions whose login is still valid."""
        with self._database.reader.connect() as connection:
            rows = push_subscriptions.subscriptions(connection)
        return [row for row in rows if self._still_valid(row.identity)]

    def targets(self, only: str | None = None) -> PushTargets:
        """Return what sending needs; ``only``: the id of one browser."""
        rows = [row for row in self.active() if only in (None, row.id)]
        with self._database.reader.connect() as connection:
            count = count_open(connection)
        return PushTargets(self.key(), tuple(map(_subscription, rows)), count, self.forget)

    def forget(self, subscription_id: str) -> None:
        """Delete a subscription that has ended."""
        log.info("the push service ended the subscription %s", subscription_id)
        remove = partial(push_subscriptions.remove_subscriptions, ids=[subscription_id])
        self._writer.call(remove).result(WRITE_S)


def _subscription(row: SubscriptionRow) -> Subscription:
    return Subscription(row.id, row.endpoint, decoded(row.public_key), decoded(row.auth))


def _readable(text: str | None) -> VapidKey | None:
    try:
        return None if text is None else VapidKey(text)
    except ValueError:
        return None


def _made(connection: Connection) -> VapidKey:
    for keep in (True, False):
        known = _readable(push_subscriptions.read_key(connection))
        if known is None:
            push_subscriptions.write_key(connection, VapidKey.new(), time.time_ns(), keep=keep)
    found = _readable(push_subscriptions.read_key(connection))
    assert found is not None
    return found
