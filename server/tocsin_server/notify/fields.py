"""Parse user input (JSON or TOML) field by field; every error names the field. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

from tocsin_server.core.errors import FieldError, storable

LONGEST_TEXT = 200


def only(item: Any, known: Collection[str], field: str) -> None:
    """Raise :class:`FieldError` if ``item`` is not a table or has an unknown field."""
    if not isinstance(item, Mapping):
        raise FieldError(field, "a table", item)
    for name in item:
        if name not in known:
            raise FieldError(f"{field}.{name}", f"one of {', '.join(sorted(known))}", name)


def text(item: Mapping[str, Any], name: str, field: str, default: str | None = None) -> str:
    """Return a non-empty string. It is required if there is no ``default``."""
    given = item.get(name, default)
    if not isinstance(given, str) or not storable(given) or not 0 < len(given.strip()) <= LONGEST_TEXT:
        raise FieldError(f"{field}.{name}", f"a text of 1 to {LONGEST_TEXT} characters", given)
    return given.strip()


def seconds(
    item: Mapping[str, Any], name: str, field: str, default: float | None, *, least: float = 0.0
) -> float | None:
    """Return a number of seconds, or None if it is omitted and has no default."""
    given = item.get(name, default)
    if given is None:
        return None
    wrong = isinstance(given, bool) or not isinstance(given, (int, float)) or not math.isfinite(given)
    if wrong or not least <= given <= 366 * 86_400:
        raise FieldError(f"{field}.{name}", f"seconds from {least:g} to 31622400", given)
    return float(given)


def truth(item: Mapping[str, Any], name: str, field: str, default: bool) -> bool:
    """Return a boolean."""
    given = item.get(name, default)
    if not isinstance(given, bool):
        raise FieldError(f"{field}.{name}", "true or false", given)
    return given


def texts(item: Mapping[str, Any], name: str, field: str, default: list[str]) -> tuple[str, ...]:
    """Return a list of strings."""
    given = item.get(name, default)
    if not isinstance(given, list) or len(given) > 50:
        raise FieldError(f"{field}.{name}", "a list of at most 50 texts", given)
    for at, each in enumerate(given):
        if not storable(each) or not 0 < len(each) <= LONGEST_TEXT:
            raise FieldError(f"{field}.{name}[{at}]", f"a text of 1 to {LONGEST_TEXT} characters", each)
    return tuple(given)
