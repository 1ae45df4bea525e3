"""The server's only JSON encoder: NaN and infinities are written as strings, arrays as ``{dtype, bdata}``.

JSON has no NaN. FastAPI turns one into null and ``send_json`` emits a bare ``NaN`` that browsers
reject, so all JSON (API, live WebSocket, evidence, exports) is written here:
``"NaN"``, ``"Infinity"``, ``"-Infinity"``. numpy arrays are written in Plotly's typed form,
``{"dtype": "f8", "bdata": base64}``, little-endian and bit-exact.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # commands that need no array import this module
    import numpy as np

NAN, PINF, NINF = "NaN", "Infinity", "-Infinity"
DEEPEST = 100
"""Maximum nesting of data from outside: the encoder and every reader recurse."""
CUT = 2 * DEEPEST
"""Below this level :data:`TOO_DEEP` is written; only data of an earlier version is nested this deeply."""
PLACE = 200
"""Maximum characters of a key or path in an error."""
TOO_DEEP = "(nested too deeply)"


def number(value: float) -> float | str:
    """Return ``value``, or its name as a string if it is NaN or infinite."""
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return NAN
    return PINF if value > 0 else NINF


def parse_number(value: float | str) -> float:
    """Return the number that :func:`number` encoded.

    Raises:
        ValueError: ``value`` is any other string.
    """
    if isinstance(value, str) and value not in (NAN, PINF, NINF):
        raise ValueError(f"number: expected a number, {NAN!r}, {PINF!r} or {NINF!r}, got {value!r}")
    return float(value)


def packed(values: np.ndarray[Any, Any], dtype: str = "f8") -> dict[str, str]:
    """Return ``values`` [n] as Plotly's typed array; every dtype is converted to f8, or to ``dtype``."""
    import numpy as np

    little = np.ascontiguousarray(values, dtype=f"<{dtype}")
    return {"dtype": dtype, "bdata": base64.b64encode(little.tobytes()).decode("ascii")}


def plain(value: Any, levels: int = CUT) -> Any:
    """Return ``value`` as data that strict JSON can hold, truncated below ``levels`` levels.

    Raises:
        TypeError: ``value`` contains an object of an unsupported type.
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return number(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item, levels - 1) for key, item in value.items()} if levels else TOO_DEEP
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item, levels - 1) for item in value] if levels else TOO_DEEP
    if is_dataclass(value) and not isinstance(value, type):
        if not levels:
            return TOO_DEEP
        return {field.name: plain(getattr(value, field.name), levels - 1) for field in fields(value)}
    import numpy as np

    if isinstance(value, np.ndarray):
        return packed(value)
    if isinstance(value, np.generic):
        return plain(value.item())
    if not levels:
        return TOO_DEEP
    raise TypeError(f"JSON value: expected data, got {type(value).__name__}")


def dumps(value: Any) -> str:
    """Return ``value`` as strict JSON text, without a bare NaN."""
    return json.dumps(plain(value), allow_nan=False, ensure_ascii=False, separators=(",", ":"))


def dumps_named(value: Mapping[str, Any]) -> str:
    """Return ``value``, a mapping of names to numbers and text, as JSON.

    Faster than :func:`dumps`: the values are converted only if one of them is not finite.
    """
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    except ValueError:
        return dumps(value)


def loads(text: str | bytes) -> Any:
    """Parse JSON text. Non-finite values stay strings; convert them with :func:`parse_number`.

    Raises:
        ValueError: ``text`` is not JSON, or is nested too deeply for Python's parser.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("JSON: lists and maps are nested too deeply") from None


def problem(value: Any) -> tuple[str, str] | None:
    """Return the first place at which data from outside cannot be stored, or None.

    Rejected are more than :data:`DEEPEST` levels and lone surrogates, which UTF-8 cannot encode.

    Returns:
        (path within ``value``, what was expected there).
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
