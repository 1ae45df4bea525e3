"""Slack with a bot token: one message per incident, changed in place, with replies in its thread.

``chat.update`` needs the id of the channel, which ``chat.postMessage`` returns. Slack answers errors with
status 200 and ``"ok": false``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tocsin_server.notify import http
from tocsin_server.notify.channel import Field, Kind, Sending, Values, target_of
from tocsin_server.notify.channels.webhook import check_url
from tocsin_server.notify.chat_text import Markup, chat_text, title_text, utf16_size
from tocsin_server.notify.in_place import MessageGoneError, Receipt, sent_in_place
from tocsin_server.notify.message import Message
from tocsin_server.notify.outcome import DeliveryError, Sent

API = "https://slack.com/api"
MOST = 3000
"""Maximum characters of a section."""
PASSING = frozenset(
    {
        "external_channel_migrating",
        "fatal_error",
        "internal_error",
        "message_limit_exceeded",
        "rate_limited",
        "ratelimited",
        "request_timeout",
        "service_unavailable",
        "team_added_to_org",
    }
)
"""Errors after which the same request may succeed."""
GONE = frozenset({"cant_update_message", "channel_not_found", "edit_window_closed", "message_not_found"})
"""Errors of ``chat.update`` after which a new message is sent."""


def check(values: Values, private: bool) -> None:
    """Check the settings. Raises FieldError."""
    if values.get("url"):
        check_url(values["url"], private)


def send(values: Values, message: Message, sending: Sending) -> Sent:
    """Send a message or change the last one about its incident. Raises DeliveryError."""
    base = values.get("url") or API
    content = {
        "text": title_text(message, MARKUP),
        "blocks": [_section(chat_text(message, MARKUP, MOST))],
        "parse": "none",  # chat.update would find links and mentions in plain text
        "unfurl_links": False,
        "unfurl_media": False,
    }

    def post() -> Receipt:
        answer = _call(values, sending, "chat.postMessage", content | {"channel": values["channel"]})
        return {"channel": answer.get("channel") or values["channel"], "message": answer.get("ts")}

    def change(receipt: Receipt) -> None:
        place = {"channel": receipt["channel"], "ts": receipt["message"]}
        _call(values, sending, "chat.update", content | place)

    def reply(receipt: Receipt) -> None:
        place = {"channel": receipt["channel"], "thread_ts": receipt["message"]}
        short = {
            "blocks": [_section(title_text(message, MARKUP))],
            "reply_broadcast": message.status != "resolved",
        }
        _call(values, sending, "chat.postMessage", content | place | short)

    target = target_of(base, values["channel"])
    return sent_in_place(sending, target, post=post, change=change, reply=reply)


def _section(text: str) -> dict[str, Any]:
    """Return a block in which Slack finds only our own links: ``verbatim``."""
    return {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}}


def _call(values: Values, sending: Sending, method: str, content: Mapping[str, Any]) -> dict[str, Any]:
    """Call a method of the Web API. Raises DeliveryError, and MessageGoneError from ``chat.update``."""
    url = f"{(values.get('url') or API).rstrip('/')}/{method}"
    headers = {
        "Content-Type": "application/json; charset=utf-8",
        "Authorization": f"Bearer {values['token']}",
    }
    body = json.dumps(content).encode()
    answer = http.send(url, body, headers, timeout_s=sending.timeout_s, private=sending.private)
    http.check(answer)
    found = http.json_of(answer)
    if found.get("ok") is True:
        return found
    error = str(found.get("error") or "the response is not from Slack")
    if method == "chat.update" and error in GONE:
        raise MessageGoneError(error)
    raise DeliveryError(f"Slack: {error}", permanent="error" in found and error not in PASSING)


def _escape(text: str) -> str:
    """Escape external text; a backtick would turn the lines after it into code, and has no escape."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("`", "'")


MARKUP = Markup(_escape, lambda text: f"*{text}*", lambda label, url: f"<{_escape(url)}|{label}>", utf16_size)

KIND = Kind(
    "slack",
    "Slack (bot, updates its messages)",
    (
        Field("token", "the bot token, xoxb-..., with the scope chat:write", True, header=True),
        Field("channel", "the id of a channel that the bot was invited to, such as C04TRAINING"),
        Field("url", "address of the Web API, only for GovSlack or a proxy", required=False),
    ),
    check,
    send,
    per_incident=True,
    updates=True,
)
