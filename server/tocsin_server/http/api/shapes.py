"""Define the response types that several routes share, for OpenAPI (docs/reference/http-api.md)."""

from __future__ import annotations

from enum import Enum
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from tocsin_server.core.models import AlertState, RunState, Severity


def row_of(shape: type, source: object, **computed: object) -> dict[str, Any]:
    """Return an object of the type ``shape``, a TypedDict.

    A field that is not in ``computed`` is the attribute of ``source`` with its name. ``x_ms`` is the
    attribute ``x_ns`` in milliseconds; of a member of an enumeration, the value is taken.
    """
    return {
        name: computed[name] if name in computed else _field(source, name) for name in shape.__annotations__
    }


def _field(source: object, name: str) -> object:
    if name.endswith("_ms") and not hasattr(source, name):
        time_ns = getattr(source, f"{name.removesuffix('_ms')}_ns")
        return None if time_ns is None else time_ns / 1e6
    value = getattr(source, name)
    return value.value if isinstance(value, Enum) else value


Number = float | Literal["NaN", "Infinity", "-Infinity"]
"""JSON has no NaN: a float, or its name."""


DeliveryState = Literal["waiting", "claimed", "sent", "failed"]
"""State of a notification in the outbox."""


class Packed(TypedDict):
    """A float64 array in Plotly's format: ``bdata`` is base64 of little-endian values."""

    dtype: Literal["f8"]
    bdata: str


class Problem(TypedDict):
    """RFC 9457: the subject, what was expected, and what was sent."""

    type: str
    title: str
    status: int
    detail: str
    subject: str
    expected: str
    got: str


class Spark(TypedDict):
    """At most 72 buckets ``[min, max, mean, nan, pinf, ninf]`` between two steps, null if empty."""

    x0: int | None
    x1: int | None
    buckets: list[tuple[float | None, float | None, float | None, int, int, int] | None]


class Reason(TypedDict):
    """The most severe open alert of a run."""

    rule: str
    severity: Severity
    summary: str
    onset_step: int | None
    alert: str


class ClientStatus(TypedDict):
    """What the training processes report about themselves."""

    queued: int
    dropped: int
    spooled_bytes: int
    phase: str


class RunOutcome(TypedDict):
    """How a run ended, and whether one of the alerts that were firing then was acknowledged."""

    kind: Literal["finished", "stopped", "crashed", "lost"]
    text: str
    severity: Severity | None
    alert: str | None
    acknowledged: bool


class MetricSummary(TypedDict):
    """A series of a run: newest value and its step, and extremes of the finite values, null without any.

    ``n`` counts values; ``nonfinite`` of them are NaN, Inf or -Inf. ``means`` has the requested means by the
    number of newest values, of the same attempt and rank as ``last``.
    """

    last: Number
    step: int
    min: float | None
    max: float | None
    n: int
    nonfinite: int
    means: NotRequired[dict[str, Number]]


class RunRow(TypedDict):
    """The row of the fleet page. Unknown values are null."""

    id: str
    project: str
    name: str
    state: RunState
    health: Literal["critical", "warning", "ok", "ended"]
    attempt: int
    attempts: int
    tags: list[str]
    host: str
    archived: bool
    edited_ms: float | None
    deletion_ms: float | None
    created_ms: float
    last_seen_ms: float
    ended_ms: float | None
    error: dict[str, Any] | None
    last_step: int | None
    planned_steps: int | None
    steps_per_s: float | None
    last: dict[str, Number | None]
    sparks: NotRequired[dict[str, Spark]]
    skipped: int
    nonfinite: int
    lost_records: int
    gpu_util: Number | None
    metrics: NotRequired[dict[str, MetricSummary]]
    alerts: int
    severities: dict[Severity, int]
    reason: Reason | None
    outcome: RunOutcome | None
    client: ClientStatus


class SeriesRow(TypedDict):
    """One series of a run, over all its layers."""

    name: str
    n: int
    first_step: int | None
    last_step: int | None
    last: Number | None


class Evidence(TypedDict):
    """One number that supports a finding."""

    name: str
    value: Number | str
    unit: str
    step: int | None


class Remedy(TypedDict):
    """What to do, and code or configuration to paste."""

    text: str
    code: str


class Diagnosis(TypedDict):
    """The likely cause, its evidence, alternatives, remedies, and how to confirm it."""

    cause: str
    evidence: list[Evidence]
    alternatives: list[str]
    remedies: list[Remedy]
    how_to_confirm: str
    timeline: list[tuple[int, str, str]]


class AlertRow(TypedDict):
    """One episode of one alert of one run.

    ``incident``: id of its incident, "" while it is pending. ``causal_order``: position of its rule, from
    cause to effect.
    """

    id: str
    incident: str
    run_id: str
    run_name: str
    project: str
    rule: str
    subject: str
    severity: Severity
    state: AlertState
    onset_step: int | None
    onset_ms: float
    fired_step: int | None
    fired_ms: float | None
    resolved_step: int | None
    resolved_ms: float | None
    late: bool
    causal_order: int
    summary: str
    labels: dict[str, str]
    diagnosis: Diagnosis
