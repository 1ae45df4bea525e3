"""Settings of users as rows: channels, silences, one routing document."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy.exc import IntegrityError

from tocsin_server.store import notification_config, outbox
from tocsin_server.store.database import Database
from tocsin_server.store.notification_config import EXPIRED_KEPT_NS, ChannelRow, SilenceRow
from tocsin_server.store.outbox import Notification

CHANNEL = ChannelRow("c1", "mail", "webhook", config={"a": 1}, secret={"url": "https://h/x"}, created_ns=1)


def test_a_channel_is_kept_as_it_was_given(database: Database) -> None:
    """Including secrets, which its public form does not contain."""
    with database.engine.begin() as connection:
        notification_config.put_channel(connection, CHANNEL)
        notification_config.put_channel(connection, replace(CHANNEL, enabled=False))
        assert notification_config.channels(connection) == [replace(CHANNEL, enabled=False)]
    assert "https://h/x" not in repr(CHANNEL)


def test_two_channels_may_not_share_a_name(database: Database) -> None:
    """The database enforces it."""
    with database.engine.begin() as connection:
        notification_config.put_channel(connection, CHANNEL)
    with database.engine.connect() as connection, pytest.raises(IntegrityError):
        notification_config.put_channel(connection, replace(CHANNEL, id="c2"))


def test_what_waits_for_a_deleted_channel_is_given_up(database: Database) -> None:
    """The delivery has the reason."""
    with database.engine.begin() as connection:
        notification_config.put_channel(connection, CHANNEL)
        outbox.enqueue(connection, Notification("n1", "c1", "g", "alerts", "t"))
        assert notification_config.delete_channel(connection, "c1")
        assert not notification_config.delete_channel(connection, "c1")
        item = outbox.read(connection, "n1")
    assert item is not None
    assert (item.state, item.error) == ("failed", "The channel was deleted")


def test_a_silence_that_ended_long_ago_is_forgotten(database: Database) -> None:
    """After 90 days, when the next one is created."""
    old = SilenceRow("s1", ['a="b"'], 0, 10, "ann", "r", 0)
    with database.engine.begin() as connection:
        notification_config.put_silence(connection, old)
        notification_config.put_silence(
            connection, replace(old, id="s2", created_ns=EXPIRED_KEPT_NS, ends_ns=EXPIRED_KEPT_NS)
        )
        assert len(notification_config.silences(connection)) == 2
        notification_config.put_silence(
            connection, replace(old, id="s3", created_ns=EXPIRED_KEPT_NS + 11, ends_ns=10**18)
        )
        assert {row.id for row in notification_config.silences(connection)} == {"s2", "s3"}


def test_a_setting_may_be_set_once_or_replaced(database: Database) -> None:
    """``keep`` does not replace an existing value: two servers that start together use the same key."""
    with database.engine.begin() as connection:
        assert notification_config.read_choice(connection, "x") is None
        notification_config.write_choice(connection, "x", "one", 1, keep=True)
        notification_config.write_choice(connection, "x", "two", 2, keep=True)
        assert notification_config.read_choice(connection, "x") == "one"
        notification_config.write_choice(connection, "x", {"three": 3}, 3)
        assert notification_config.read_choice(connection, "x") == {"three": 3}
