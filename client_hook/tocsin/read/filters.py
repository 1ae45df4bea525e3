"""The filter language of the list of runs (web/lib/runs/filter.js), for ``Api.runs``. Pure.

Free text; ``project: name: tag: state: host: health: rule: id:``; numbers such as ``step>1000``; settings
such as ``config.lr>1e-4``. A ``-`` before a term excludes; quotes keep spaces. All terms must match.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from .answers import Run

_WORD = re.compile(r'(?:[^\s"]|"[^"]*"?)+')
_TERM = re.compile(r"([\w.\-/]+?)(>=|<=|!=|[:=<>])(.*)", re.ASCII | re.DOTALL)
_CONFIG = re.compile(r"(^|[\s-])config\.", re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?Infinity", re.ASCII)

_FIELDS: dict[str, Callable[[Run], str]] = {
    "project": lambda run: run.project,
    "name": lambda run: run.name,
    "state": lambda run: run.state,
    "id": lambda run: run.id,
    "tag": lambda run: "\n".join(run.tags),
    "host": lambda run: run.host,
    "health": lambda run: run.health,
    "rule": lambda run: run.reason.rule if run.reason else "",
}
_NUMBERS: dict[str, Callable[[Run], float | None]] = {
    "step": lambda run: run.last_step,
    "alerts": lambda run: run.alerts,
    "attempt": lambda run: run.attempt,
    "skipped": lambda run: run.skipped,
    "nonfinite": lambda run: run.nonfinite,
    "gpu": lambda run: run.gpu_util,
}

Holds = Callable[[Run], bool]
Settings = Mapping[str, Any]
"""Configuration of each run by its id."""


def needs_settings(text: str) -> bool:
    """Return whether a filter needs the configurations of the runs."""
    return bool(_CONFIG.search(text))


def run_filter(text: str, settings: Settings | None = None) -> Holds:
    """Return whether a run matches the filter ``text``, as a function."""
    words = [word.replace('"', "") for word in _WORD.findall(text)]
    terms = [_signed(word, settings or {}) for word in words if word]
    return lambda run: all(term(run) for term in terms)


def _signed(word: str, settings: Settings) -> Holds:
    if len(word) == 1 or not word.startswith("-"):
        return _term(word, settings)
    excluded = _term(word[1:], settings)
    return lambda run: not excluded(run)


def _term(word: str, settings: Settings) -> Holds:
    parts = _TERM.fullmatch(word)
    key, sign, wanted = parts.groups() if parts else ("", "", "")
    name = key.lower()
    if name.startswith("config."):
        return lambda run: _holds(_setting(settings.get(run.id), key[7:]), sign, wanted)
    if name in _NUMBERS:
        return lambda run: _holds(_NUMBERS[name](run), sign, wanted)
    if sign == ":" and name in _FIELDS:
        return lambda run: wanted.lower() in _FIELDS[name](run).lower()
    free = word.lower()
    return lambda run: free in "\n".join((run.project, run.name, run.id, *run.tags)).lower()


def _setting(config: Any, path: str) -> Any:
    """Return the setting at a dotted path, whatever its case; None if there is none."""
    wanted = path.lower()
    return next((value for name, value in _leaves(config, "") if name == wanted), None)


def _leaves(value: Any, path: str) -> Any:
    if isinstance(value, (dict, list)) and not _is_plain_list(value):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from _leaves(item, f"{path}.{key}".lower() if path else str(key).lower())
    else:
        yield path, value


def _is_plain_list(value: Any) -> bool:
    return (
        isinstance(value, list) and len(value) <= 16 and not any(isinstance(v, (dict, list)) for v in value)
    )


def _holds(value: Any, sign: str, wanted: str) -> bool:
    """Compare numbers as numbers, and everything else as text."""
    if value is None:
        return False
    text, want = _text(value).lower(), wanted.lower()
    a, b = _number(value), _number(wanted)
    both = a is not None and b is not None and bool(wanted)
    if sign == ":":
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return a == b if both and is_number else want in text
    if sign in ("=", "!="):
        return (a == b if both else text == want) == (sign == "=")
    if not both or a is None or b is None:
        return False
    return {">": a > b, "<": a < b, ">=": a >= b, "<=": a <= b}[sign]


def _text(value: Any) -> str:
    """Return a value as a page writes it."""
    if isinstance(value, list):
        return ",".join("" if item is None else _text(item) for item in value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _number(value: Any) -> float | None:
    if isinstance(value, (int, float)):
        return None if math.isnan(value) else float(value)
    text = str(value).strip()
    if isinstance(value, list) or not _NUMBER.fullmatch(text):
        return None
    return float(text)
