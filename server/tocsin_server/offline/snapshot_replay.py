"""A flight record diagnosed again: its alerts as they were told, and what its records say by themselves.

The records are a cut of a run: rules that compare with a longer past cannot say again what they
said, and some would say what they did not. So the alerts are those of the record, and a remark says
which of them these records alone lead to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tocsin_server.detect.interface.context import RunContext
from tocsin_server.offline.replay import Judge, Judged, listen
from tocsin_server.offline.snapshot import Flight

FORMAT = "tocsin flight record"


def context_in(run: Mapping[str, Any]) -> RunContext:
    """What the rules may know of the run of a flight record."""
    world_size, planned_steps = int(run.get("world_size") or 1), run.get("planned_steps")
    project, facts = str(run.get("project", "")), run.get("facts") or {}
    return RunContext.from_facts(str(run["id"]), project, world_size, planned_steps, facts)


def judge_flight(flight: Flight, path: str) -> Judged:
    """The alerts of a flight record, and remarks on what its records say alone."""
    judged, judge = Judged(path, FORMAT), Judge(context_in(flight.run))
    listen(judged, judge, flight.heard)
    judged.records = sum(getattr(item, "n", 0) for item in flight.heard)
    judged.alerts = flight.alerts
    judged.remarks = [_about(flight), *_agreement(flight, judge)]
    return judged


def _about(flight: Flight) -> str:
    window, run = flight.window, flight.run
    more = "" if flight.whole else " The run had not passed the window yet: there may be more by now."
    return (
        f"Run {run.get('name') or run['id']} of project {run.get('project', '')}, recorded from step "
        f"{window.first_step} to {window.last_step} around {window.onset_step}; alerts as the server told "
        f"them.{more}"
    )


def _agreement(flight: Flight, judge: Judge) -> list[str]:
    """Which alerts the records of the window lead to by themselves."""
    again = {(alert.rule, alert.subject) for alert in judge.alerts}
    told = list(dict.fromkeys((alert.rule, alert.subject) for alert in flight.alerts))
    found = [rule for rule, subject in told if (rule, subject) in again]
    missed = [rule for rule, subject in told if (rule, subject) not in again]
    said = [f"Judged again from these records alone: {', '.join(found)}."] if found else []
    if missed:
        said.append(f"These records alone are too few to say again: {', '.join(missed)}.")
    return said
