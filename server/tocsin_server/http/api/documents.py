"""Describe the documents that users write (rules, settings, routes) for OpenAPI.

``detect`` and ``notify`` parse them and name the wrong field in their errors; these types only serve the
OpenAPI description. Constraints between fields are described in docs/reference/custom-rules.md and
docs/explanation/alerts.md.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, Required

from pydantic import ConfigDict, Field, TypeAdapter
from typing_extensions import TypedDict

from tocsin_server.core.models import Severity
from tocsin_server.notify.mute_times import DAYS

CLOSED = ConfigDict(extra="forbid")

Span = Annotated[str, Field(pattern=r"^\s*[0-9]{1,15}(\.[0-9]{1,9})?\s*(steps?|s|min|h|d)\s*$")]
"""``20 steps``, ``90 s``, ``5 min``, ``2 h`` or ``1 d``."""
Glob = Annotated[str, Field(min_length=1, max_length=200)]
Short = Annotated[str, Field(min_length=1, max_length=200)]
Texts = Annotated[list[Short], Field(max_length=50)]
Globs = Annotated[list[Glob], Field(max_length=50)]
Matchers = Annotated[list[str], Field(max_length=50)]
Clock = Annotated[str, Field(pattern=r"^([01][0-9]|2[0-4]):[0-5][0-9]$")]
Reducer = Literal["value", "mean", "min", "max", "ratio", "change", "rate", "nonfinite", "absent"]
Comparison = Literal["<", "<=", ">", ">=", "==", "!="]

RuleFields = TypedDict(
    "RuleFields",
    {
        "title": Annotated[str, Field(max_length=200)] | None, "reducer": Reducer | None,
        "window": Span | None, "comparison": Comparison | None, "limit": float | None, "for": Span | None,
        "recover": float | None, "keep_firing_for": Span | None, "severity": Severity | None,
        "labels": Annotated[dict[str, Short], Field(max_length=16)] | None, "projects": Globs | None,
        "runs": Globs | None, "tags": Globs | None,
        "description": Annotated[str, Field(max_length=2000)] | None,
        "remedy": Annotated[str, Field(max_length=2000)] | None, "enabled": bool | None,
    },
    total=False,
)  # fmt: skip
RuleId = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$")]


class RuleDocument(RuleFields, total=False):
    """A custom rule (docs/reference/custom-rules.md). Null stands for the default."""

    __pydantic_config__ = CLOSED  # type: ignore[misc]
    id: Required[RuleId]
    series: Required[Glob]


class RuleChange(RuleFields, total=False):
    """Fields of a custom rule to change. Null stands for the default."""

    __pydantic_config__ = CLOSED  # type: ignore[misc]
    id: RuleId | None
    series: Glob | None


class TuningDocument(TypedDict, total=False):
    """The changes of a project to a built-in rule; at least one of the last three is required."""

    __pydantic_config__ = CLOSED  # type: ignore[misc]
    project: Annotated[str, Field(min_length=1, max_length=250)]
    enabled: bool | None
    severity: Severity | None
    settings: Annotated[dict[str, float | str], Field(max_length=100)] | None


class BuiltinDocument(TuningDocument, total=False):
    """``[[builtin]]`` of a rule file."""

    __pydantic_config__ = CLOSED  # type: ignore[misc]
    rule: Required[str]


class RuleFileDocument(TypedDict):
    """A rule file: ``rules`` is its ``[[rule]]``, ``builtin`` its ``[[builtin]]``."""

    __pydantic_config__ = CLOSED  # type: ignore[misc]
    source: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:/ -]{0,99}$")]
    rules: NotRequired[Annotated[list[RuleDocument], Field(max_length=1000)]]
    builtin: NotRequired[Annotated[list[BuiltinDocument], Field(max_length=5000)]]
    dry_run: NotRequired[bool]


RouteDocument = TypedDict(
    "RouteDocument",
    {
        "name": Short, "matchers": NotRequired[Matchers], "channels": NotRequired[Texts],
        "continue": NotRequired[bool], "enabled": NotRequired[bool], "group_by": NotRequired[Texts],
        "group_wait_s": NotRequired[Annotated[float, Field(ge=0, le=31_622_400)] | None],
        "group_interval_s": NotRequired[Annotated[float, Field(ge=1, le=31_622_400)] | None],
        "repeat_interval_s": NotRequired[Annotated[float, Field(ge=60, le=31_622_400)] | None],
        "send_resolved": NotRequired[bool], "mute_times": NotRequired[Texts],
    },
)  # fmt: skip
RouteDocument.__pydantic_config__ = CLOSED  # type: ignore[attr-defined]


class InhibitionDocument(TypedDict):
    """While an alert that matches ``source`` is open, those that match ``target`` are not sent."""

    __pydantic_config__ = CLOSED  # type: ignore[misc]
    source: Annotated[Matchers, Field(min_length=1)]
    target: Annotated[Matchers, Field(min_length=1)]
    equal: NotRequired[Texts]


StretchDocument = TypedDict(
    "StretchDocument",
    {
        "days": NotRequired[Annotated[list[Literal[DAYS]], Field(min_length=1)]],  # type: ignore[valid-type]
        "from": Clock,
        "to": Clock,
    },
)
StretchDocument.__pydantic_config__ = CLOSED  # type: ignore[attr-defined]


class MuteTimeDocument(TypedDict):
    """Weekly times in a time zone during which nothing is sent."""

    __pydantic_config__ = CLOSED  # type: ignore[misc]
    name: Short
    zone: NotRequired[Short]
    times: Annotated[list[StretchDocument], Field(min_length=1, max_length=50)]


class RoutingProblem(TypedDict):
    """A part of the stored document that cannot be read: its field, what was expected, and what it is."""

    subject: str
    expected: str
    got: Any


class NewRoutingDocument(TypedDict, total=False):
    """An omitted part takes its default; ``problems`` is ignored."""

    __pydantic_config__ = CLOSED  # type: ignore[misc]
    routes: Annotated[list[RouteDocument], Field(max_length=100)]
    inhibitions: Annotated[list[InhibitionDocument], Field(max_length=100)]
    mute_times: Annotated[list[MuteTimeDocument], Field(max_length=100)]
    problems: Any


class RoutingDocument(TypedDict):
    """docs/how-to/routes.md describes each field. ``problems`` lists stored parts that are not in effect."""

    routes: list[RouteDocument]
    inhibitions: list[InhibitionDocument]
    mute_times: list[MuteTimeDocument]
    problems: list[RoutingProblem]


BODIES = {
    "RuleBody": RuleDocument,
    "ChangedRule": RuleChange,
    "NewTuning": TuningDocument,
    "RuleFile": RuleFileDocument,
    "NewRouting": NewRoutingDocument,
}
"""Name of a body's model -> the type that the description shows instead."""


def described() -> dict[str, Any]:
    """Return the schemas of :data:`BODIES` and of everything that they refer to."""
    found: dict[str, Any] = {}
    for name, document in BODIES.items():
        schema = TypeAdapter(document).json_schema(ref_template="#/components/schemas/{model}")
        found |= schema.pop("$defs", {})
        found[name] = schema
    return found
