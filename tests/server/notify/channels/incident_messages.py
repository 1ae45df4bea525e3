"""Messages about one incident, as the channels that change their messages get them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.server.notify.conftest import facts_of
from tests.server.notify.test_message import LINKS, alert_of, body
from tocsin_server.notify.channel import Kind, Sending
from tocsin_server.notify.message import Message, message_of
from tocsin_server.notify.outcome import Sent

SENDING = Sending(30, private=True, now_s=1_800_000_000, thread="0123456789abcdef")


def about(
    state: str = "firing",
    summary: str = "Loss is NaN",
    *,
    reason: str = "new",
    alert: Any = None,
    **more: Any,
) -> Message:
    """Return a message about one alert."""
    row = alert_of(facts_of("nonfinite-loss", "critical", state, summary=summary), new=reason == "new")
    return message_of("n1", "alerts", body(row | (alert or {}), reason=reason) | more, LINKS)


def follow(kind: Kind, values: dict[str, Any], *messages: Message, **sending: Any) -> Sent:
    """Send messages about one incident, each with the receipt of the one before; return the last result."""
    sent = Sent(receipt=sending.pop("receipt", None))
    for message in messages:
        answer = kind.send(values, message, replace(SENDING, receipt=sent.receipt, **sending))
        assert isinstance(answer, Sent)
        sent = answer if answer.receipt else Sent(answer.detail, sent.receipt)
    return sent
