"""Notifications inside tocsin's own pages: kept by the server, read by ``GET /api/v1/notifications``.

There is nothing to send: being in the outbox as sent is being there for every page.
"""

from __future__ import annotations

from tocsin_server.notify.channel import Kind, Sending, Values
from tocsin_server.notify.message import Message


def check(values: Values, private: bool) -> None:
    """Nothing can be wrong."""


def send(values: Values, message: Message, sending: Sending) -> str:
    """It is stored already."""
    return "kept for the pages"


KIND = Kind("browser", "Browser", (), check, send)
