"""Subscribed browsers and the server's key, as settings of the installation."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import update

from tocsin_server.core.permissions import Session
from tocsin_server.store import push_subscriptions as store
from tocsin_server.store.database import Database
from tocsin_server.store.notification_config import LINK_KEY, write_choice
from tocsin_server.store.push_subscriptions import SubscriptionRow
from tocsin_server.store.tables import setting

ROW = SubscriptionRow(
    endpoint="https://push.example.net/secret", public_key="p", auth="a", name="Chrome on Android",
    token_id="t_1", token_name="me", digest="d", session=["s", 1, 2], created_ns=1, confirmed_ns=1,
)  # fmt: skip
OTHER = replace(ROW, endpoint="https://push.example.net/other", session=None, created_ns=0)


def test_a_subscription_is_kept_as_it_was_given(database: Database) -> None:
    """Oldest first, with the login that subscribed it; its address is not shown by accident."""
    with database.engine.begin() as connection:
        write_choice(connection, LINK_KEY, "k", 1)
        for row in (ROW, OTHER):
            store.put_subscription(connection, row)
        assert store.subscriptions(connection) == [OTHER, ROW]
    assert ROW.identity.session == Session("t_1", "s", 1, 2)
    assert "secret" not in repr(ROW)
    assert "secret" not in ROW.id


def test_a_subscription_that_is_confirmed_keeps_its_beginning(database: Database) -> None:
    """It has the newest login and name."""
    with database.engine.begin() as connection:
        store.put_subscription(connection, ROW)
        store.put_subscription(connection, replace(ROW, token_id="t_2", created_ns=5, confirmed_ns=5))
        assert store.subscriptions(connection) == [replace(ROW, token_id="t_2", confirmed_ns=5)]


def test_a_removed_subscription_is_gone(database: Database) -> None:
    """Other subscriptions and settings stay."""
    with database.engine.begin() as connection:
        store.put_subscription(connection, ROW)
        store.put_subscription(connection, OTHER)
        store.write_key(connection, "key", 1, keep=True)
        assert store.remove_subscriptions(connection, [ROW.id]) == 1
        assert store.remove_subscriptions(connection, [ROW.id]) == 0
        assert (store.subscriptions(connection), store.read_key(connection)) == ([OTHER], "key")


def test_a_damaged_subscription_is_left_out(database: Database) -> None:
    """The others are notified."""
    with database.engine.begin() as connection:
        store.put_subscription(connection, OTHER)
        for name, value in (("x", {}), ("y", [1]), ("z", {"endpoint": 1})):
            write_choice(connection, store.PREFIX + name, value, 1)
        damaged = replace(ROW, session=["s"])
        store.put_subscription(connection, damaged)
        assert store.subscriptions(connection) == [OTHER]


def test_the_key_is_replaced_only_on_request(database: Database) -> None:
    """Two servers that start together get the same one."""
    with database.engine.begin() as connection:
        assert store.read_key(connection) is None
        store.write_key(connection, "first", 1, keep=True)
        store.write_key(connection, "second", 1, keep=True)
        assert store.read_key(connection) == "first"
        store.write_key(connection, "third", 1, keep=False)
        assert store.read_key(connection) == "third"
        connection.execute(update(setting).where(setting.c.name == store.KEY).values(value=[1]))
        assert store.read_key(connection) is None
