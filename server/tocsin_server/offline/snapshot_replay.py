"""Diagnose an incident snapshot: its stored alerts, and which of them its records reproduce.

The records are an excerpt of a run: rules that compare with earlier records cannot reproduce their
alerts, and some would fire wrongly. The result therefore contains the stored alerts, and a remark lists
those that the records alone reproduce.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tocsin_server.detect.interface.context import RunContext
from tocsin_server.offline.replay import Evaluator, LogResult, listen
from tocsin_server.offline.snapshot import IncidentSnapshot

FORMAT = "tocsin incident snapshot"


def context_in(run: Mapping[str, Any]) -> RunContext:
    """Return the context for the rules from the run of an incident snapshot."""
    world_size, planned_steps = int(run.get("world_size") or 1), run.get("planned_steps")
    project, environment = str(run.get("project", "")), run.get("environment") or {}
    return RunContext.from_environment(str(run["id"]), project, world_size, planned_steps, environment)


def evaluate_incident_snapshot(snapshot: IncidentSnapshot, path: str) -> LogResult:
    """Return the alerts of an incident snapshot, with remarks on which ones its records reproduce."""
    result, evaluator = LogResult(path, FORMAT), Evaluator(context_in(snapshot.run))
    listen(result, evaluator, snapshot.items)
    result.records = sum(getattr(item, "n", 0) for item in snapshot.items)
    result.alerts = snapshot.alerts
    result.remarks = [_about(snapshot), *_agreement(snapshot, evaluator)]
    return result


def _about(snapshot: IncidentSnapshot) -> str:
    window, run = snapshot.window, snapshot.run
    more = "" if snapshot.whole else " The window was not complete yet, so there may be more now."
    return (
        f"Run {run.get('name') or run['id']} of project {run.get('project', '')}, recorded from step "
        f"{window.first_step} to {window.last_step} around {window.onset_step}; alerts as the "
        f"server reported them.{more}"
    )


def _agreement(snapshot: IncidentSnapshot, evaluator: Evaluator) -> list[str]:
    """Return sentences on which alerts the records of the window reproduce."""
    again = {(alert.rule, alert.subject) for alert in evaluator.alerts}
    reported = list(dict.fromkeys((alert.rule, alert.subject) for alert in snapshot.alerts))
    found = [rule for rule, subject in reported if (rule, subject) in again]
    missed = [rule for rule, subject in reported if (rule, subject) not in again]
    texts = [f"From these records alone, these rules fire again: {', '.join(found)}."] if found else []
    if missed:
        texts.append(f"These records are too few to reproduce: {', '.join(missed)}.")
    return texts
