"""Change runs on the server's own initiative: findings and events that no record caused, and tidying up."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from tocsin_server.core.models import Finding, RunEvent, RunState, Writer
from tocsin_server.detect.engine import plan as plans
from tocsin_server.detect.interface.similar_runs import CLOSED, SERVER
from tocsin_server.runs.active_run import ActiveRun
from tocsin_server.runs.durability import Durability
from tocsin_server.runs.evaluation import Evaluation, Prepared
from tocsin_server.runs.event_acceptance import EventAcceptor
from tocsin_server.runs.pubsub import Hub
from tocsin_server.runs.registry import RunRegistry
from tocsin_server.runs.restoring import Restorer

KEPT_AFTER_END_NS = 60_000_000_000
"""How long an ended run stays in memory after its last message."""


class ServerChanges:
    """Changes of runs in memory by the watchdog, by periodic jobs and by the API."""

    def __init__(
        self,
        registry: RunRegistry,
        restorer: Restorer,
        events: EventAcceptor,
        evaluation: Evaluation,
        durability: Durability,
        hub: Hub,
        clock: Callable[[], int],
    ) -> None:
        self.registry = registry
        self._restorer = restorer
        self._events = events
        self._evaluation = evaluation
        self._durability = durability
        self._hub = hub
        self._clock = clock

    def check(self, run: ActiveRun, check: Callable[[], None]) -> None:
        """Check a run once everything accepted for it is evaluated; at most one check waits for that."""

        def begin() -> None:
            run.check_waits = False
            check()

        if not run.check_waits:
            run.check_waits = True
            self._evaluation.beside(run, begin)

    def apply(
        self, run_id: str, findings: Iterable[Finding], changes: Mapping[str, Any] | None = None
    ) -> None:
        """Apply findings and changes of a run that do not result from a record, within :meth:`check`."""
        run = self.registry.active.get(run_id)
        if run is None:
            return
        transitions = run.note(findings, self._clock())
        if changes and "state" in changes:
            run.summary.metadata.state = RunState(changes["state"])
        if transitions or changes:
            self._durability.submit(run, None, transitions=transitions, changes=changes)

    def close(self, run_id: str) -> None:
        """Close the alerts of a failed run after its grace period ended without another attempt."""
        run = self.registry.active.get(run_id)
        if run is None:
            return
        run.rests_until_ns = 0
        if run.tracker.unsettled:
            self._add_event(run, CLOSED, {"state": run.state}, {"state": run.state})

    def acknowledge(self, alert_id: str, *, undone: bool) -> None:
        """Show an acknowledgement, or its withdrawal, in the row of the run that ended with this alert."""
        summary = self.registry.acknowledge(alert_id, undone=undone)
        if summary is not None:
            self._hub.changed(summary.metadata.id)

    def add_event(self, run_id: str, kind: str, data: Mapping[str, Any]) -> None:
        """Add a server event to a run, for its rules. It is stored and replayed like any other event."""
        run = self.registry.active.get(run_id)
        if run is not None:
            self._add_event(run, kind, data)

    def _add_event(
        self, run: ActiveRun, kind: str, data: Mapping[str, Any], changes: Mapping[str, Any] | None = None
    ) -> None:
        arrival, now_ns = run.next_arrival(), self._clock()
        event = RunEvent(Writer(run.id, SERVER, 0, 0), arrival, arrival, kind, now_ns, None, data)
        if kind == plans.KIND:
            run.plan = plans.Plan.from_plain(data)
        run.accept_event(event, now_ns)
        self._evaluation.event(run, None, lambda: Prepared(event, changes=changes or {}), now_ns)

    def resolve(self, run: ActiveRun, rules: Collection[str], reason: str) -> None:
        """Resolve the alerts of rules that are disabled and whose state is lost."""

        def begin() -> None:
            transitions = run.resolved(rules, reason, self._clock())
            if transitions:
                self._durability.submit(run, None, transitions=transitions)

        self._evaluation.beside(run, begin)

    def steps_per_s(self, run_id: str) -> float | None:
        """Return the throughput of a run in memory, or None if unknown."""
        run = self.registry.active.get(run_id)
        return None if run is None else run.summary.steps_per_s(self._clock())

    def tidy(self, run: ActiveRun, now_ns: int) -> None:
        """Remove an ended run and disconnected writers from memory; the run's row stays in the fleet."""
        self._events.report_rejected(run, now_ns)
        run.prune()
        quiet = now_ns - run.summary.metadata.last_seen_ns > KEPT_AFTER_END_NS and not run.rests(now_ns)
        idle = run.turns.idle and not run.pending and not run.connected
        if run.state.ended and quiet and idle:
            self.registry.retire(run.id)

    def forget(self, run_id: str) -> None:
        """Drop a deleted run from memory; its clients must repeat their handshakes."""
        self._restorer.skip(run_id)
        self.registry.drop(run_id)
        self._hub.changed(run_id)
