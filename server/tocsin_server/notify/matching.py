"""Label matchers as in Alertmanager: ``severity="critical"``, ``rule!~"loss-.*"``. Pure.

A regular expression matches the whole value. It must not be able to take exponential time, for it
runs in the process that takes records: no quantifier behind a group, few quantifiers and groups,
no back-reference (see :func:`_check`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from tocsin_server.errors import FieldError, storable

OPERATORS = ("=~", "!~", "!=", "=")
LONGEST_PATTERN = 200
LONGEST_VALUE = 256
"""Characters of a label that a regular expression sees."""
MOST_REPEATS, MOST_OPTIONAL, MOST_GROUPS = 3, 8, 3
_MATCHER = re.compile(r'\s*([A-Za-z_][\w.\-/]*)\s*(=~|!~|!=|=)\s*(?:"((?:[^"\\]|\\.)*)"|([^"\s][^"]*?))\s*')
_ESCAPED = re.compile(r"\\.", re.DOTALL)
_BACK = re.compile(r"\\[1-9]|\(\?P[=>]")


@dataclass(frozen=True, slots=True)
class Matcher:
    """One comparison of one label. A label that an alert does not have counts as empty."""

    name: str
    operator: str
    value: str

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether an alert with these labels is meant."""
        found = labels.get(self.name, "")
        if self.operator in ("=", "!="):
            return (found == self.value) is (self.operator == "=")
        matched = _compiled(self.value).fullmatch(found[:LONGEST_VALUE]) is not None
        return matched is (self.operator == "=~")

    def __str__(self) -> str:
        quoted = self.value.replace("\\", "\\\\").replace('"', '\\"')
        return f'{self.name}{self.operator}"{quoted}"'


def all_hold(matchers: Iterable[Matcher], labels: Mapping[str, str]) -> bool:
    """Whether every matcher holds; without any matcher: yes."""
    return all(matcher.holds(labels) for matcher in matchers)


def parse_matcher(text: object, field: str) -> Matcher:
    """A matcher from its text. Raises :class:`FieldError`, which names ``field``."""
    found = _MATCHER.fullmatch(text) if isinstance(text, str) and storable(text) else None
    if found is None:
        raise FieldError(field, 'a matcher as severity="critical" (=, !=, =~ or !~)', text)
    name, operator, quoted, bare = found.groups()
    value = re.sub(r"\\(.)", _unescaped, quoted) if quoted is not None else bare.strip()
    if operator in ("=~", "!~"):
        _check(value, field)
    return Matcher(name, operator, value)


def parse_matchers(texts: object, field: str, *, least: int = 0) -> tuple[Matcher, ...]:
    """A list of matchers. Raises :class:`FieldError`."""
    if not isinstance(texts, (list, tuple)) or not least <= len(texts) <= 50:
        raise FieldError(field, f"a list of {least} to 50 matchers", texts)
    return tuple(parse_matcher(text, f"{field}[{at}]") for at, text in enumerate(texts))


def _unescaped(found: re.Match[str]) -> str:
    """Within quotes only ``\\"`` and ``\\\\`` are escapes: the others belong to a regular expression."""
    return found[1] if found[1] in '"\\' else found[0]


def _check(pattern: str, field: str) -> None:
    """Raises :class:`FieldError` for what is no regular expression, or may take for ever."""
    if len(pattern) > LONGEST_PATTERN:
        raise FieldError(field, f"a regular expression of at most {LONGEST_PATTERN} characters", len(pattern))
    bare = _ESCAPED.sub("x", pattern)
    if _BACK.search(pattern) or re.search(r"\)[*+{]", bare):
        raise FieldError(field, "a regular expression without repeated groups and back-references", pattern)
    repeats, optional, groups = (
        len(re.findall(r"[*+{]", bare)),
        len(re.findall(r"(?<!\()\?", bare)),
        bare.count("("),
    )
    if repeats > MOST_REPEATS or optional > MOST_OPTIONAL or groups > MOST_GROUPS:
        most = f"at most {MOST_REPEATS} of * + {{, {MOST_OPTIONAL} of ? and {MOST_GROUPS} groups"
        raise FieldError(field, f"a regular expression with {most}", pattern)
    try:
        _compiled(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise FieldError(field, f"a regular expression ({error})", pattern) from None


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.DOTALL)
