"""Maintain the live summary of a run for the fleet page: docs/reference/http-api.md, RunRow. Pure.

A summary processes every accepted batch and keeps the sparklines, last values, throughput, counts and client
status. It is saved with the rule state and restored after a restart.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from operator import attrgetter
from typing import Any

import numpy as np

from tocsin.protocol import MOST_STEP, Alive
from tocsin_server.core import exact_json
from tocsin_server.core.causal_order import by_cause, place
from tocsin_server.core.models import RUN_FAILED, Alert, Column, RecordBatch, RunEvent, RunState, Severity
from tocsin_server.runs.run_failure import BY_HAND, BY_SIGNAL
from tocsin_server.runs.sparkline_buckets import SHORT, Grid, Spark

DROPPED = "dropped"
"""Kind of the event by which a process reports records that it could not deliver."""

VITALS = ("loss", "grad_norm", "scale", "lr")
GPU = "gpu_util"
SPEED_WINDOW_NS = 30_000_000_000
"""Time window over which the throughput is measured; after as much silence it is unknown."""
_SPEED_POINTS = 600
_MS = 1_000_000
_LONGEST_CAUSE = 300
MOST_ENDED = 50
"""Maximum number of alerts of an ended run whose acknowledgement counts for the run."""
OF_TIME = frozenset({"stalled", "trainer-lost"})
"""Rules whose alerts are meaningless once the run has ended."""


@dataclass(slots=True)
class RunMetadata:
    """The data of a summary that do not come from records. Times are Unix ns by the server's clock."""

    id: str
    project: str
    name: str
    state: RunState = RunState.RUNNING
    attempt: int = 1
    attempts: int = 1
    tags: tuple[str, ...] = ()
    host: str = ""
    archived: bool = False
    created_ns: int = 0
    last_seen_ns: int = 0
    ended_ns: int | None = None
    error: Mapping[str, Any] | None = None
    planned_steps: int | None = None
    edited: Mapping[str, int] = field(default_factory=dict)
    """Fields edited by users, and when (Unix ms): name, notes, tags. They override the script's values."""
    deletion_ns: int | None = None
    """When the run will be deleted; None if no deletion is scheduled."""


@dataclass(slots=True)
class _Counts:
    """Counts over a whole run."""

    skipped: int = 0
    nonfinite: int = 0
    attempt: int = 0
    last_step: int | None = None
    last: dict[str, float] = field(default_factory=dict)
    gpu_util: float | None = None
    """Mean utilization of a process's GPUs in percent, last value."""
    lost: int = 0
    """Records that the processes reported as lost."""


class RunSummary:
    """The summary of one run, updated with every batch."""

    def __init__(self, metadata: RunMetadata) -> None:
        self.metadata = metadata
        self.sparks: dict[str, Spark] = {}
        self.open_alerts: tuple[Alert, ...] = ()
        self.left: dict[str, Any] | None = None
        """The most severe alert that was firing when the run ended."""
        self.ended_with: tuple[str, ...] = ()
        """Ids of the most severe alerts that were open when the run ended, unless they are only info."""
        self.acked: set[str] = set()
        """Ids of the alerts that are acknowledged, among those that are open or that the run ended with."""
        self._counts = _Counts()
        self._progress: deque[tuple[int, int]] = deque(maxlen=_SPEED_POINTS)
        self._alive: dict[int, Alive] = {}
        self._seldom: dict[str, Any] = {}
        """The rarely changing part of the last row, whose JSON is cached."""
        self._seldom_text = "{}"

    def take(self, batch: RecordBatch, now_ns: int) -> None:
        """Add the records of ``batch``, which arrived at ``now_ns``."""
        few = batch.step.tolist() if batch.n <= SHORT else None
        grid = None if few or not batch.n else Grid(batch.step)
        for name, column in batch.columns.items():
            base, plain = _kind(name)
            if base in VITALS:
                self._take_vital(name if plain else None, batch, column, few or grid)
            elif base == "skipped":
                self._counts.skipped += column.v.tolist().count(1.0)
        if batch.n and batch.writer.attempt_no >= self._counts.attempt:
            self._newest(batch, max(few) if few else int(batch.step.max()), now_ns)

    def note(self, event: RunEvent) -> None:
        """Count the records that a process reports as lost."""
        lost = event.data.get("records")
        if event.kind == DROPPED and type(lost) is int and 0 < lost <= MOST_STEP:
            self._counts.lost += lost

    def _take_vital(
        self, name: str | None, batch: RecordBatch, column: Column, steps: list[int] | Grid | None
    ) -> None:
        """Count the non-finite values of a vital sign and add it to the sparkline ``name``.

        ``steps`` is a list for short batches, where a plain loop is faster than NumPy.
        """
        spark = self._drawn(name) if name else None
        if not isinstance(steps, list):
            self._counts.nonfinite += column.v.size - int(np.count_nonzero(np.isfinite(column.v)))
            if spark and column.at is None:
                spark.take(batch.step, column.v, steps)
            elif spark:
                spark.take(batch.step[column.at], column.v)
            return
        values = column.v.tolist()
        self._counts.nonfinite += len(values) - sum(map(math.isfinite, values))
        if spark:
            chosen = steps if column.at is None else [steps[row] for row in column.at.tolist()]
            spark.take_few(chosen, values)

    def _drawn(self, name: str) -> Spark:
        found = self.sparks.get(name)
        if found is None:
            found = self.sparks[name] = Spark()
        return found

    def _newest(self, batch: RecordBatch, step: int, now_ns: int) -> None:
        counts = self._counts
        if batch.writer.attempt_no > counts.attempt:
            counts.attempt, counts.last_step = batch.writer.attempt_no, None
            self._progress.clear()
        for name in VITALS:
            column = batch.columns.get(name)
            if column is not None and column.v.size:
                counts.last[name] = float(column.v[-1])
        used = batch.columns.get(GPU)
        if used is not None and used.v.size:
            counts.gpu_util = float(used.v[-1])
        counts.last_step = step if counts.last_step is None else max(counts.last_step, step)
        self._progress.append((now_ns, counts.last_step))

    def shift(self, by_ns: int) -> None:
        """Shift all times by ``by_ns`` after a change of the server's clock."""
        self.metadata.last_seen_ns += by_ns
        self._progress = deque(
            ((at_ns + by_ns, step) for at_ns, step in self._progress), maxlen=_SPEED_POINTS
        )

    def alive(self, writer_no: int, message: Alive) -> None:
        """Store the status that a client process reported."""
        self._alive[writer_no] = message

    def gone(self, writer_no: int) -> None:
        """Forget the status of a process that disconnected."""
        self._alive.pop(writer_no, None)

    def show(self, opened: Iterable[Alert], ended: Iterable[Alert]) -> None:
        """Show these alerts: those that are open, and those that were firing when the run ended."""
        self.open_alerts, ended = tuple(opened), tuple(ended)
        self.left = _reason(ended)
        known = (*self.open_alerts, *ended)
        most = max((alert.severity.level for alert in known), default=0)
        severe = [alert.id for alert in known if alert.severity.level == most > Severity.INFO.level]
        self.ended_with = tuple(severe[:MOST_ENDED]) if self.metadata.state.ended else ()
        self.acked &= {alert.id for alert in known}

    @property
    def acknowledged(self) -> bool:
        """Whether one of the most severe alerts that the run ended with is acknowledged."""
        return not self.acked.isdisjoint(self.ended_with)

    @property
    def acknowledgeable(self) -> set[str]:
        """Return the ids of the alerts whose acknowledgement counts now, or once the run ends."""
        return {alert.id for alert in self.open_alerts}.union(self.ended_with)

    @property
    def outcome(self) -> dict[str, Any] | None:
        """Return how the run ended, or None while it trains.

        ``kind`` is finished, stopped (by a person or a scheduler), crashed or lost. ``severity`` is that of
        the most severe alert that was firing at the end, if it is at least a warning. ``text`` says both.
        Acknowledging one of the most severe alerts that the run ended with acknowledges its outcome.
        """
        state = self.metadata.state
        if not state.ended and state is not RunState.LOST:
            return None
        kind = self._ending_kind()
        left = self._unrecovered()
        text = kind
        if kind == "crashed" and self._error():
            text = f"crashed: {self._error()}"
        elif left is not None and left["rule"] != RUN_FAILED and state.ended:
            text = f"{kind} with problems: {left['summary']}"
        severity = left["severity"] if left is not None else None
        return {
            "kind": kind,
            "text": text,
            "severity": severity,
            "alert": left["alert"] if left is not None else None,
            "acknowledged": self.acknowledged,
        }

    def _ending_kind(self) -> str:
        state, kind = self.metadata.state, (self.metadata.error or {}).get("type")
        if state is RunState.FAILED:
            return "stopped" if kind in (BY_HAND, BY_SIGNAL) else "crashed"
        return state.value

    def _unrecovered(self) -> dict[str, Any] | None:
        """Return the reason in the row of a run that ended, if it is at least a warning."""
        reason = _reason(self.open_alerts) or self.left
        return reason if reason is not None and reason["severity"] != Severity.INFO.value else None

    def _error(self) -> str:
        error = self.metadata.error or {}
        message = ": ".join(str(error[name]) for name in ("type", "message") if error.get(name))
        return message[:_LONGEST_CAUSE]

    @property
    def ending(self) -> str:
        """Return how the run ended, as an entry of an alert's timeline."""
        cause = self._error()
        return f"Run ended: {self.metadata.state.value}" + (f", {cause}" if cause else "")

    @property
    def health(self) -> str:
        """Return "critical", "warning", "ok" or "ended".

        A run that ended with alerts keeps their highest severity until one of that severity is acknowledged.
        """
        if self.metadata.state.ended:
            left = None if self.acknowledged else self._unrecovered()
            return "ended" if left is None else str(left["severity"])
        most_severe = max((alert.severity.level for alert in self.open_alerts), default=0)
        if self.left is not None:  # another attempt has connected, and has sent nothing yet
            most_severe = max(most_severe, Severity(self.left["severity"]).level)
        if self.metadata.state in (RunState.STALLED, RunState.LOST):
            most_severe = max(most_severe, Severity.WARNING.level)
        return ("ok", "warning", "critical")[most_severe]

    @property
    def last_step(self) -> int | None:
        """Return the highest step of the newest attempt."""
        return self._counts.last_step

    def steps_per_s(self, now_ns: int) -> float | None:
        """Return the throughput over the last 30 s, or None if unknown."""
        while self._progress and now_ns - self._progress[0][0] > SPEED_WINDOW_NS:
            self._progress.popleft()
        if len(self._progress) < 2 or self.metadata.state.ended:
            return None
        (began_ns, first), (ended_ns, last) = self._progress[0], self._progress[-1]
        return (last - first) * 1e9 / (ended_ns - began_ns) if ended_ns > began_ns else None

    def row(self, now_ns: int, *, sparks: bool = True) -> dict[str, Any]:
        """Return a RunRow (docs/reference/http-api.md) with floats; serialize it with ``exact_json``."""
        row = (
            self._who() | self._seen() | self._numbers(now_ns) | self._trouble() | {"client": self._client()}
        )
        if sparks:
            row["sparks"] = {name: self._spark(name).row() for name in VITALS}
        return row

    def json(self, now_ns: int, *, sparks: bool = True) -> str:
        """Return :meth:`row` as JSON text; buckets that did not change come from a cache."""
        seldom = self._who() | self._trouble() | {"client": self._client()}
        if seldom != self._seldom:
            self._seldom, self._seldom_text = seldom, exact_json.dumps(seldom)
        often = exact_json.dumps_named(self._seen() | self._numbers(now_ns))
        text = f"{self._seldom_text[:-1]},{often[1:]}"
        if not sparks:
            return text
        drawn = ",".join(f'"{name}":{self._spark(name).json()}' for name in VITALS)
        return f'{text[:-1]},"sparks":{{{drawn}}}}}'

    def _spark(self, name: str) -> Spark:
        return self.sparks.get(name) or Spark()

    def _who(self) -> dict[str, Any]:
        metadata = self.metadata
        return {
            "id": metadata.id,
            "project": metadata.project,
            "name": metadata.name,
            "state": metadata.state.value,
            "health": self.health,
            "attempt": metadata.attempt,
            "attempts": metadata.attempts,
            "tags": list(metadata.tags),
            "host": metadata.host,
            "archived": metadata.archived,
            "edited_ms": max(metadata.edited.values(), default=None),
            "deletion_ms": None if metadata.deletion_ns is None else metadata.deletion_ns // _MS,
            "created_ms": metadata.created_ns // _MS,
            "ended_ms": None if metadata.ended_ns is None else metadata.ended_ns // _MS,
            "error": metadata.error,
        }

    def _seen(self) -> dict[str, Any]:
        return {"last_seen_ms": self.metadata.last_seen_ns // _MS}

    def _numbers(self, now_ns: int) -> dict[str, Any]:
        counts = self._counts
        return {
            "last_step": counts.last_step,
            "planned_steps": self.metadata.planned_steps,
            "steps_per_s": self.steps_per_s(now_ns),
            "last": {name: counts.last.get(name) for name in VITALS},
            "skipped": counts.skipped,
            "nonfinite": counts.nonfinite,
            "lost_records": counts.lost,
            "gpu_util": counts.gpu_util,
        }

    def _trouble(self) -> dict[str, Any]:
        incidents: dict[str, Severity] = {}
        for alert in self.open_alerts:
            one = alert.incident_id or alert.id
            incidents[one] = max(incidents.get(one, alert.severity), alert.severity, key=attrgetter("level"))
        found = {severity.value: 0 for severity in reversed(Severity)}
        for severity in incidents.values():
            found[severity.value] += 1
        reason = _reason(self.open_alerts) or self.left
        return {
            "alerts": len(self.open_alerts),
            "severities": found,
            "reason": reason,
            "outcome": self.outcome,
        }

    def _client(self) -> dict[str, Any]:
        reported = self._alive.values()
        return {
            "queued": sum(message.queued for message in reported),
            "dropped": sum(message.dropped for message in reported),
            "spooled_bytes": sum(message.spooled_bytes for message in reported),
            "phase": next((message.phase for message in reported if message.phase), ""),
        }

    def saved(self) -> dict[str, Any]:
        """Return the state derived from records as plain data for :meth:`restore`."""
        counts = self._counts
        return {
            "sparks": {name: spark.saved() for name, spark in self.sparks.items()},
            "skipped": counts.skipped,
            "nonfinite": counts.nonfinite,
            "attempt": counts.attempt,
            "last_step": counts.last_step,
            "last": dict(counts.last),
            "gpu_util": counts.gpu_util,
            "lost": counts.lost,
            "left": self.left,
            "ended_with": list(self.ended_with),
        }

    @classmethod
    def restore(cls, metadata: RunMetadata, saved: Mapping[str, Any] | None) -> RunSummary:
        """Return the summary that was saved, or an empty one if there is none."""
        summary = cls(metadata)
        if saved:
            summary.sparks = {name: Spark.restore(body) for name, body in saved["sparks"].items()}
            summary.left = saved.get("left")
            summary.ended_with = tuple(saved.get("ended_with") or ())
            last = {name: exact_json.parse_number(value) for name, value in saved["last"].items()}
            gpu = saved.get("gpu_util")
            summary._counts = _Counts(
                int(saved["skipped"]),
                int(saved["nonfinite"]),
                int(saved["attempt"]),
                None if saved["last_step"] is None else int(saved["last_step"]),
                last,
                None if gpu is None else exact_json.parse_number(gpu),
                int(saved.get("lost") or 0),
            )
        return summary


@lru_cache(maxsize=4096)
def _kind(name: str) -> tuple[str, bool]:
    """Return a series name without its suffix (``grad_norm/D``), and whether it has none."""
    base, _, suffix = name.partition("/")
    return base, not suffix


def _reason(alerts: Iterable[Alert]) -> dict[str, Any] | None:
    """Return the most severe open alert as the reason in a row; of equals, the one nearest the cause."""
    most_severe = next(iter(by_cause(alerts)), None)
    if most_severe is None:
        return None
    return {
        "rule": most_severe.rule,
        "severity": most_severe.severity.value,
        "summary": most_severe.summary,
        "onset_step": most_severe.onset_step,
        "alert": most_severe.id,
    }


def alert_json(alert: Alert, *, run_name: str, project: str) -> dict[str, Any]:
    """Return an Alert (docs/reference/http-api.md) with floats; serialize it with ``exact_json``."""

    def ms(time_ns: int | None) -> int | None:
        return None if time_ns is None else time_ns // _MS

    return {
        "id": alert.id,
        "incident": alert.incident_id,
        "run_id": alert.run_id,
        "run_name": run_name,
        "project": project,
        "rule": alert.rule,
        "subject": alert.subject,
        "severity": alert.severity.value,
        "state": alert.state.value,
        "onset_step": alert.onset_step,
        "onset_ms": ms(alert.onset_ns),
        "fired_step": alert.fired_step,
        "fired_ms": ms(alert.fired_ns),
        "resolved_step": None if alert.is_open else alert.resolved_step,
        "resolved_ms": None if alert.is_open else ms(alert.resolved_ns),
        "late": alert.late,
        "causal_order": place(alert.rule),
        "summary": alert.summary,
        "labels": dict(alert.labels),
        "diagnosis": alert.diagnosis,
    }
