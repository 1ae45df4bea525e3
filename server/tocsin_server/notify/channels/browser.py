"""Notifications inside tocsin's pages: stored by the server, read by ``GET /api/v1/notifications``.

Nothing is sent: pages show every notification that the outbox marks as sent.
"""

from __future__ import annotations

from tocsin_server.notify.channel import Kind, Sending, Values
from tocsin_server.notify.message import Message


def check(values: Values, private: bool) -> None:
    """Accept any settings."""


def send(values: Values, message: Message, sending: Sending) -> str:
    """Do nothing: the notification is stored already."""
    return "shown in open pages"


KIND = Kind("browser", "Browser", (), check, send)
