"""Define a kind of channel: its fields, how they are checked, and how a message is sent."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tocsin_server.core.errors import FieldError
from tocsin_server.notify.message import Message
from tocsin_server.notify.outcome import Sent
from tocsin_server.notify.web_push import PushTargets

MASK = "***"
"""Shown in place of a secret; in an update, it leaves the secret unchanged."""
LONGEST = 2000
UNPRINTABLE = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Unicode categories of control characters, surrogates, and line and paragraph separators."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a channel. A ``secret`` is never shown again. A ``header`` is sent in an HTTP header and
    may contain printable ASCII only.
    """

    name: str
    help: str
    secret: bool = False
    required: bool = True
    numeric: bool = False
    header: bool = False


@dataclass(frozen=True, slots=True)
class Sending:
    """What a channel needs from this server besides its fields. ``private``: allow private addresses."""

    timeout_s: float = 30.0
    private: bool = False
    now_s: float = 0.0
    public_url: str = ""
    thread: str = ""
    """Names the incident of the message in this channel; "" for digests and tests, which have none."""
    receipt: Mapping[str, Any] | None = None
    """What ``send`` returned for the last message about the incident."""
    quiet: bool = False
    """Only change the message that was sent: an acknowledgement is no notification."""
    outdated: bool = False
    """A newer notification about the incident was sent already."""
    partial: Mapping[str, Any] = field(default_factory=dict)
    """What the last attempt at this notification achieved before it failed (``DeliveryError.receipt``)."""
    push: PushTargets | None = None
    """The subscribed browsers, for the kind that ``pushes``."""

    def known(self, target: str) -> Mapping[str, Any] | None:
        """Return the receipt if its message was sent to ``target`` (see :func:`target_of`)."""
        return self.receipt if self.receipt is not None and self.receipt.get("target") == target else None


def target_of(*address: str) -> str:
    """Return a name for the address of a channel that does not reveal it. A changed address has another."""
    return hashlib.sha256("\0".join(address).encode("utf-8", "replace")).hexdigest()[:16]


Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of channel. ``check`` raises FieldError. ``send`` runs in the channel's thread, blocks, returns
    the receiver's response, with a receipt if the kind is ``per_incident``, and raises DeliveryError.
    """

    id: str
    title: str
    fields: tuple[Field, ...]
    check: Callable[[Values, bool], None]
    send: Callable[[Values, Message, Sending], str | Sent]
    pictures: bool = False
    """Whether its messages include a chart of the signal."""
    per_incident: bool = False
    """Whether each notification is about one incident and gets the receipt of the one before it."""
    updates: bool = False
    """Whether a sent message can be changed, so that it shows an acknowledgement."""
    pushes: bool = False
    """Whether its messages go to the subscribed browsers."""

    def read(self, given: Any, before: Values, *, private: bool) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the configuration and secrets from user input. A secret that is omitted or masked stays
        unchanged.

        Raises:
            FieldError: A field is invalid.
        """
        if not isinstance(given, Mapping):
            raise FieldError("config", "a table", type(given).__name__)
        known = {field.name: field for field in self.fields}
        for name in given:
            if name not in known:
                raise FieldError(f"config.{name}", f"one of {', '.join(known)}", "another field")
        values = {name: self._value(field, given, before) for name, field in known.items()}
        values = {name: value for name, value in values.items() if value is not None}
        self.check(values, private)
        secret = {name for name, field in known.items() if field.secret}
        return (
            {name: value for name, value in values.items() if name not in secret},
            {name: value for name, value in values.items() if name in secret},
        )

    def _value(self, field: Field, given: Values, before: Values) -> Any:
        value = given.get(field.name)
        if field.secret and value in (None, MASK):
            value = before.get(field.name)
        if value in (None, ""):
            if field.required:
                raise FieldError(f"config.{field.name}", field.help, "nothing")
            return None
        if not isinstance(value, str) or len(value) > LONGEST:
            got = MASK if field.secret else value
            raise FieldError(f"config.{field.name}", f"a text of at most {LONGEST} characters", got)
        # Checked before the ends are stripped, because a line break would end the HTTP header.
        if any(unicodedata.category(each) in UNPRINTABLE for each in value):
            got = "a line break or another control character"
            raise FieldError(f"config.{field.name}", "a text on one line", got)
        if field.header and not value.isascii():
            got = "other characters"
            raise FieldError(f"config.{field.name}", "ASCII characters only, as in every HTTP header", got)
        return value.strip()


def masked(kind: Kind | None, config: Values, secret: Values) -> dict[str, Any]:
    """Return the fields of a channel with masked secrets."""
    return {**config, **dict.fromkeys(secret, MASK)}


def scrubbed(text: str, secret: Values) -> str:
    """Return ``text`` shortened and without secrets or their longer parts."""
    for value in sorted(map(str, secret.values()), key=len, reverse=True):
        for part in sorted({value, *value.replace("?", "/").split("/")}, key=len, reverse=True):
            if len(part) >= 8:
                text = text.replace(part, MASK)
    return text[:500]
