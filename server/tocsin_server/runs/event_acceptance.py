"""Accept the events of writers, within their rate limit, and the finish of a writer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tocsin.protocol import Event, Finish, Refused
from tocsin_server.core.memory_size import size_of
from tocsin_server.core.models import SCRIPT_ALERT, Finding, RunEvent, RunState
from tocsin_server.core.settings import Settings
from tocsin_server.core.stats import IngestCounts
from tocsin_server.runs import script_alert
from tocsin_server.runs.active_run import ActiveRun, Done, WriterState
from tocsin_server.runs.evaluation import Evaluation, Prepared
from tocsin_server.runs.rate_limit import EVENT_BURST_S, Allowance
from tocsin_server.runs.run_failure import failure_finding
from tocsin_server.runs.validation.events import error_of
from tocsin_server.runs.validation.limits import HIGHEST, Limits

REFUSED_EVERY_NS = 1_000_000_000
"""Interval at which events above the rate limit are reported and stored as one event."""


class EventAcceptor:
    """Accepts each event of a writer once, in the order of their numbers."""

    def __init__(
        self,
        settings: Settings,
        limits: Limits,
        evaluation: Evaluation,
        counts: IngestCounts,
        clock: Callable[[], int],
    ) -> None:
        self._settings = settings
        self._limits = limits
        self._evaluation = evaluation
        self._counts = counts
        self._clock = clock

    def accept(
        self, run: ActiveRun, state: WriterState, message: Event, rejection: Refused | None, size: int
    ) -> list[Refused]:
        """Accept an event. A rejected one is stored as ``refused`` so that the sequence stays contiguous.

        Args:
            run: The run of the event.
            state: The writer that sent it.
            message: The event.
            rejection: Why it cannot be stored, or None.
            size: Bytes of memory that its data take.
        """
        if message.no <= state.event:
            return []
        state.allowance = state.allowance or Allowance(self._limits.events_per_s)
        if rejection is not None:
            self.reject(run, state, message.no, rejection)
        elif not state.allowance.take(message.t, time.monotonic()):
            rejection = self._over_rate(run, state, message.no)
        else:
            self._report_rate(run, state)
            time_ns = message.t + state.offset_ns
            planned = message.data.get("planned_steps")
            if (
                message.kind == "environment"
                and type(planned) is int
                and planned > 0
                and not state.writer.rank
            ):
                run.summary.metadata.planned_steps = planned
            self._put(
                run,
                state,
                message.no,
                message.kind,
                time_ns,
                message.step,
                message.data,
                findings=lambda: _findings(run, message, time_ns),
                size=size,
            )
        return [rejection] if rejection else []

    def reject(self, run: ActiveRun, state: WriterState, no: int, rejection: Refused) -> None:
        """Store a rejected event under its number."""
        if not state.event < no < HIGHEST:
            return
        self._counts.refused += 1
        self._report_rate(run, state)
        self._put(run, state, no, "refused", self._clock(), None, _refusal(rejection))

    def accept_finish(
        self, run: ActiveRun, state: WriterState, message: Finish, rejection: Refused | None, done: Done
    ) -> list[Refused]:
        """Accept the finish of a writer. It takes effect once all records that it refers to have arrived."""
        if message.no <= state.event:
            return []
        if rejection is not None:
            self.reject(run, state, message.no, rejection)
            return [rejection]
        state.held = message
        state.waiting.add(done)
        self.try_end(run, state)
        return []

    def try_end(self, run: ActiveRun, state: WriterState) -> None:
        """End the writer if it sent a finish and all records that it refers to have arrived."""
        held = state.held
        if held is None or held.records > state.seq + 1:
            return
        self._report_rate(run, state)
        state.held, state.event = None, held.no
        now_ns, arrival = self._clock(), run.next_arrival()
        run.touch(now_ns)
        self._counts.events += 1
        self._evaluation.event(run, state, lambda: self._ended(run, state, held, arrival, now_ns), now_ns)

    def _ended(self, run: ActiveRun, state: WriterState, held: Finish, arrival: int, now_ns: int) -> Prepared:
        """Return the event of a finish whose turn it is; it ends the run if no other process continues."""
        state.finished = True
        error = error_of(held, self._limits)
        data = {"state": held.state, "records": held.records, "error": error}
        changes = self._ending(run, state, held.state, error)
        time_ns, step = held.t + state.offset_ns, run.summary.last_step
        findings: list[Finding] = []
        if changes:
            run.rests_until_ns = 0
        if changes and changes["state"] is RunState.FAILED:
            firing, checkpoint = run.tracker.open(), run.checkpoint_before(step)
            findings = [
                failure_finding(error, step=step, time_ns=time_ns, firing=firing, checkpoint=checkpoint)
            ]
            run.rests_until_ns = min(time_ns, now_ns) + int(self._settings.restart_grace_s * 1e9)
        if changes and not run.rests(now_ns):
            data["run_ended"] = True
        event = RunEvent(state.writer, arrival, held.no, "finish", time_ns, step, data, size_of(data))
        return Prepared(event, findings, changes)

    def _ending(
        self, run: ActiveRun, state: WriterState, word: str, error: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the changes to the run when a writer ends; none while other ranks or attempts continue."""
        failed = word == RunState.FAILED
        superseded = state.writer.attempt_no < run.summary.metadata.attempt
        # Another rank may have finished while this one was disconnected, so its failure still counts.
        over = run.state is RunState.FAILED or (run.state.ended and not failed)
        if over or superseded or (not failed and run.others_continue(state)):
            return {}
        now_ns = self._clock()
        metadata = run.summary.metadata
        metadata.state, metadata.ended_ns = RunState(word), now_ns
        metadata.error = dict(error) if failed else None
        return {"state": metadata.state, "ended_ns": now_ns, "error": metadata.error}

    def report_rejected(self, run: ActiveRun, now_ns: int) -> None:
        """Store how many events of writers were above the rate limit, if the last report is old enough."""
        for state in run.writers.values():
            if now_ns - state.over_rate_ns >= REFUSED_EVERY_NS:
                self._report_rate(run, state)

    def _over_rate(self, run: ActiveRun, state: WriterState, no: int) -> Refused | None:
        """Reject an event above the rate limit. At most one row per second counts them, to keep the table
        small.
        """
        self._counts.refused += 1
        state.event = no
        state.over_rate += 1
        if self._clock() - state.over_rate_ns < REFUSED_EVERY_NS:
            return None
        return self._report_rate(run, state)

    def _report_rate(self, run: ActiveRun, state: WriterState) -> Refused | None:
        """Store the number of events rejected by the rate limit, under the number of the last one."""
        if state.over_rate == state.over_rate_stored:
            return None
        limit = self._limits.events_per_s
        expected = f"at most {limit} events per second, in bursts of up to {round(limit * EVENT_BURST_S):,}"
        got = f"{state.over_rate:,} events above the limit so far, which were rejected"
        rejection = Refused("event", "event-rate", expected, got, seq=state.event)
        state.over_rate_stored, state.over_rate_ns = state.over_rate, self._clock()
        self._put(run, state, state.event, "refused", self._clock(), None, _refusal(rejection))
        return rejection

    def _put(
        self,
        run: ActiveRun,
        state: WriterState,
        no: int,
        kind: str,
        time_ns: int,
        step: int | None,
        data: Mapping[str, Any],
        findings: Callable[[], Iterable[Finding]] = tuple,
        size: int = 0,
    ) -> None:
        state.event = no
        now_ns = self._clock()
        run.touch(now_ns)
        size = size or size_of(data)
        event = RunEvent(state.writer, run.next_arrival(), no, kind, time_ns, step, data, size)
        run.accept_event(event, now_ns)
        self._counts.events += 1
        self._evaluation.event(run, state, lambda: Prepared(event, findings()), now_ns, size)


def _findings(run: ActiveRun, message: Event, time_ns: int) -> list[Finding]:
    """Return the finding of an alert that the script raised."""
    if message.kind != script_alert.KIND:
        return []
    step = run.summary.last_step if message.step is None else message.step
    known = run.tracker.labels(SCRIPT_ALERT, script_alert.TITLE)
    finding = script_alert.script_finding(message.data, step=step, time_ns=time_ns, known=known)
    return [finding] if finding else []


def _refusal(rejection: Refused) -> dict[str, Any]:
    return {
        "scope": rejection.scope,
        "code": rejection.code,
        "expected": rejection.expected,
        "got": rejection.got,
    }
