"""A channel that fails in the middle of an update: the retry makes the update whole and doubles nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.server.chat_services import ChatService, DiscordService, SlackService, TelegramService
from tests.server.notify.channels.incident_messages import about, follow
from tocsin_server.notify.channels import kinds
from tocsin_server.notify.outcome import DeliveryError

PASSED: Any = (0, {}, None)
FAILED: Any = (503, {}, None)
SERVICES: dict[str, tuple[type[ChatService], Callable[[Any], dict[str, str]]]] = {
    "slack": (SlackService, lambda s: {"token": s.TOKEN, "channel": "#training", "url": s.url}),
    "discord": (DiscordService, lambda s: {"url": s.url + s.PATH}),
    "telegram": (TelegramService, lambda s: {"token": s.TOKEN, "chat": "-100123", "url": s.url}),
}


@pytest.mark.parametrize("failures", [[FAILED], [PASSED, FAILED]], ids=["change", "reply"])
@pytest.mark.parametrize("name", SERVICES)
def test_a_failed_update_is_repeated_without_another_message(name: str, failures: list[Any]) -> None:
    """The change is repeated; the reply that notifies people arrives once."""
    made, values = SERVICES[name]
    end = about("resolved", reason="resolved")
    with made() as service:
        first = follow(kinds()[name], values(service), about())
        service.failures += failures
        with pytest.raises(DeliveryError) as caught:
            follow(kinds()[name], values(service), end, receipt=first.receipt)
        assert not caught.value.permanent
        follow(kinds()[name], values(service), end, receipt=first.receipt)
        message, reply = service.shown
    assert (message.edits > 0, reply.edits) == (True, 0)
    assert "Resolved" in message.text
