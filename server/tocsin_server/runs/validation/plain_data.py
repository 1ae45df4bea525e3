"""Free-form data, such as the data of an event: whether it is plain, and how large it is as JSON."""

from __future__ import annotations

import json
from typing import Any

from tocsin_server.core import exact_json


def size_problem(value: Any, limit_bytes: int) -> tuple[str, str] | None:
    """Return (expected, got) if ``value`` is not plain data or is too large, or None."""
    wrong = exact_json.problem(value)
    if wrong is not None:
        return wrong[1], f"other data at {wrong[0][1:] or 'the top'}"
    try:
        size = _json_bytes(value)
    except (TypeError, ValueError, RecursionError) as error:
        return "plain data (numbers, texts, lists, maps)", str(error)
    return (f"at most {limit_bytes} bytes", f"{size} bytes") if size > limit_bytes else None


def _json_bytes(value: Any) -> int:
    """Return the length of ``value`` as JSON. Non-finite numbers and non-string keys take longer."""
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError):
        text = exact_json.dumps(value)
    return len(text.encode("utf-8", "replace"))
