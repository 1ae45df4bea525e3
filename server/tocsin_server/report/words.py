"""Format numbers, times and external text for a report. Pure."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

NARROW, MINUS, NONE = "\u202f", "\u2212", "\u2013"
SUPERSCRIPT = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
MOST_SETTINGS = 1500
"""Maximum number of lines of a configuration; further ones are counted."""
LONGEST_VALUE = 400
SHORT = {"lr": "LR", "gpu": "GPU", "nan": "NaN"}
"""How words of rules are written in titles, as in ``ruleTitle`` of ``web/lib/format.js``."""
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def esc(text: object) -> str:
    """Escape external text for HTML: no markup, no end of an attribute, no control characters."""
    return html.escape(_CONTROL.sub("\ufffd", str(text)), quote=True)


def foreign(text: object) -> str:
    """Return escaped text within ``<bdi>``, which limits changes of the text direction."""
    return f"<bdi>{esc(text)}</bdi>"


def whole(value: float | None) -> str:
    """Return 18 412, or a dash."""
    if value is None:
        return NONE
    return f"{abs(value):,.0f}".replace(",", NARROW) if value >= 0 else MINUS + whole(-value)


def num(value: float | None, digits: int = 4) -> str:
    """Return four significant figures, as ``num`` of ``web/lib/format.js`` but without zeros at the end.

    1.3e-4 below 1e-3 and from 1e5; NaN and infinities by name.
    """
    if value is None:
        return NONE
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("+Inf" if value > 0 else f"{MINUS}Inf")
    if value == 0:
        return "0"
    size, sign = abs(value), MINUS if value < 0 else ""
    if size < 1e-3 or size >= 1e5:
        mantissa, power = f"{size:.{digits - 1}e}".split("e")
        return f"{sign}{mantissa.rstrip('0').rstrip('.')}e{int(power)}"
    rounded = f"{size:.{digits}g}"
    return sign + (whole(size) if size == int(size) or "e" in rounded else rounded)


def powers(text: str) -> str:
    """Return 2^16 as 2¹⁶."""
    return re.sub(r"\b2\^(-?\d+)", lambda found: "2" + found[1].translate(SUPERSCRIPT), text)


def moment(time_ns: int | None) -> str:
    """Return a time with its zone, because a report is read elsewhere."""
    if not time_ns:
        return NONE
    return datetime.fromtimestamp(time_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def span(seconds: float) -> str:
    """Return 8.2 s, 4 min, 1 h 8 min, 3 d."""
    if seconds < 90:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    if hours < 36:
        return f"{hours} h {rest} min" if rest else f"{hours} h"
    return f"{round(hours / 24)} d"


def title_of(rule: str) -> str:
    """Return ``scaler-collapse`` as Scaler collapse."""
    text = " ".join(SHORT.get(word, word) for word in rule.replace("nonfinite", "non finite").split("-"))
    text = text.replace("non finite", "non-finite")
    return text[:1].upper() + text[1:]


def counted(count: int, one: str, many: str = "") -> str:
    """Return 1 alert, 2 alerts."""
    return f"{whole(count)} {one if count == 1 else many or one + 's'}"


def flat(value: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield nested settings as pairs: ``{"amp": {"dtype": "fp16"}}`` is ``amp.dtype``, ``fp16``."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from flat(item, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(value, Sequence) and not isinstance(value, str) and not _plain(value):
        for place, item in enumerate(value):
            yield from flat(item, f"{prefix}.{place}" if prefix else str(place))
    elif prefix:
        yield prefix, _cut(setting(value))


def _plain(items: Sequence[Any]) -> bool:
    return len(items) <= 16 and all(not isinstance(item, (Mapping, list, tuple)) for item in items)


def setting(value: Any) -> str:
    """Return a setting as it was written, without rounding."""
    if value is None:
        return NONE
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(setting, value))}]"
    return str(value)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}… ({whole(len(text))} letters)"
