"""Discord with a webhook: one message per incident, changed in place. A webhook cannot reply to a message, so
news is a separate short message.

``wait=true`` makes the response contain the id of the message. A change leaves its attached chart as it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from tocsin_server.notify import http
from tocsin_server.notify.channel import Field, Kind, Sending, Values, target_of
from tocsin_server.notify.channels.webhook import check_url
from tocsin_server.notify.chat_text import Markup, chat_text, title_text, utf16_size
from tocsin_server.notify.in_place import MessageGoneError, Receipt, sent_in_place
from tocsin_server.notify.message import Message, escaped
from tocsin_server.notify.multipart import multipart
from tocsin_server.notify.outcome import DeliveryError, Sent

MOST = 4096
"""Maximum characters of the description of an embed."""
COLORS = {"critical": 0xC62828, "warning": 0xE08A00, "info": 0x2463B0}
RECOVERED = 0x2E7D32
UNKNOWN_MESSAGE, ARCHIVED_THREAD = 10008, 50083
"""Error codes of a change after which a new message is sent; one in an archived thread opens it again."""


def check(values: Values, private: bool) -> None:
    """Check the settings. Raises FieldError."""
    check_url(values["url"], private)


def send(values: Values, message: Message, sending: Sending) -> Sent:
    """Send a message or change the last one about its incident. Raises DeliveryError."""
    color = RECOVERED if message.status == "resolved" else COLORS[message.severity]
    embed = {"description": chat_text(message, MARKUP, MOST), "color": color}
    content: dict[str, Any] = {"embeds": [embed], "allowed_mentions": {"parse": []}}

    def post() -> Receipt:
        if message.picture is not None:
            try:
                return _id(_call(values, sending, content, picture=message.picture))
            except DeliveryError as error:
                if not error.permanent:
                    raise
        return _id(_call(values, sending, content))

    def change(receipt: Receipt) -> None:
        _call(values, sending, content, message_id=str(receipt["message"]))

    def reply(_receipt: Receipt) -> None:
        short = {"content": title_text(message, MARKUP), "allowed_mentions": {"parse": []}}
        _call(values, sending, short)

    target = target_of(values["url"])
    return sent_in_place(sending, target, post=post, change=change, reply=reply)


def _id(answer: Mapping[str, Any]) -> Receipt:
    return {"message": answer.get("id")}


def _call(
    values: Values,
    sending: Sending,
    content: Mapping[str, Any],
    *,
    picture: bytes | None = None,
    message_id: str | None = None,
) -> dict[str, Any]:
    """Post or change a message. Raises DeliveryError, and MessageGoneError if it cannot be changed."""
    body, kind = json.dumps(content).encode(), "application/json"
    if picture is not None:
        fields = {"payload_json": ("application/json", body)}
        body, kind = multipart(fields, ("files[0]", "chart.png", picture))
    url, method = _address(values["url"], message_id), "POST" if message_id is None else "PATCH"
    timeout_s, private = sending.timeout_s, sending.private
    headers = {"Content-Type": kind}
    answer = http.send(url, body, headers, timeout_s=timeout_s, private=private, method=method)
    found = http.json_of(answer)
    gone = answer.status in (400, 404) and found.get("code") in (UNKNOWN_MESSAGE, ARCHIVED_THREAD)
    if message_id is not None and gone:
        raise MessageGoneError
    try:
        http.check(answer)
    except DeliveryError as error:
        detail = f"{error.detail}: {found['message']}" if found.get("message") else error.detail
        raise DeliveryError(detail, permanent=error.permanent, retry_after_s=error.retry_after_s) from None
    return found


def _address(url: str, message_id: str | None) -> str:
    """Return the address to post to, or of a message; the thread of a forum stays in it."""
    parts = urlsplit(url)
    thread = parse_qs(parts.query).get("thread_id", [])
    asked = {"thread_id": thread[0]} if thread else {}
    path = parts.path.rstrip("/")
    if message_id is None:
        asked["wait"] = "true"
    else:
        path += f"/messages/{message_id}"
    return parts._replace(path=path, query=urlencode(asked), fragment="").geturl()


MARKUP = Markup(escaped, lambda text: f"**{text}**", lambda label, url: f"[{label}]({url})", utf16_size)

KIND = Kind(
    "discord",
    "Discord (webhook, updates its messages)",
    (Field("url", "the address of a webhook: https://discord.com/api/webhooks/...", secret=True),),
    check,
    send,
    pictures=True,
    per_incident=True,
    updates=True,
)
