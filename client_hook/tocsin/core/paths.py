"""Write paths as text of one line that can be turned back into the path. Pure."""

from __future__ import annotations

import re
import unicodedata

LONGEST = 1024
"""Maximum number of characters of a path that is sent; of a longer one, the middle is left out."""
_KEPT = 480
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Categories of control characters, marks of text direction, unpaired surrogates and line separators."""
_ESCAPE = re.compile(r"\\(?:\\|u([0-9a-f]{4})|U([0-9a-f]{8}))")


def escaped(path: str) -> str:
    r"""Return ``path`` with control characters as ``\u000a`` and backslashes doubled.

    A path without control characters is returned as it is.
    """
    if path.isprintable() or not any(map(_is_unsafe, path)):
        return path
    return "".join(map(_escape, path))


def unescaped(text: str) -> str:
    """Return the path that ``escaped`` changed into ``text``."""
    return _ESCAPE.sub(lambda found: chr(int(found[1] or found[2] or "5c", 16)), text)


def shortened(text: str) -> str:
    """Return at most ``LONGEST`` characters: of a longer text, the beginning and the end."""
    return text if len(text) <= LONGEST else f"{text[:_KEPT]}…{text[-_KEPT:]}"


def _is_unsafe(char: str) -> bool:
    return unicodedata.category(char) in _UNSAFE


def _escape(char: str) -> str:
    if char == "\\":
        return "\\\\"
    if not _is_unsafe(char):
        return char
    code = ord(char)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
