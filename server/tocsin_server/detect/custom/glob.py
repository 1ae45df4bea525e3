"""Match names against globs: ``*`` is any text, ``?`` one character, everything else is literal.

Matching takes at most time proportional to the product of both lengths, so no pattern is slow.
"""

from __future__ import annotations

from collections.abc import Iterable

from tocsin_server.core.errors import storable

LONGEST = 200
MOST_STARS = 8


def problem(pattern: object) -> str | None:
    """Return what was expected if ``pattern`` is not an acceptable glob, else None."""
    if not isinstance(pattern, str) or not storable(pattern) or not pattern.strip() or len(pattern) > LONGEST:
        return f"a glob of 1 to {LONGEST} characters"
    return f"a glob with at most {MOST_STARS} stars" if pattern.count("*") > MOST_STARS else None


def matches(pattern: str, name: str) -> bool:
    """Return whether the whole ``name`` matches; case-sensitive."""
    at, place, star, tried = 0, 0, -1, 0
    while at < len(name):
        if place < len(pattern) and pattern[place] == "*":
            star, tried = place, at
            place += 1
        elif place < len(pattern) and pattern[place] in ("?", name[at]):
            at, place = at + 1, place + 1
        elif star >= 0:
            tried += 1
            at, place = tried, star + 1
        else:
            return False
    return all(letter == "*" for letter in pattern[place:])


def any_matches(patterns: Iterable[str], names: Iterable[str]) -> bool:
    """Return whether a pattern matches a name; True without patterns."""
    wanted = tuple(patterns)
    return not wanted or any(matches(pattern, name) for name in names for pattern in wanted)
