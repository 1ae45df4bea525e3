"""A custom rule: a reducer of a series over a window, compared with a limit.

``read_rule`` reads a rule from JSON or TOML data and names the invalid field in its errors.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

from tocsin_server.core.errors import FieldError, storable
from tocsin_server.core.models import Severity
from tocsin_server.detect.custom import glob
from tocsin_server.detect.custom.span import NEWEST, NOTHING, Span, read_span
from tocsin_server.detect.interface.formatting import number
from tocsin_server.detect.rules.catalog import catalogue

REDUCERS = ("value", "mean", "min", "max", "ratio", "change", "rate", "nonfinite", "absent")
COMPARISONS = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq,
    "!=": operator.ne,
}  # fmt: skip
IN_WORDS = {
    "<": "below", "<=": "at or below", ">": "above", ">=": "at or above", "==": "equal to",
    "!=": "not equal to",
}  # fmt: skip
TAKEN_LABELS = frozenset(
    {"rule", "severity", "project", "run", "run_id", "incident", "subject", "host", "tags"}
)
"""Labels that every alert has."""
MOST_LABELS, MOST_GLOBS = 16, 50
LONGEST_TITLE, LONGEST_TEXT = 200, 2000
_ID = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


@dataclass(frozen=True, slots=True)
class CustomRule:
    """A custom rule; docs/reference/custom-rules.md describes every field."""

    id: str
    series: str
    reducer: str = "value"
    window: Span = NEWEST
    comparison: str = ">"
    limit: float = 0.0
    for_: Span = NOTHING
    keep_firing_for: Span = NOTHING
    recover: float | None = None
    severity: Severity = Severity.WARNING
    labels: tuple[tuple[str, str], ...] = ()
    projects: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    title: str = ""
    description: str = ""
    remedy: str = ""
    enabled: bool = True

    @property
    def is_absence(self) -> bool:
        return self.reducer == "absent"

    def holds(self, value: float) -> bool:
        """Return whether the condition holds for a reduced value, which must not be NaN."""
        return value > 0 if self.is_absence else bool(COMPARISONS[self.comparison](value, self.limit))

    def is_back(self, value: float) -> bool:
        """Return whether a value that does not meet the condition is far enough from the limit to recover."""
        if self.recover is None or self.is_absence:
            return True
        return value >= self.recover if self.comparison in ("<", "<=") else value <= self.recover

    def concerns(self, project: str, names: tuple[str, str], tags: tuple[str, ...]) -> bool:
        """Return whether the rule applies to a run.

        Args:
            project: Project of the run.
            names: Name and id of the run; one of them must match.
            tags: Tags of the run; one of them must match.
        """
        return (
            glob.any_matches(self.projects, (project,))
            and glob.any_matches(self.runs, names)
            and glob.any_matches(self.tags, tags)
        )

    @property
    def evaluated(self) -> tuple[Any, ...]:
        """Return the fields that decide when the rule fires and which alert it raises."""
        return (
            self.series, self.reducer, self.window, self.comparison, self.limit, self.for_,
            self.keep_firing_for, self.recover, self.labels,
        )  # fmt: skip

    def reduced(self, series: str) -> str:
        """Describe the compared value: ``mean of loss over 20 steps``."""
        if self.reducer == "value":
            return series
        if self.reducer == "ratio":
            return f"{series} relative to its mean over {self.window}"
        what = "non-finite values" if self.reducer == "nonfinite" else self.reducer
        return f"{what} of {series} over {self.window}"

    def condition(self) -> str:
        """Describe the condition: ``below 16384``."""
        return f"{IN_WORDS[self.comparison]} {number(self.limit)}"


NAMES = tuple("for" if item.name == "for_" else item.name for item in fields(CustomRule))
"""The names of the fields in JSON and TOML."""


def read_rule(body: object, where: str = "") -> CustomRule:
    """Read a rule from JSON or TOML data.

    Args:
        body: A mapping of fields.
        where: Prefix for field names in errors.

    Raises:
        FieldError: A field is unknown, missing or invalid.
    """
    if not isinstance(body, Mapping):
        raise FieldError(where.rstrip(".") or "rule", "a table of fields", body)
    for name in body:
        if name not in NAMES:
            raise FieldError(f"{where}{name}", f"one of {', '.join(NAMES)}", name)
    reader = _Reader(body, where)
    reducer = reader.choice("reducer", REDUCERS, "value")
    absent = reducer == "absent"
    comparison, limit = reader.condition(absent)
    return CustomRule(
        id=reader.id(),
        series=reader.glob("series"),
        reducer=reducer,
        window=reader.window(reducer),
        comparison=comparison,
        limit=limit,
        for_=reader.span("for"),
        keep_firing_for=reader.span("keep_firing_for"),
        recover=reader.recover(comparison, limit, absent),
        severity=Severity(reader.choice("severity", tuple(Severity), "warning")),
        labels=reader.labels(),
        projects=reader.globs("projects"),
        runs=reader.globs("runs"),
        tags=reader.globs("tags"),
        title=reader.text("title", LONGEST_TITLE),
        description=reader.text("description", LONGEST_TEXT),
        remedy=reader.text("remedy", LONGEST_TEXT),
        enabled=reader.truth("enabled"),
    )


def plain(rule: CustomRule) -> dict[str, Any]:
    """Return all fields in the format of :func:`read_rule`; None for those that do not apply."""
    absent = rule.is_absence
    return {
        "id": rule.id,
        "title": rule.title,
        "series": rule.series,
        "reducer": rule.reducer,
        "window": None if rule.reducer == "value" else str(rule.window),
        "comparison": None if absent else rule.comparison,
        "limit": None if absent else rule.limit,
        "for": str(rule.for_),
        "recover": rule.recover,
        "keep_firing_for": str(rule.keep_firing_for),
        "severity": rule.severity.value,
        "labels": dict(rule.labels),
        "projects": list(rule.projects),
        "runs": list(rule.runs),
        "tags": list(rule.tags),
        "description": rule.description,
        "remedy": rule.remedy,
        "enabled": rule.enabled,
    }


def brief(rule: CustomRule) -> dict[str, Any]:
    """Return the required fields and those that differ from their defaults."""
    usual = plain(CustomRule(rule.id, rule.series)) | {"comparison": None, "limit": None}
    kept = {name: value for name, value in plain(rule).items() if value != usual[name]}
    return {"id": rule.id, "series": rule.series, **kept}


def is_number(value: object) -> bool:
    """Return whether ``value`` is a finite number; booleans do not count."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


@lru_cache(maxsize=1)
def built_in() -> frozenset[str]:
    """Return the identifiers of built-in rules, which custom rules may not use."""
    return frozenset(info.id for info in catalogue())


class _Reader:
    """Reads the fields of a table; None counts as missing."""

    def __init__(self, body: Mapping[str, Any], where: str) -> None:
        self.body = {name: value for name, value in body.items() if value is not None}
        self.where = where

    def wrong(self, name: str, expected: str) -> FieldError:
        return FieldError(f"{self.where}{name}", expected, self.body.get(name))

    def id(self) -> str:
        given = self.body.get("id")
        if not isinstance(given, str) or not _ID.fullmatch(given):
            raise self.wrong("id", "1 to 64 characters of a-z, 0-9 and -, not starting or ending with -")
        if given in built_in():
            raise self.wrong("id", "an id that no built-in rule has")
        return given

    def choice(self, name: str, known: tuple[str, ...], default: str) -> str:
        given = self.body.get(name, default)
        if not isinstance(given, str) or given not in known:
            raise self.wrong(name, f"one of {', '.join(known)}")
        return given

    def glob(self, name: str) -> str:
        expected = glob.problem(self.body.get(name))
        if expected is not None:
            raise self.wrong(name, expected)
        return str(self.body[name]).strip()

    def globs(self, name: str) -> tuple[str, ...]:
        given = self.body.get(name, [])
        if not isinstance(given, (list, tuple)) or len(given) > MOST_GLOBS:
            raise self.wrong(name, f"a list of at most {MOST_GLOBS} globs")
        for at, pattern in enumerate(given):
            if (expected := glob.problem(pattern)) is not None:
                raise FieldError(f"{self.where}{name}[{at}]", expected, pattern)
        return tuple(pattern.strip() for pattern in given)

    def span(self, name: str) -> Span:
        return read_span(self.body.get(name, "0 steps"), f"{self.where}{name}")

    def window(self, reducer: str) -> Span:
        if reducer == "value":
            given = self.body.get("window", "1 step")
            if read_span(given, f"{self.where}window") != NEWEST:
                raise self.wrong("window", "no window, because value uses only the newest record")
            return NEWEST
        if "window" not in self.body:
            raise self.wrong("window", f"a window such as '20 steps', which {reducer} needs")
        return read_span(self.body["window"], f"{self.where}window", least=1)

    def condition(self, absent: bool) -> tuple[str, float]:
        """Return comparison and limit."""
        if absent:
            for name in ("comparison", "limit", "recover"):
                if name in self.body:
                    raise self.wrong(name, f"no {name}, because absent compares nothing")
            return ">", 0.0
        if "comparison" not in self.body:
            raise self.wrong("comparison", f"one of {', '.join(COMPARISONS)}")
        comparison = self.choice("comparison", tuple(COMPARISONS), ">")
        return comparison, self.number("limit")

    def number(self, name: str) -> float:
        given = self.body.get(name)
        if not is_number(given):
            raise self.wrong(name, "a finite number")
        return float(given)  # type: ignore[arg-type]

    def recover(self, comparison: str, limit: float, absent: bool) -> float | None:
        if absent or "recover" not in self.body:
            return None
        value = self.number("recover")
        if comparison in ("==", "!="):
            raise self.wrong("recover", f"no value, because {comparison} has no side to recover to")
        below = comparison in ("<", "<=")
        if value < limit if below else value > limit:
            side = "at or above" if below else "at or below"
            raise self.wrong("recover", f"a number {side} the limit {number(limit)}")
        return value

    def labels(self) -> tuple[tuple[str, str], ...]:
        given = self.body.get("labels", {})
        if not isinstance(given, Mapping) or len(given) > MOST_LABELS:
            raise self.wrong("labels", f"a table of at most {MOST_LABELS} labels")
        for name, value in given.items():
            field = f"{self.where}labels.{name}"
            if not isinstance(name, str) or not _LABEL.fullmatch(name):
                raise FieldError(field, "a name of letters, digits and _, at most 64", name)
            if name in TAKEN_LABELS:
                raise FieldError(field, "a name that no built-in label has", name)
            if not storable(value) or not 0 < len(value) <= LONGEST_TITLE:
                raise FieldError(field, f"a text of 1 to {LONGEST_TITLE} characters", value)
        return tuple(sorted(given.items()))

    def text(self, name: str, longest: int) -> str:
        given = self.body.get(name, "")
        if not isinstance(given, str) or not storable(given) or len(given) > longest:
            raise self.wrong(name, f"a text of at most {longest} characters")
        return given.strip()

    def truth(self, name: str) -> bool:
        given = self.body.get(name, True)
        if not isinstance(given, bool):
            raise self.wrong(name, "true or false")
        return given
