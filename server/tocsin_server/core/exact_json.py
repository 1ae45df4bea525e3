"""The one JSON encoder of the server: NaN and infinities survive as strings, arrays as ``{dtype, bdata}``.

JSON has no NaN. FastAPI turns one into null and ``send_json`` emits a bare ``NaN`` that a
browser rejects, so every JSON surface (API, live socket, evidence, exports) goes through here:
``"NaN"``, ``"Infinity"``, ``"-Infinity"``. numpy arrays are written in Plotly's typed form,
``{"dtype": "f8", "bdata": base64}``, little-endian, exact to the bit.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

NAN, PINF, NINF = "NaN", "Infinity", "-Infinity"
DEEPEST = 100
"""Levels of lists and maps that data from outside may have: the encoder and every reader recurse."""
CUT = 2 * DEEPEST
"""Below this level, where only data stored by an earlier version can lie, :data:`TOO_DEEP` is written."""
PLACE = 200
"""Letters of a key or a path that an error repeats."""
TOO_DEEP = "(nested too deeply)"


def number(value: float) -> float | str:
    """``value``, or its name where JSON has no number for it."""
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return NAN
    return PINF if value > 0 else NINF


def parse_number(value: float | str) -> float:
    """The reverse of :func:`number`. Raises ValueError for another string."""
    if isinstance(value, str) and value not in (NAN, PINF, NINF):
        raise ValueError(f"number: expected a number, {NAN!r}, {PINF!r} or {NINF!r}, got {value!r}")
    return float(value)


def packed(values: np.ndarray[Any, Any]) -> dict[str, str]:
    """A numpy array [n] as Plotly's typed array: f8 for floats, i4/i8 kept as f8 too."""
    little = np.ascontiguousarray(values, dtype="<f8")
    return {"dtype": "f8", "bdata": base64.b64encode(little.tobytes()).decode("ascii")}


def plain(value: Any, levels: int = CUT) -> Any:
    """Return ``value`` with only what strict JSON can hold, cut off below ``levels`` levels.

    Raises:
        TypeError: There is something in it that JSON cannot name.
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return number(value)
    if isinstance(value, np.ndarray):
        return packed(value)
    if isinstance(value, np.generic):
        return plain(value.item())
    if not levels:
        return TOO_DEEP
    if isinstance(value, Mapping):
        return {str(key): plain(item, levels - 1) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item, levels - 1) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name), levels - 1) for field in fields(value)}
    raise TypeError(f"JSON value: expected data, got {type(value).__name__}")


def dumps(value: Any) -> str:
    """``value`` as strict JSON text (never a bare NaN)."""
    return json.dumps(plain(value), allow_nan=False, ensure_ascii=False, separators=(",", ":"))


def dumps_named(value: Mapping[str, Any]) -> str:
    """:func:`dumps` of numbers and texts under names, without walking them where all are finite."""
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    except ValueError:
        return dumps(value)


def loads(text: str | bytes) -> Any:
    """Parse JSON text. Non-finite values stay strings; use :func:`parse_number` where a number is due.

    Raises:
        ValueError: It is not JSON, or nested so deeply that Python's parser gives up.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("JSON: expected fewer levels of lists and maps, got more than can be read") from None


def problem(value: Any) -> tuple[str, str] | None:
    """Return where data from outside cannot be kept, and what is expected there; None if all can.

    Levels beyond :data:`DEEPEST` and halves of surrogate pairs, which no UTF-8 can hold.
    """
    rest: list[tuple[str, Any, int]] = [("", value, 1)]
    while rest:
        place, one, level = rest.pop()
        if isinstance(one, str):
            if not one.isascii() and not _is_unicode(one):
                return place, "text without halves of surrogate pairs"
        elif isinstance(one, (Mapping, list, tuple)):
            if level > DEEPEST:
                return place, f"at most {DEEPEST} levels of lists and maps"
            if isinstance(one, Mapping):
                rest.extend((place, key, level) for key in one)
                rest.extend((f"{place}.{str(key)[:PLACE]}"[:PLACE], one[key], level + 1) for key in one)
            else:
                rest.extend((f"{place}[{at}]"[:PLACE], item, level + 1) for at, item in enumerate(one))
    return None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
