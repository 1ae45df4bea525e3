"""Define a kind of channel: its fields, how they are checked, and how a message is sent."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tocsin_server.core.errors import FieldError
from tocsin_server.notify.message import Message

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


Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of channel. ``check`` raises FieldError. ``send`` runs in the channel's thread, blocks, returns
    the receiver's response, and raises DeliveryError.
    """

    id: str
    title: str
    fields: tuple[Field, ...]
    check: Callable[[Values, bool], None]
    send: Callable[[Values, Message, Sending], str]
    pictures: bool = False
    """Whether its messages include a chart of the signal."""

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
