"""What a kind of channel is: its fields, how they are checked, how a message is sent."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tocsin_server.core.errors import FieldError
from tocsin_server.notify.message import Message

MASK = "***"
"""What stands in an answer where a secret is, and what leaves a secret as it is in a change."""
LONGEST = 2000
UNPRINTABLE = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Categories of control characters, halves of surrogate pairs, and line and paragraph separators."""


@dataclass(frozen=True, slots=True)
class Field:
    """One thing to fill in. A ``secret`` one is never shown again; a ``header`` one is sent as it is in a
    header of HTTP, which takes printable ASCII only."""

    name: str
    help: str
    secret: bool = False
    required: bool = True
    numeric: bool = False
    header: bool = False


@dataclass(frozen=True, slots=True)
class Sending:
    """What a channel needs of this server besides its own fields. ``private``: addresses inside are fine."""

    timeout_s: float = 30.0
    private: bool = False
    now_s: float = 0.0
    public_url: str = ""


Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of channel. ``check`` raises FieldError; ``send`` blocks, raises DeliveryError and returns the
    receiver's words; it runs in a thread of its channel's own."""

    id: str
    title: str
    fields: tuple[Field, ...]
    check: Callable[[Values, bool], None]
    send: Callable[[Values, Message, Sending], str]
    pictures: bool = False
    """Whether its messages carry the picture of the signal."""

    def read(self, given: Any, before: Values, *, private: bool) -> tuple[dict[str, Any], dict[str, Any]]:
        """Configuration and secrets of what somebody filled in; a secret that is left out or masked stays
        as it was. Raises :class:`FieldError`."""
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
        # Before the ends are stripped: a line break would end the header that a value is sent in.
        if any(unicodedata.category(each) in UNPRINTABLE for each in value):
            got = "a line break or another control character"
            raise FieldError(f"config.{field.name}", "a text on one line", got)
        if field.header and not value.isascii():
            got = "other characters"
            raise FieldError(f"config.{field.name}", "ASCII characters only, as in every HTTP header", got)
        return value.strip()


def masked(kind: Kind | None, config: Values, secret: Values) -> dict[str, Any]:
    """A channel's fields as they may be shown."""
    return {**config, **dict.fromkeys(secret, MASK)}


def scrubbed(text: str, secret: Values) -> str:
    """``text`` without any secret in it, whole or its longer parts, and bounded."""
    for value in sorted(map(str, secret.values()), key=len, reverse=True):
        for part in sorted({value, *value.replace("?", "/").split("/")}, key=len, reverse=True):
            if len(part) >= 8:
                text = text.replace(part, MASK)
    return text[:500]
