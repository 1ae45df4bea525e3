"""The filter language of the list of runs (web/lib/runs/filter.js), for ``Api.runs``. Pure.

Free text; ``project: name: tag: state: host: health: rule: id:``; numbers such as ``step>1000`` and
``loss<0.5``; any metric, as in ``val_loss<0.5``, ``min(val_loss)<0.5`` or, for a mean,
``mean10(val_loss)<0.5``; settings such as ``config.lr>1e-4``; regular expressions such as
``name~"swin|vit"``. All terms must match; ``OR`` between terms, parentheses group, and a ``-`` before a term
or a group excludes. Quotes keep spaces.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from .answers import Run

_TERM = re.compile(r"([\w.\-/]+?)(>=|<=|!=|[:=<>~])(?:(?<==)=)?(.*)", re.ASCII | re.DOTALL)
_METRIC = re.compile(r"(.+?)(>=|<=|!=|[=<>])(?:(?<==)=)?(.*)", re.DOTALL)
_SIGN = re.compile(r"[<>=]|!=")
_SPACE = re.compile(r"\s+(?=[^\s)])")
_OF_METRIC = re.compile(r"(last|min|max|mean[1-9]\d{0,2}|mean1000)\((.+)\)", re.ASCII | re.DOTALL)
_CONFIG = re.compile(r"(^|[\s(-])config\.", re.IGNORECASE)
_INF = re.compile(r"^([+-]?)inf$", re.IGNORECASE)
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
    "loss": lambda run: run.last.get("loss"),
    "grad_norm": lambda run: run.last.get("grad_norm"),
    "scale": lambda run: run.last.get("scale"),
    "lr": lambda run: run.last.get("lr"),
}
_VALUES = {
    "state": ("running", "stalled", "lost", "finished", "failed"),
    "health": ("ok", "info", "warning", "critical", "ended"),
}
"""Every value of a field that has few."""
_KNOWN = (
    "a field, such as name: or step>, a metric that a run has, such as val_loss<, "
    "or a setting, such as config.lr>"
)

_MEANT = {
    "or": "OR in capital letters",
    "|": "OR",
    "||": "OR",
    "and": "AND in capital letters",
    "&": "AND",
    "&&": "AND",
    "not": "- directly before the term",
    "NOT": "- directly before the term",
}
"""Words of other languages, and what they are here."""

_DEEPEST = 50
"""Groups within each other."""
_MATCHED = 100
"""Letters of a field that a regular expression sees, so that none takes long."""

Holds = Callable[[Run], bool]
Settings = Mapping[str, Any]
"""Configuration of each run by its id."""


def needs_settings(text: str) -> bool:
    """Return whether a filter needs the configurations of the runs."""
    return bool(_CONFIG.search(text))


@dataclass(frozen=True)
class Problem:
    """A place in a filter that is not understood, and what was expected there."""

    at: int
    end: int
    expected: str


def run_filter(text: str, settings: Settings | None = None, names: Collection[str] = ()) -> Holds:
    """Return whether a run matches the filter ``text``, as a function. What is not understood is left out.

    Args:
        text: The filter.
        settings: The configurations, if it needs them.
        names: The series that runs have. A run that is tested must have its ``metrics`` of
            :func:`filter_metrics`.
    """
    return _Parser(text, settings or {}, names).holds


def filter_problems(text: str, names: Collection[str] = ()) -> list[Problem]:
    """Return what is not understood in a filter, in the order of the text."""
    return sorted(_Parser(text, {}, names).problems, key=lambda problem: problem.at)


def filter_metrics(text: str, names: Collection[str]) -> list[str]:
    """Return the series in a filter, of those that runs have."""
    return list(_Parser(text, {}, names).metrics)


def filter_means(text: str, names: Collection[str]) -> list[str]:
    """Return the means in a filter, as ``GET /runs`` takes them: ``10:val_loss``."""
    return list(_Parser(text, {}, names).means)


def may_name_metrics(text: str) -> bool:
    """Return whether a filter has a term that may be about a metric, so that their names are needed."""
    parser = _Parser(text, {}, ())
    return parser.asks_metric


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    at: int
    end: int


def _tokens(text: str) -> list[_Token]:
    """Split into words, parentheses and OR; AND adds nothing.

    ``mAP50(B)`` is one word, and so is a comparison with spaces around its sign.
    """
    found: list[_Token] = []
    i = 0
    while i < len(text):
        at = i
        if text[i].isspace():
            i += 1
        elif text[i] in "()":
            i += 1
            found.append(_Token("open" if text[at] == "(" else "close", text[at], at, i))
        elif text.startswith("-(", i):
            i += 2
            found.append(_Token("not", "-(", at, i))
        else:
            i = _word_end(text, i)
            raw = text[at:i]
            while skipped := _space_inside(text, i):
                start = i + skipped
                i = _word_end(text, start)
                raw += text[start:i]
            word = raw.replace('"', "")
            if raw == "OR":
                found.append(_Token("or", raw, at, i))
            elif word and raw != "AND":
                found.append(_Token("word", word, at, i))
    return found


def _word_end(text: str, i: int) -> int:
    depth, quoted = 0, False
    while i < len(text):
        letter = text[i]
        quoted ^= letter == '"'
        if not quoted:
            if letter.isspace() or (letter == ")" and not depth):
                break
            depth += (letter == "(") - (letter == ")")
        i += 1
    return i


def _space_inside(text: str, i: int) -> int:
    """Return how much space at ``i``, where a word ends, is before or after the sign of a comparison."""
    found = _SPACE.match(text, i)
    end = found.end() if found else i
    is_inside = text[i - 1] in "<>=" or _SIGN.match(text, end)
    return end - i if is_inside else 0


class _Parser:
    """Reads one filter; ``holds`` is the result."""

    def __init__(self, text: str, settings: Settings, names: Collection[str]) -> None:
        self.problems: list[Problem] = []
        self.metrics: dict[str, None] = {}
        self.means: dict[str, None] = {}
        self.asks_metric = False
        self._settings = settings
        self._names = names
        self._tokens = _tokens(text)
        self._next = 0
        self._depth = 0
        if text.count('"') % 2:
            self.problems.append(Problem(text.rindex('"'), len(text), 'a " that closes this'))
        self.holds = self._any(None)

    def _any(self, opened: _Token | None) -> Holds:
        """Read alternatives up to the parenthesis that closes the group, or to the end of the text."""
        groups: list[list[Holds]] = [[]]
        waits: _Token | None = None
        closed = False
        while not closed and self._next < len(self._tokens):
            token = self._tokens[self._next]
            self._next += 1
            if token.kind == "or":
                if groups[-1]:
                    groups.append([])
                else:
                    self._expect(token, "a term between the two ORs" if waits else "a term before OR")
                waits = token
            elif token.kind == "close":
                closed = opened is not None
                if not closed:
                    self._expect(token, "no ), because none is open")
            else:
                groups[-1].append(self._one(token))
                waits = None
        if waits and len(groups) > 1 and not groups[-1]:
            self._expect(waits, "a term after OR")
            groups.pop()
        if opened and not closed:
            self._expect(opened, "a ) that closes this")
        return lambda run: any(all(holds(run) for holds in terms) for terms in groups)

    def _one(self, token: _Token) -> Holds:
        if token.kind in ("open", "not"):
            return self._group(token)
        text = token.text
        is_quoted = token.end - token.at > len(text)
        if not is_quoted and text in _MEANT and len(self._tokens) > 1:
            self._expect(token, _MEANT[text])
            return lambda run: True
        if len(text) > 1 and text.startswith("-"):
            return _denied(self._term(token, text[1:]))
        return self._term(token, text)

    def _group(self, token: _Token) -> Holds:
        if self._depth == _DEEPEST:
            self._expect(token, f"at most {_DEEPEST} groups within each other")
            return lambda run: True
        self._depth += 1
        inner = self._any(token)
        self._depth -= 1
        return _denied(inner) if token.kind == "not" else inner

    def _term(self, token: _Token, word: str) -> Holds:
        parts = _TERM.fullmatch(word)
        key, sign, wanted = parts.groups() if parts else ("", "", "")
        name, low = key.lower(), wanted.lower()
        of_config = name.startswith("config.")
        if sign == "~" and (name in _FIELDS or of_config):
            return self._matching(token, key, wanted)
        if of_config or name in _NUMBERS:
            self._check_number(token, key, sign, wanted)
        if of_config:
            return lambda run: _holds(_setting(self._settings.get(run.id), key[7:]), sign, wanted)
        if sign not in ("", "~") and name in _NUMBERS:
            return lambda run: _holds(_NUMBERS[name](run), sign, wanted)
        self._check_value(token, name, sign, low)
        if sign == ":" and name in _FIELDS:
            return lambda run: low in _FIELDS[name](run).lower()
        if sign in ("=", "!=") and name in _FIELDS:
            return lambda run: (low in _FIELDS[name](run).lower().split("\n")) == (sign == "=")
        metric = self._metric(token, word)
        if metric is not None:
            return metric
        if sign == "~":
            self._expect(token, _KNOWN)
        elif sign == ":" and (field := _field_like(name)):
            self._expect(token, f"{field}:")
        free = word.lower()
        return lambda run: free in "\n".join((run.project, run.name, run.id, *run.tags)).lower()

    def _check_value(self, token: _Token, name: str, sign: str, wanted: str) -> None:
        """Report a value that the field never has; a part of one is allowed after a colon."""
        values = _VALUES.get(name, ())
        known = any(wanted in value for value in values) if sign == ":" else wanted in values
        if values and sign in (":", "=", "!=") and wanted and not known:
            self._expect(token, f"{name}{sign}{' or '.join([', '.join(values[:-1]), values[-1]])}")

    def _check_number(self, token: _Token, subject: str, sign: str, wanted: str) -> None:
        """Report a comparison, such as ``loss<``, whose right-hand side is no number: nothing matches it.

        Settings may equal a text, and values NaN.
        """
        if _number(_INF.sub(r"\1Infinity", wanted)) is not None:
            return
        is_setting = subject.lower().startswith("config.")
        if sign[:1] in ("<", ">"):
            self._expect(token, f"a number after {subject}{sign}")
        elif sign.endswith("=") and not is_setting and wanted.lower() != "nan":
            self._expect(token, f"a number or nan after {subject}{sign}")

    def _metric(self, token: _Token, word: str) -> Holds | None:
        """Read a term about a metric; None if it is free text, which may contain =."""
        parts = _METRIC.fullmatch(word)
        if parts is None:
            return None
        self.asks_metric = True
        subject, sign, wanted = parts.groups()
        inner = None if subject in self._names else _OF_METRIC.fullmatch(subject)
        kind, name = inner.groups() if inner else ("last", subject)
        if name not in self._names:
            if sign != "=":
                self._expect(token, _KNOWN)
            return None
        self._check_number(token, subject, sign, wanted)
        self.metrics[name] = None
        count = kind[4:] if kind.startswith("mean") else ""
        if count:
            self.means[f"{count}:{name}"] = None

        def holds(run: Run) -> bool:
            metric = run.metrics.get(name)
            if metric is None:
                return False
            return _holds(metric.means.get(count) if count else getattr(metric, kind), sign, wanted)

        return holds

    def _matching(self, token: _Token, key: str, wanted: str) -> Holds:
        if not _is_quick(wanted):
            self._expect(token, _QUICK)
            return lambda run: False
        try:
            pattern = re.compile(wanted, re.IGNORECASE)
        except re.error:
            self._expect(token, "a regular expression after ~")
            return lambda run: False
        if key.lower() in _FIELDS:
            return lambda run: bool(pattern.search(_FIELDS[key.lower()](run)[:_MATCHED]))

        def holds(run: Run) -> bool:
            value = _setting(self._settings.get(run.id), key[7:])
            return bool(pattern.search("" if value is None else _text(value)[:_MATCHED]))

        return holds

    def _expect(self, token: _Token, expected: str) -> None:
        self.problems.append(Problem(token.at, token.end, expected))


_QUICK = (
    "a regular expression of at most 100 letters, with at most three of ( and of * + ? {, "
    "and no repeated group"
)


_LEAST_MISTYPED = 4
"""Shorter words are also similar by chance."""


def _field_like(name: str) -> str:
    """Return the field that is meant by the beginning of its name, by its plural, or with a typing error.

    Returns an empty text if there is none.
    """
    if len(name) < 2:
        return ""
    like = (each for each in _FIELDS if each.startswith(name) or name == f"{each}s" or _mistyped(name, each))
    return next(like, "")


def _mistyped(typed: str, word: str) -> bool:
    """Return whether a letter of a word is missing, superfluous, another one, or in another place."""
    if min(len(typed), len(word)) < _LEAST_MISTYPED:
        return False
    shorter = {word[:i] + word[i + 1 :] for i in range(len(word))}
    others = {typed[:i] + typed[i + 1 :] for i in range(len(typed))}
    return typed in shorter or word in others or not shorter.isdisjoint(others)


def _is_quick(pattern: str) -> bool:
    """Return whether a regular expression cannot take long."""
    slow = (")*", ")+", "){", *(f"\\{digit}" for digit in "123456789k"))
    few = sum(letter in "*+?{" for letter in pattern) <= 3 and pattern.count("(") <= 3
    return len(pattern) <= 100 and few and not any(part in pattern for part in slow)


def _denied(holds: Holds) -> Holds:
    return lambda run: not holds(run)


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
    a, b = _number(value), _number(_INF.sub(r"\1Infinity", wanted))
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
