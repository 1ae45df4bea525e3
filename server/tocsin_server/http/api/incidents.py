"""``/incidents``: list, read and acknowledge incidents, which are alerts that belong together."""

from __future__ import annotations

import time
from functools import partial
from typing import Annotated, Any

from fastapi import Query
from starlette.requests import Request
from typing_extensions import TypedDict

from tocsin_server.core.incidents import IncidentState
from tocsin_server.core.models import Severity
from tocsin_server.core.responses import ExactJSON, Problem
from tocsin_server.http.api.acks import (
    AcknowledgedAlertRow,
    AckRow,
    LifeLine,
    NewAck,
    ack_row,
    alert_row,
    stored_acks,
)
from tocsin_server.http.api.deletion import actor_of
from tocsin_server.http.api.permission import Editor, Reader
from tocsin_server.http.api.query import AFTER, WHOLE, chosen, cursor, page_of, some_of
from tocsin_server.http.api.resource import resource
from tocsin_server.http.api.shapes import row_of
from tocsin_server.http.services import Services, services_of
from tocsin_server.store import audit
from tocsin_server.store.acks import Ack, Key, acks_in_force, add_acks
from tocsin_server.store.alert_timeline import incident_timeline
from tocsin_server.store.change_cursor import PATTERN
from tocsin_server.store.checkpoints import resume_from
from tocsin_server.store.connection import Connection
from tocsin_server.store.incident_rows import alert_keys
from tocsin_server.store.results import StoredIncident

router = resource("incidents")


class RunName(TypedDict):
    """A run."""

    id: str
    name: str


class IncidentRow(TypedDict):
    """An incident. ``alerts``: up to 50 of its ``count`` alerts, the most severe first.

    ``runs``: its runs, that of the most severe alert first; ``run_id``, ``run_name`` and ``project`` are of
    that one. ``root``: id of the alert nearest to the cause. ``ack``: the newest acknowledgement of an alert
    of the incident's severity.
    """

    id: str
    run_id: str
    run_name: str
    project: str
    runs: list[RunName]
    state: IncidentState
    severity: Severity
    onset_step: int | None
    onset_ms: float
    updated_ms: float
    summary: str
    root: str
    count: int
    ack: AckRow | None
    alerts: list[AcknowledgedAlertRow]


class ResumeRow(TypedDict):
    """Where to resume: the last good checkpoint before the incident, if one is known, and a sentence."""

    path: str | None
    step: int | None
    text: str


class IncidentDetail(IncidentRow):
    """An incident with the checkpoint to resume from."""

    resume: ResumeRow


class IncidentList(TypedDict):
    """Incidents, newest change first. ``next`` is the cursor of the next page; null at the end and without
    ``after``.
    """

    items: list[IncidentRow]
    next: str | None


class IncidentLine(LifeLine):
    """One entry in an incident's timeline. ``alert`` and ``rule`` are those of a transition, else ""."""

    alert: str
    rule: str


class IncidentLife(TypedDict):
    """An incident's timeline, oldest entry first."""

    items: list[IncidentLine]


@router.get("/incidents", response_model=IncidentList)
def list_incidents(
    request: Request,
    _identity: Reader,
    run: str | None = None,
    state: Annotated[str | None, some_of(IncidentState)] = None,
    limit: Annotated[int, Query(ge=1, le=1000), WHOLE] = 100,
    after: Annotated[str | None, cursor(PATTERN, AFTER)] = None,
) -> ExactJSON:
    """List incidents of all runs or of one.

    Without ``after``: at most ``limit`` of each state. With ``after``: pages of ``limit`` incidents, fewer
    with ``state``. An incident that changes between two pages moves to the first one.
    """
    services, states = services_of(request), chosen("state", state, IncidentState)
    reader = services.reader
    if after is None:
        found, following = reader.incidents(run, states, limit), None
    else:
        page = page_of(lambda: reader.incident_page(run, states, after=after, limit=limit), after)
        found, following = page.items, page.next
    return ExactJSON({"items": _rows(services, found), "next": following})


@router.post("/incidents/{incident_id:path}/ack", response_model=IncidentRow)
async def acknowledge(request: Request, incident_id: str, wanted: NewAck, identity: Editor) -> ExactJSON:
    """Acknowledge all alerts of an incident; reminders stop until a more severe alert joins it."""
    return await _act(request, incident_id, Ack(time.time_ns(), actor_of(identity), wanted.note))


@router.delete("/incidents/{incident_id:path}/ack", response_model=IncidentRow)
async def give_back(request: Request, incident_id: str, identity: Editor) -> ExactJSON:
    """Withdraw the acknowledgement of all alerts of an incident."""
    return await _act(request, incident_id, Ack(time.time_ns(), actor_of(identity), "", undone=True))


@router.get("/incidents/{incident_id:path}/history", response_model=IncidentLife)
def history(request: Request, incident_id: str, _identity: Reader) -> ExactJSON:
    """Return the timeline of an incident: transitions of its alerts, acknowledgements, notifications."""
    services = services_of(request)
    found = known_incident(services, incident_id)
    with services.database.reader.connect() as connection:
        return ExactJSON({"items": incident_timeline(connection, found.incident)})


@router.get("/incidents/{incident_id:path}", response_model=IncidentDetail)
def one_incident(request: Request, incident_id: str, _identity: Reader) -> ExactJSON:
    """Return one incident with its alerts and the last good checkpoint before it."""
    services = services_of(request)
    found = known_incident(services, incident_id)
    resume = resume_from(services.reader, found.incident).resume()
    return ExactJSON(_rows(services, [found])[0] | {"resume": resume})


async def _act(request: Request, incident_id: str, ack: Ack) -> ExactJSON:
    services = services_of(request)
    if not await acknowledge_incident(services, incident_id, ack):
        raise _unknown(incident_id)
    return ExactJSON(_rows(services, [known_incident(services, incident_id)])[0])


async def acknowledge_incident(services: Services, incident_id: str, ack: Ack) -> list[Key]:
    """Store an acknowledgement or its withdrawal for all alerts of an incident; return their keys."""
    write = partial(_write, incident_id=incident_id, ack=ack)
    return await stored_acks(services, write, undone=ack.undone)


def _write(connection: Connection, incident_id: str, ack: Ack) -> list[Key]:
    keys = add_acks(connection, alert_keys(connection, incident_id), ack)
    if keys:
        action = "incident.unack" if ack.undone else "incident.ack"
        audit.note(connection, ack.at_ns, ack.actor, action, incident_id, {"note": ack.note})
    return keys


def known_incident(services: Services, incident_id: str) -> StoredIncident:
    """Return the incident of an id. Raises a 404 Problem if there is none."""
    found = services.reader.incident(incident_id)
    if found is None:
        raise _unknown(incident_id)
    return found


def _rows(services: Services, found: list[StoredIncident]) -> list[dict[str, Any]]:
    with services.database.reader.connect() as connection:
        acks = acks_in_force(connection, {run_id for each in found for run_id in each.runs})
    return [incident_row(each, acks) for each in found]


def incident_row(stored: StoredIncident, acks: dict[Key, Ack]) -> dict[str, Any]:
    """Return an incident as the API shows it, given the acknowledgements in force."""
    incident = stored.incident
    return row_of(
        IncidentRow,
        incident,
        run_id=incident.lead.run_id,
        run_name=stored.run_name,
        project=stored.project,
        runs=[{"id": run_id, "name": name} for run_id, name in stored.runs.items()],
        state=stored.state.value,
        onset_ms=incident.onset_ns // 1_000_000,
        updated_ms=incident.updated_ns // 1_000_000,
        summary=incident.lead.summary,
        root=incident.root.id,
        count=stored.count,
        ack=ack_row(_covering(stored, acks)),
        alerts=[
            alert_row(alert, stored.runs[alert.run_id], stored.project, acks) for alert in incident.alerts
        ],
    )


def _covering(stored: StoredIncident, acks: dict[Key, Ack]) -> Ack | None:
    """Return the newest acknowledgement of an alert of the incident's severity."""
    severity = stored.incident.severity
    found = [
        acks[key]
        for alert in stored.incident.alerts
        if alert.severity is severity and (key := (alert.run_id, alert.fingerprint, alert.episode)) in acks
    ]
    return max(found, key=lambda ack: ack.at_ns, default=None)


def _unknown(incident_id: str) -> Problem:
    return Problem(404, subject="incident", expected="the id of an incident", got=incident_id)
