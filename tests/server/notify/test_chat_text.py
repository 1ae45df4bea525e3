"""The short text for chat services fits and says what it leaves out."""

from __future__ import annotations

import pytest

from tests.server.notify.conftest import facts_of
from tests.server.notify.test_message import LINKS, alert_of, body
from tocsin_server.notify.channels import discord, slack, telegram
from tocsin_server.notify.chat_text import chat_text, utf16_size
from tocsin_server.notify.message import message_of

MARKUPS = (slack.MARKUP, discord.MARKUP, telegram.MARKUP)


@pytest.mark.parametrize("markup", MARKUPS, ids=["slack", "discord", "telegram"])
@pytest.mark.parametrize("letter", ["x", "\U0001f525", "*", "&"])
def test_alerts_that_do_not_fit_are_counted(markup: object, letter: str) -> None:
    """Whether the service counts characters or UTF-16 units."""
    first, *others = [
        alert_of(facts_of(f"rule-{each}", "critical", incident="f-a.1", summary=letter * 400))
        for each in range(50)
    ]
    message = message_of("n1", "alerts", body(first, *others, left_out=7), LINKS)
    text = chat_text(message, markup, 1024)  # type: ignore[arg-type]
    listed = text.count("\n- ") - 1
    assert text.endswith(f"\n- and {49 - listed + 7} more")
    assert markup is telegram.MARKUP or utf16_size(text) <= 1024
