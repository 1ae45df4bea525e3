"""Slack, against a local server that keeps messages and rejects what Slack rejects."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server.chat_services import SlackService
from tests.server.notify.channels.incident_messages import about, follow
from tocsin_server.notify.channels.slack import KIND
from tocsin_server.notify.outcome import DeliveryError


@pytest.fixture
def slack() -> Iterator[SlackService]:
    with SlackService() as service:
        yield service


def values(slack: SlackService, **changes: str) -> dict[str, str]:
    return {"token": slack.TOKEN, "channel": "#training", "url": slack.url} | changes


def test_an_incident_has_one_message_that_is_changed(slack: SlackService) -> None:
    """Its news is a short reply in the thread. The change uses the id of the channel from the response."""
    follow(KIND, values(slack), about(), about("resolved", reason="resolved"))
    message, reply = slack.shown
    assert (message.edits, reply.thread, reply.broadcast) == (1, "1", False)
    assert message.text.startswith("*Resolved: nonfinite-loss")
    assert reply.text == "Resolved: nonfinite-loss · mdt-fp16 · deblur"


def test_the_message_says_what_to_do(slack: SlackService) -> None:
    """Problem, since when, likely cause, first action, checkpoint and links, in the markup of Slack."""
    follow(KIND, values(slack), about(alert={"resume": {"text": "ckpt_2900.pt (step 2900)"}}))
    assert slack.shown[0].text.splitlines() == [
        "*Critical: nonfinite-loss · mdt-fp16 · deblur*",
        "mdt-fp16: Loss is NaN (nonfinite-loss, critical, since step 1790)",
        "*Likely cause:* A bad batch.",
        "*First action:* Skip the batch.",
        "*Last good checkpoint:* ckpt_2900.pt (step 2900)",
        "<https://t/r1.f-nonfinite-loss.1|Open the incident> · "
        "<https://t/ack/r1.f-nonfinite-loss.1|Acknowledge> · "
        "<https://t/silence/r1.f-nonfinite-loss.1|Silence>",
    ]


def test_names_from_a_run_mention_nobody(slack: SlackService) -> None:
    """Neither in the message nor in the reply."""
    name = {"run_name": "<!channel> <@U1> <https://x|y>"}
    follow(KIND, values(slack), about(alert=name), about(alert=name))
    assert len(slack.shown) == 2
    assert "&lt;!channel&gt;" in slack.shown[0].text
    assert slack.mentions() == []


def test_backticks_from_a_run_do_not_hide_the_links(slack: SlackService) -> None:
    """Three of them would turn everything up to the next three into code."""
    follow(KIND, values(slack), about(alert={"run_name": "```", "summary": "```"}))
    assert "`" not in slack.shown[0].text


def test_a_deleted_message_is_sent_again_once(slack: SlackService) -> None:
    """A new message without a reply, and the next change is made to it."""
    first = follow(KIND, values(slack), about())
    del slack.messages["1"]
    follow(KIND, values(slack), about(), about(), receipt=first.receipt)
    assert [(one.edits, one.thread) for one in slack.shown] == [(1, ""), (0, "2")]


def test_an_acknowledgement_changes_the_message_and_notifies_nobody(slack: SlackService) -> None:
    """It names the person and needs no link to acknowledge any more. Without a message nothing is sent."""
    acked = about(alert={"acked": True}, reason="acknowledged", acked_by="ada", note="on it")
    assert follow(KIND, values(slack), acked, quiet=True).receipt is None
    first = follow(KIND, values(slack), about())
    follow(KIND, values(slack), acked, receipt=first.receipt, quiet=True)
    (message,) = slack.shown
    assert "Acknowledged by ada: on it" in message.text
    assert "|Acknowledge>" not in message.text


def test_another_channel_gets_a_new_message(slack: SlackService) -> None:
    """A receipt names the address that it was made for."""
    first = follow(KIND, values(slack), about())
    follow(KIND, values(slack, channel="C1"), about(), receipt=first.receipt)
    assert slack.calls == ["chat.postMessage"] * 2


@pytest.mark.parametrize(
    ("answer", "permanent", "wait_s"),
    [
        ((429, {"Retry-After": "30"}, {"ok": False, "error": "ratelimited"}), False, 30.0),
        ((500, {}, None), False, None),
        ((200, {}, None), False, None),
        ((200, {}, {"ok": False, "error": "internal_error"}), False, None),
        ((200, {}, {"ok": False, "error": "rate_limited"}), False, None),
        ((200, {}, {"ok": False, "error": "message_limit_exceeded"}), False, None),
        ((200, {}, {"ok": False, "error": "invalid_auth"}), True, None),
    ],
)
def test_an_error_is_retried_unless_it_would_repeat(
    slack: SlackService, answer: tuple[int, dict[str, str], object], permanent: bool, wait_s: float | None
) -> None:
    """Slack reports errors with status 200. A wait that it asks for is respected."""
    slack.failures.append(answer)
    with pytest.raises(DeliveryError) as caught:
        follow(KIND, values(slack), about())
    assert (caught.value.permanent, caught.value.retry_after_s) == (permanent, wait_s)


def test_a_long_message_is_shortened_and_keeps_its_links(slack: SlackService) -> None:
    """The service rejects a section of more than 3,000 characters."""
    row = {"summary": "<" * 5000, "run_name": "&" * 900, "resume": {"text": ">" * 4096}}
    follow(KIND, values(slack), about(alert=row))
    assert "|Acknowledge>" in slack.shown[0].text
