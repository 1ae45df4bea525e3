"""Check every second which runs have stalled and which have lost their client.

The rules themselves are pure (``detect/rules/system/stalled.py`` and ``trainer_lost.py``). Times are arrival
times by the server's clock, counted from the server's start, so that a restart causes no alert storm. Ended
and imported runs never get such alerts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from tocsin_server.core.models import RULE_CHANGED, Alert, AlertState, Finding, RunState
from tocsin_server.detect.engine.plan import Plan
from tocsin_server.detect.interface.liveness import Liveness, over
from tocsin_server.detect.rules.system import stalled, trainer_lost
from tocsin_server.runs.active_run import ActiveRun
from tocsin_server.runs.pipeline import Pipeline
from tocsin_server.store.periodic_jobs import PeriodicJob

NAME = "watchdog"
STATES = {trainer_lost.INFO.id: RunState.LOST, stalled.INFO.id: RunState.STALLED}
"""Time-based rules, most severe first, and the run state that each implies."""


AT_ONCE = 50
"""Runs that are checked before other work of the event loop gets its turn."""
GRACE_NS = 30_000_000_000
"""After a restart, a stall stays open at least this long, so that its client can reconnect."""


def liveness(run: ActiveRun, started_ns: int) -> Liveness:
    """Return the times and connection state of ``run``, as the rules need them."""
    phase, since_ns = run.heartbeat.phase
    return Liveness(
        opened_ns=run.heartbeat.opened_ns,
        last_record_ns=run.heartbeat.last_record_ns,
        last_step=run.summary.last_step,
        intervals_s=tuple(run.heartbeat.intervals_s),
        longest_pause_s=run.heartbeat.longest_pause_s,
        phase=phase,
        phase_since_ns=since_ns,
        connected=run.connected,
        silent_since_ns=run.heartbeat.silent_since_ns,
        server_started_ns=started_ns,
        ended=run.state.ended,
        open=open_rules(run),
    )


def open_rules(run: ActiveRun) -> frozenset[str]:
    """Return which of these rules have an open alert."""
    return frozenset(alert.rule for alert in run.summary.open_alerts if alert.rule in STATES)


def evaluate(run: ActiveRun, started_ns: int, now_ns: int) -> list[Finding]:
    """Return the new findings of ``run``; findings that only repeat an open alert are left out."""
    known = liveness(run, started_ns)
    findings = [finding for rule in STATES for finding in _findings(rule, known, now_ns, run.plan)]
    return [finding for finding in findings if _is_new(run, finding, started_ns, now_ns)]


def _findings(rule: str, known: Liveness, now_ns: int, plan: Plan) -> list[Finding]:
    """Return the findings of one rule with its current tuning."""
    if rule in plan.off:
        return over(rule, known, now_ns, f"{RULE_CHANGED}the rule {rule} was switched off")
    given = plan.settings.get(rule)
    if rule == stalled.INFO.id:
        pace = given if isinstance(given, stalled.Settings) else stalled.Settings()
        findings = stalled.check(known, now_ns, pace)
    else:
        silence = given if isinstance(given, trainer_lost.Settings) else trainer_lost.Settings()
        findings = trainer_lost.check(known, now_ns, silence)
    severity = plan.severity(rule)
    return findings if severity is None else [replace(finding, severity=severity) for finding in findings]


def _is_new(run: ActiveRun, finding: Finding, started_ns: int, now_ns: int) -> bool:
    repeated = any(_repeats(finding, alert) for alert in run.summary.open_alerts)
    return not repeated and not _too_soon(run, finding, started_ns, now_ns)


def _too_soon(run: ActiveRun, finding: Finding, started_ns: int, now_ns: int) -> bool:
    """Return whether a stall only seems over because the server restarted: no record has arrived since."""
    over = finding.rule == stalled.INFO.id and finding.state is AlertState.RESOLVED
    quiet = (run.heartbeat.last_record_ns or 0) <= started_ns and not run.state.ended
    return over and quiet and (run.connected or now_ns - started_ns < GRACE_NS)


def _repeats(finding: Finding, alert: Alert) -> bool:
    """Return whether an open alert already reports this; only the elapsed seconds in its text differ."""
    same = finding.rule == alert.rule and finding.state is alert.state
    return same and finding.severity.level <= alert.severity.level


def state_of(run: ActiveRun, findings: list[Finding]) -> RunState:
    """Return the state of a run that has not ended: running, stalled or lost."""
    opened = set(open_rules(run))
    for finding in findings:
        if finding.state is AlertState.RESOLVED:
            opened.discard(finding.rule)
        else:
            opened.add(finding.rule)
    return next((state for rule, state in STATES.items() if rule in opened), RunState.RUNNING)


def look(
    pipeline: Pipeline, now_ns: int, work: PeriodicJob | None = None, runs: Iterable[ActiveRun] | None = None
) -> None:
    """Check runs once, by default all in memory, and remove those that have ended."""
    work = work or PeriodicJob(NAME)
    for run in list(pipeline.registry.active.values()) if runs is None else runs:
        subject = f"run {run.id}"
        if not run.dropped and not work.rests(subject):
            with work.isolated(subject):
                pipeline.changes.check(run, partial(_look_at, pipeline, run, now_ns))
                pipeline.changes.tidy(run, now_ns)


def _look_at(pipeline: Pipeline, run: ActiveRun, now_ns: int) -> None:
    findings = evaluate(run, pipeline.started_ns, now_ns)
    changes = {}
    if not run.state.ended:
        state = state_of(run, findings)
        changes = {"state": state} if state is not run.state else {}
    if run.heartbeat.is_imported:  # an importer that was interrupted is no problem of the training
        findings = [finding for finding in findings if finding.state is AlertState.RESOLVED]
    if findings or changes:
        pipeline.changes.apply(run.id, findings, changes)
    elif run.state.ended and run.rests_until_ns and not run.rests(now_ns):
        pipeline.changes.close(run.id)


async def run_watchdog(
    pipeline: Pipeline,
    work: PeriodicJob | None = None,
    *,
    interval_s: float = 1.0,
    clock: Callable[[], int] | None = None,
) -> None:
    """Check all runs every ``interval_s`` until cancelled."""
    work = work or PeriodicJob(NAME)

    async def once() -> None:
        runs = list(pipeline.registry.active.values())
        for begin in range(0, len(runs), AT_ONCE):
            look(pipeline, (clock or pipeline.clock)(), work, runs[begin : begin + AT_ONCE])
            await asyncio.sleep(0)

    await work.keep(once, interval_s)
