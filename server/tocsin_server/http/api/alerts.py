"""``GET /alerts`` and ``GET /alerts/{id}``: alerts of all runs or of one, and incident snapshots."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from tocsin_server.core.models import AlertState, Severity
from tocsin_server.core.responses import ExactJSON, Problem
from tocsin_server.http.api.acks import AcknowledgedAlertRow, alert_row
from tocsin_server.http.api.permission import Reader
from tocsin_server.http.api.query import AFTER, WHOLE, chosen, cursor, page_of, some_of
from tocsin_server.http.api.resource import resource
from tocsin_server.http.api.shapes import row_of
from tocsin_server.http.services import Services, services_of
from tocsin_server.offline.snapshot_gather import download
from tocsin_server.store.acks import acks_in_force
from tocsin_server.store.change_cursor import PATTERN
from tocsin_server.store.results import StoredAlert
from tocsin_server.transfer.record_export import file_name

router = resource("alerts")


class AlertList(TypedDict):
    """Alerts, newest change first. ``next`` is the cursor of the next page; null at the end and without
    ``after``.
    """

    items: list[AcknowledgedAlertRow]
    next: str | None


class HistoryRow(TypedDict):
    """One transition of an alert."""

    state: AlertState
    severity: Severity
    previous: AlertState | None
    at_ms: float
    step: int | None
    summary: str


class AlertDetail(AcknowledgedAlertRow):
    """An alert with its transitions, oldest first."""

    history: list[HistoryRow]


class IncidentSnapshotDocument(TypedDict):
    """The records and events around the onset of an alert; see docs/how-to/export-import.md."""

    tocsin_snapshot: int
    run: dict[str, Any]
    alerts: list[dict[str, Any]]
    window: dict[str, Any]
    events: list[dict[str, Any]]
    batches: list[dict[str, Any]]


@router.get("/alerts", response_model=AlertList)
def list_alerts(
    request: Request,
    _identity: Reader,
    run: str | None = None,
    state: Annotated[str | None, some_of(AlertState)] = None,
    severity: Annotated[str | None, some_of(Severity)] = None,
    limit: Annotated[int, Query(ge=1, le=10_000), WHOLE] = 200,
    after: Annotated[str | None, cursor(PATTERN, AFTER)] = None,
) -> ExactJSON:
    """List alerts of all runs or of one.

    Without ``after`` and ``state``: all unresolved alerts, then the newest ended and resolved ones. With
    ``after``: pages of ``limit`` alerts. An alert that changes between two pages moves to the first one.
    """
    states = chosen("state", state, AlertState)
    severities = chosen("severity", severity, Severity)
    services = services_of(request)
    reader = services.reader
    if after is None:
        found, following = reader.alerts(run, states, severities, limit), None
    else:
        page = page_of(lambda: reader.alert_page(run, states, severities, after=after, limit=limit), after)
        found, following = page.items, page.next
    return ExactJSON({"items": _rows(services, found), "next": following})


@router.get("/alerts/{alert_id:path}/snapshot", response_model=IncidentSnapshotDocument)
def incident_snapshot(request: Request, alert_id: str, _identity: Reader) -> Response:
    """Return the incident snapshot of an alert as a file for ``tocsin-server diagnose``."""
    text = download(services_of(request).database, alert_id)
    if text is None:
        raise Problem(404, subject="alert", expected="the id of an alert", got=alert_id)
    headers = {
        "content-disposition": f'attachment; filename="{file_name(alert_id)}.snapshot.json"',
        "cache-control": "no-store",
    }
    return Response(text, media_type="application/json", headers=headers)


@router.get("/alerts/{alert_id:path}", response_model=AlertDetail)
def one_alert(request: Request, alert_id: str, _identity: Reader) -> ExactJSON:
    """Return one alert with its transitions."""
    services = services_of(request)
    reader = services.reader
    stored = reader.alert(alert_id)
    if stored is None:
        raise Problem(404, subject="alert", expected="the id of an alert", got=alert_id)
    history = [row_of(HistoryRow, step) for step in reader.alert_history(alert_id)]
    return ExactJSON(_rows(services, [stored])[0] | {"history": history})


def _rows(services: Services, found: list[StoredAlert]) -> list[dict[str, Any]]:
    with services.database.reader.connect() as connection:
        acks = acks_in_force(connection, {each.alert.run_id for each in found})
    return [alert_row(each.alert, each.run_name, each.project, acks) for each in found]
