"""Match labels as in Alertmanager: ``severity="critical"``, ``rule!~"loss-.*"``. Pure.

A regular expression must match the whole value. RE2 evaluates it, as in Alertmanager. Its time is linear in
the length of the value for any pattern, so that no pattern can block the process that receives records.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import re2

from tocsin_server.core.errors import FieldError, storable

LONGEST_TEXT = 2_000
"""Maximum number of characters of one matcher."""
LONGEST_PATTERN = 200
LONGEST_VALUE = 1_024
"""Number of characters of a label that a regular expression sees."""
PATTERN_BYTES = 1 << 18
"""Memory limit of one compiled pattern, program and automaton together."""
LARGEST_PATTERN = 1_500
"""Maximum number of instructions of one compiled pattern. A match takes at most about 6 ns per instruction
and character."""
_MATCHER = re.compile(r"([A-Za-z_][\w.\-/]*)\s*(=~|!~|!=|=)\s*")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Matcher:
    """One comparison of one label. A missing label counts as empty."""

    name: str
    operator: str
    value: str
    _pattern: Any = field(init=False, compare=False, repr=False, default=None)
    """Compiled once: a cache smaller than a document would compile all of it for each alert."""

    def __post_init__(self) -> None:
        if self.operator in ("=~", "!~"):
            object.__setattr__(self, "_pattern", _compiled(self.value))

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Return whether an alert with these labels matches."""
        found = labels.get(self.name, "")
        if self.operator in ("=", "!="):
            return (found == self.value) is (self.operator == "=")
        text = found[:LONGEST_VALUE].encode("utf-8", "replace")
        return (self._pattern.fullmatch(text) is not None) is (self.operator == "=~")

    @property
    def size(self) -> int:
        """Return the number of instructions of the pattern, the cost of matching per character of a value."""
        return 0 if self._pattern is None else int(self._pattern.programsize)

    def __str__(self) -> str:
        quoted = self.value.replace("\\", "\\\\").replace('"', '\\"')
        return f'{self.name}{self.operator}"{quoted}"'


def all_hold(matchers: Iterable[Matcher], labels: Mapping[str, str]) -> bool:
    """Return whether all matchers match; True if there are none."""
    return all(matcher.holds(labels) for matcher in matchers)


def size_of(matchers: Iterable[Matcher]) -> int:
    """Return the total size of all patterns, the cost of matching per character of a label."""
    return sum(matcher.size for matcher in matchers)


def parse_matcher(text: object, field: str) -> Matcher:
    """Return a matcher from its text.

    Raises:
        FieldError: The text is not a matcher, or RE2 rejects its pattern. It names ``field``.
    """
    if isinstance(text, str) and len(text) > LONGEST_TEXT:
        raise FieldError(field, f"a matcher of at most {LONGEST_TEXT} characters", len(text))
    stripped = text.strip() if isinstance(text, str) and storable(text) else ""
    begun = _MATCHER.match(stripped)
    value = None if begun is None else _value(stripped[begun.end() :])
    if begun is None or value is None:
        raise FieldError(field, 'a matcher such as severity="critical" (=, !=, =~ or !~)', text)
    if begun[2] in ("=~", "!~"):
        _check(value, field)
    return Matcher(begun[1], begun[2], value)


def parse_matchers(texts: object, field: str, *, least: int = 0) -> tuple[Matcher, ...]:
    """Return a list of matchers. Raises :class:`FieldError`."""
    if not isinstance(texts, (list, tuple)) or not least <= len(texts) <= 50:
        raise FieldError(field, f"a list of {least} to 50 matchers", texts)
    return tuple(parse_matcher(text, f"{field}[{at}]") for at, text in enumerate(texts))


def _value(written: str) -> str | None:
    """Return the value without quotes, or None if the quotes are invalid."""
    if not written.startswith('"'):
        return written if written and '"' not in written else None
    quoted = _QUOTED.fullmatch(written)
    return None if quoted is None else re.sub(r"\\(.)", _unescaped, quoted[1])


def _unescaped(found: re.Match[str]) -> str:
    """Unescape quotes and backslashes only; other escapes belong to the regular expression."""
    return found[1] if found[1] in '"\\' else found[0]


def _check(pattern: str, field: str) -> None:
    """Raise :class:`FieldError` for a pattern that RE2 rejects or that is too large."""
    if len(pattern) > LONGEST_PATTERN:
        raise FieldError(field, f"a regular expression of at most {LONGEST_PATTERN} characters", len(pattern))
    try:
        size = _compiled(pattern).programsize
    except re2.error as error:
        why = error.args[0].decode("utf-8", "replace") if error.args else "not valid"
        raise FieldError(field, f"a regular expression in RE2 syntax ({why})", pattern) from None
    if size > LARGEST_PATTERN:
        raise FieldError(field, "a smaller regular expression (fewer repetitions or characters)", pattern)


def _options() -> Any:
    options = re2.Options()
    options.dot_nl, options.log_errors, options.max_mem = True, False, PATTERN_BYTES
    return options


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> Any:
    """Return the compiled RE2 pattern. Raises ``re2.error``."""
    return re2.compile(pattern, _options())
