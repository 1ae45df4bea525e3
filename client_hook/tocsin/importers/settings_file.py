"""Read the scalars of a settings file in YAML, as trackers write them, without PyYAML."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

FILE_BYTES = 256 << 10
"""Maximum bytes that are read."""
LINE = 4_000
"""Characters of a line that are read."""
_ENTRY = re.compile(r"^( *)([\w./@+-][\w./@+ -]*|'[^']*'|\"[^\"]*\"):(?: +(.*))?$")
_NUMBER = re.compile(r"[-+]?(?:\d+|\d*\.\d+|\d+\.\d*)(?:[eE][-+]?\d+)?$")
_WORDS = {
    "true": True, "false": False, "null": None, "~": None, "": None,
    ".nan": float("nan"), ".inf": float("inf"), "-.inf": float("-inf"),
}  # fmt: skip


def scalars(path: Path) -> dict[str, Any]:
    """Return the scalars of mappings, nested keys as ``outer/inner``; empty if the file cannot be read.

    Lists, tags, anchors and text over several lines are left out.
    """
    try:
        with path.open("rb") as file:
            text = file.read(FILE_BYTES).decode("utf-8", "replace")
    except OSError:
        return {}
    found: dict[str, Any] = {}
    above: list[tuple[int, str]] = []
    for line in text.splitlines():
        entry = _ENTRY.match(line.rstrip()[:LINE])
        if entry is None:
            continue
        indent, key, value = len(entry[1]), entry[2].strip("'\""), entry[3]
        while above and above[-1][0] >= indent:
            above.pop()
        if not value:
            above.append((indent, key))
            continue
        name = "/".join([*(outer for _, outer in above), key])
        is_scalar, known = _scalar(value)
        if is_scalar:
            found[name] = known
    return found


def _scalar(text: str) -> tuple[bool, Any]:
    """Return whether ``text`` is a scalar, and its value."""
    text = text if text[:1] in "'\"" else text.partition(" #")[0].strip()
    if text.lower() in _WORDS:
        return True, _WORDS[text.lower()]
    if _NUMBER.match(text):
        return True, float(text) if re.search(r"[.eE]", text) else int(text[:300])
    if text[:1] == '"' and text[-1:] == '"':
        try:
            return True, json.loads(text)
        except ValueError:
            return True, text[1:-1]
    if text[:1] == "'" and text[-1:] == "'":
        return True, text[1:-1].replace("''", "'")
    return text[:1] not in "[{&*!|>", text
