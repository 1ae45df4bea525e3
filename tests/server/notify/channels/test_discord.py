"""Discord, against a local server that keeps messages and rejects what a webhook rejects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.server.chat_services import DiscordService
from tests.server.notify.channels.incident_messages import about, follow
from tocsin_server.notify.channels.discord import KIND
from tocsin_server.notify.outcome import DeliveryError

CHART = b"\x89PNG\r\n\x1a\n\x00--\r\n"


@pytest.fixture
def discord() -> Iterator[DiscordService]:
    with DiscordService() as service:
        yield service


def values(discord: DiscordService, query: str = "") -> dict[str, str]:
    return {"url": discord.url + discord.PATH + query}


def test_an_incident_has_one_message_that_is_changed(discord: DiscordService) -> None:
    """Its chart stays. News is a short message; the thread of the address is kept."""
    first = replace(about(), picture=CHART)
    follow(KIND, values(discord, "?thread_id=5"), first, about("resolved", reason="resolved"))
    message, news = discord.shown
    assert (message.edits, message.picture) == (1, CHART)
    assert message.text.startswith("**Resolved: nonfinite-loss")
    assert news.text == "Resolved: nonfinite-loss · mdt-fp16 · deblur"
    assert discord.calls == [
        "POST ?thread_id=5&wait=true",
        "PATCH /messages/1?thread_id=5",
        "POST ?thread_id=5&wait=true",
    ]


def test_names_from_a_run_are_only_text(discord: DiscordService) -> None:
    """They contain no mention, link or formatting; the service rejects a message that may mention."""
    row = {"run_name": "@everyone [x](https://x)", "summary": "# big"}
    follow(KIND, values(discord), about(alert=row))
    assert "@\u200beveryone \\[x\\](https:\u200b//x): \\# big" in discord.shown[0].text


def test_a_deleted_message_is_sent_again(discord: DiscordService) -> None:
    """And the next change is made to the new one."""
    first = follow(KIND, values(discord), about())
    del discord.messages["1"]
    follow(KIND, values(discord), about(), about(), receipt=first.receipt)
    assert [one.edits for one in discord.shown] == [1, 0]


def test_in_an_archived_thread_a_new_message_is_sent(discord: DiscordService) -> None:
    """Messages in it cannot be changed; a new one opens it again."""
    first = follow(KIND, values(discord), about())
    discord.failures.append((400, {}, {"message": "Thread is archived", "code": 50083}))
    follow(KIND, values(discord), about("resolved"), receipt=first.receipt)
    assert [one.edits for one in discord.shown] == [0, 0]


@pytest.mark.parametrize(
    ("answer", "permanent", "wait_s"),
    [
        ((429, {"Retry-After": "0.5"}, {"message": "rate limited", "retry_after": 0.5}), False, 0.5),
        ((429, {"Retry-After": "3"}, {"message": "rate limited", "retry_after": 3.0}), False, 3.0),
        ((502, {}, None), False, None),
        ((404, {}, {"message": "Unknown Webhook", "code": 10015}), True, None),
    ],
)
def test_an_error_is_retried_unless_it_would_repeat(
    discord: DiscordService, answer: tuple[int, dict[str, str], object], permanent: bool, wait_s: float | None
) -> None:
    """A deleted webhook is an error in a change too: only a deleted message is sent again."""
    first = follow(KIND, values(discord), about())
    discord.failures.append(answer)
    with pytest.raises(DeliveryError) as caught:
        follow(KIND, values(discord), about(), receipt=first.receipt)
    assert (caught.value.permanent, caught.value.retry_after_s) == (permanent, wait_s)
    assert len(discord.shown) == 1


def test_a_rejected_chart_does_not_cost_the_message(discord: DiscordService) -> None:
    """It is sent without its chart."""
    discord.failures.append((413, {}, {"message": "Request entity too large", "code": 40005}))
    follow(KIND, values(discord), replace(about(), picture=CHART))
    assert [one.picture for one in discord.shown] == [b""]
