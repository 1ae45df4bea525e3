"""Telegram with a bot: one message per incident, changed in place, with replies to it.

A message with a chart has a caption of at most 1,024 characters, another one a text of at most 4,096; both
are counted without markup. A change that changes nothing is an error of Telegram, and a success here.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from typing import Any

from tocsin_server.core.errors import FieldError
from tocsin_server.notify import http
from tocsin_server.notify.channel import MASK, Field, Kind, Sending, Values, target_of
from tocsin_server.notify.channels.webhook import check_url
from tocsin_server.notify.chat_text import Markup, chat_text, title_text, utf16_size
from tocsin_server.notify.in_place import MessageGoneError, Receipt, sent_in_place
from tocsin_server.notify.message import Message, unlinked
from tocsin_server.notify.multipart import multipart
from tocsin_server.notify.outcome import DeliveryError, Sent

API = "https://api.telegram.org"
LONGEST_TEXT, LONGEST_CAPTION = 4096, 1024
TOKEN = re.compile(r"[0-9]+:[A-Za-z0-9_-]+")
UNCHANGED = "message is not modified"
GONE = ("message to edit not found", "message can't be edited", "message_id_invalid")
"""Errors of a change after which a new message is sent."""
NO_PREVIEW = {"link_preview_options": {"is_disabled": True}}


def check(values: Values, private: bool) -> None:
    """Check the settings. Raises FieldError."""
    if TOKEN.fullmatch(values["token"]) is None:
        raise FieldError("config.token", "a token such as 123456789:ABC-def from BotFather", MASK)
    if values.get("url"):
        check_url(values["url"], private)


def send(values: Values, message: Message, sending: Sending) -> Sent:
    """Send a message or change the last one about its incident. Raises DeliveryError."""
    place = {"chat_id": values["chat"], "parse_mode": "HTML"}
    caption = {"caption": chat_text(message, MARKUP, LONGEST_CAPTION)}
    text = {"text": chat_text(message, MARKUP, LONGEST_TEXT)} | NO_PREVIEW

    def post() -> Receipt:
        if message.picture is not None:
            try:
                answer = _call(values, sending, "sendPhoto", place | caption, message.picture)
                return {"message": answer["message_id"], "photo": True}
            except DeliveryError as error:
                if not error.permanent:
                    raise
        return {"message": _call(values, sending, "sendMessage", place | text)["message_id"]}

    def change(receipt: Receipt) -> None:
        known = place | {"message_id": receipt["message"]}
        if receipt.get("photo"):
            _call(values, sending, "editMessageCaption", known | caption)
        else:
            _call(values, sending, "editMessageText", known | text)

    def reply(receipt: Receipt) -> None:
        to = {"message_id": receipt["message"], "allow_sending_without_reply": True}
        short = {"text": title_text(message, MARKUP), "reply_parameters": to} | NO_PREVIEW
        _call(values, sending, "sendMessage", place | short)

    target = target_of(values.get("url") or API, values["token"].partition(":")[0], values["chat"])
    return sent_in_place(sending, target, post=post, change=change, reply=reply)


def _call(
    values: Values, sending: Sending, method: str, content: Mapping[str, Any], picture: bytes | None = None
) -> dict[str, Any]:
    """Return the result of a method. Raises DeliveryError, and MessageGoneError from a change."""
    url = f"{(values.get('url') or API).rstrip('/')}/bot{values['token']}/{method}"
    body, kind = json.dumps(content).encode(), "application/json"
    if picture is not None:
        fields = {name: ("text/plain; charset=utf-8", str(value).encode()) for name, value in content.items()}
        body, kind = multipart(fields, ("photo", "chart.png", picture))
    headers = {"Content-Type": kind}
    answer = http.send(url, body, headers, timeout_s=sending.timeout_s, private=sending.private)
    found = http.json_of(answer)
    if found.get("ok") is True:
        result = found.get("result")
        return result if isinstance(result, dict) else {}
    why = str(found.get("description") or "")
    if method.startswith("edit") and UNCHANGED in why:
        return {}
    if method.startswith("edit") and any(each in why.lower() for each in GONE):
        raise MessageGoneError(why)
    more = found.get("parameters")
    more = more if isinstance(more, dict) else {}
    if more.get("migrate_to_chat_id"):
        why += f". Enter the new chat id: {more['migrate_to_chat_id']}"
    try:
        http.check(answer)
    except DeliveryError as error:
        asked = more.get("retry_after")
        wait_s = float(asked) if isinstance(asked, int | float) else error.retry_after_s
        raise DeliveryError(why or error.detail, permanent=error.permanent, retry_after_s=wait_s) from None
    raise DeliveryError("The response is not from Telegram.")


def _escape(text: str) -> str:
    """Escape external text; "@name" would mention a user."""
    return html.escape(unlinked(text), quote=False).replace("@", "@\u200b")


def _size(text: str) -> int:
    """Return the length as Telegram counts it: UTF-16 units without tags."""
    return utf16_size(html.unescape(re.sub(r"<[^>]*>", "", text)))


MARKUP = Markup(
    _escape,
    lambda text: f"<b>{text}</b>",
    lambda label, url: f'<a href="{html.escape(url)}">{label}</a>',
    _size,
)

KIND = Kind(
    "telegram",
    "Telegram (bot, updates its messages)",
    (
        Field("token", "the token of a bot, from BotFather", True, header=True),
        Field("chat", "the id of a chat such as -1009876543210, or the @name of a channel"),
        Field("url", "the address of your own Bot API server", required=False),
    ),
    check,
    send,
    pictures=True,
    per_incident=True,
    updates=True,
)
