"""Telegram, against a local server that keeps messages and rejects what the Bot API rejects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.server.chat_services import TelegramService
from tests.server.notify.channels.incident_messages import about, follow
from tocsin_server.core.errors import FieldError
from tocsin_server.notify.channels.telegram import KIND
from tocsin_server.notify.outcome import DeliveryError

CHART = b"\x89PNG\r\n\x1a\n\x00"


@pytest.fixture
def telegram() -> Iterator[TelegramService]:
    with TelegramService() as service:
        yield service


def values(telegram: TelegramService, **changes: str) -> dict[str, str]:
    return {"token": telegram.TOKEN, "chat": "-100123", "url": telegram.url} | changes


@pytest.mark.parametrize("picture", [None, CHART])
def test_an_incident_has_one_message_that_is_changed(
    telegram: TelegramService, picture: bytes | None
) -> None:
    """Its text, or the caption of its chart. News is a reply to it."""
    first = replace(about(), picture=picture)
    follow(KIND, values(telegram), first, about("resolved", reason="resolved"))
    message, reply = telegram.shown
    assert (message.edits, message.picture, reply.thread) == (1, picture or b"", "1")
    assert message.text.startswith("<b>Resolved: nonfinite-loss")


def test_a_change_that_changes_nothing_succeeds(telegram: TelegramService) -> None:
    """Telegram rejects it. The reply is sent."""
    sent = follow(KIND, values(telegram), about(), about())
    assert [(one.edits, one.thread) for one in telegram.shown] == [(0, ""), (0, "1")]
    assert sent.receipt is not None


def test_a_caption_is_shortened_and_keeps_its_links(telegram: TelegramService) -> None:
    """Addresses do not count. External text is escaped and mentions nobody."""
    row = {"summary": "<b>&" * 99, "run_name": "@all" * 9, "resume": {"text": "/ckpt" * 99}}
    follow(KIND, values(telegram), replace(about(alert=row), picture=CHART))
    (message,) = telegram.shown
    assert ">Acknowledge</a>" in message.text
    assert "&lt;b&gt;&amp;" in message.text
    assert "@all" not in message.text


def test_addresses_from_a_run_are_not_links(telegram: TelegramService) -> None:
    """Telegram finds them in text without markup."""
    follow(KIND, values(telegram), about(alert={"run_name": "https://evil.example www.evil.example"}))
    text = telegram.shown[0].text
    assert ("https:\u200b//evil" in text, "www.\u200bevil" in text) == (True, True)


def test_a_deleted_message_is_sent_again(telegram: TelegramService) -> None:
    """And the next change is made to the new one."""
    first = follow(KIND, values(telegram), about())
    del telegram.messages["1"]
    follow(KIND, values(telegram), about(), about("resolved"), receipt=first.receipt)
    assert [(one.edits, one.thread) for one in telegram.shown] == [(1, ""), (0, "2")]


@pytest.mark.parametrize(
    ("answer", "permanent", "wait_s"),
    [
        ((429, {}, {"ok": False, "description": "Too Many", "parameters": {"retry_after": 7}}), False, 7.0),
        ((502, {}, None), False, None),
        ((403, {}, {"ok": False, "description": "Forbidden: bot was blocked by the user"}), True, None),
    ],
)
def test_an_error_is_retried_unless_it_would_repeat(
    telegram: TelegramService,
    answer: tuple[int, dict[str, str], object],
    permanent: bool,
    wait_s: float | None,
) -> None:
    """The wait is in the body."""
    telegram.failures.append(answer)
    with pytest.raises(DeliveryError) as caught:
        follow(KIND, values(telegram), about())
    assert (caught.value.permanent, caught.value.retry_after_s) == (permanent, wait_s)


def test_a_rejected_chart_does_not_cost_the_message(telegram: TelegramService) -> None:
    """Such as in a chat that forbids pictures. The text of the message is changed, not a caption."""
    telegram.failures.append((400, {}, {"ok": False, "description": "Bad Request: not enough rights"}))
    follow(KIND, values(telegram), replace(about(), picture=CHART), about("resolved"))
    assert telegram.calls == ["sendMessage", "editMessageText", "sendMessage"]


def test_a_token_cannot_change_the_address() -> None:
    """It is a part of the path."""
    with pytest.raises(FieldError, match=r"config\.token"):
        KIND.read({"token": "1:x/../../y", "chat": "1"}, {}, private=False)
