"""Files to share: the report of a run, of an incident or of a comparison as HTML, and a postmortem."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from tocsin_server.core.responses import Problem
from tocsin_server.http.api.description import failing
from tocsin_server.http.api.permission import Reader
from tocsin_server.http.api.query import Names, known_run, names_of
from tocsin_server.http.api.resource import resource
from tocsin_server.http.services import services_of
from tocsin_server.http.web_files import report_assets
from tocsin_server.report.material import MOST_RUNS, ReportError
from tocsin_server.report.postmortem_files import write_postmortem
from tocsin_server.report.writing import write_incident_report, write_report
from tocsin_server.transfer.record_export import file_name

router = resource("reports")


SEVERAL = "Run ids: repeat the parameter, or separate them by commas."
IDS = {"minItems": 2, "maxItems": MOST_RUNS, "uniqueItems": True, "items": {"type": "string", "minLength": 1}}


class HTMLReport(Response):
    """A file that browsers save instead of showing it as a page of this site; it is sent uncompressed."""

    media_type = "text/html"


class PostmortemFile(Response):
    """A ZIP file of Markdown and PNG charts."""

    media_type = "application/zip"


@router.get("/runs/{run_id:path}/report", response_class=HTMLReport)
def run_report(request: Request, run_id: str, _identity: Reader, names: Names = None) -> Response:
    """Return a run with its charts, alerts, diagnoses, notes and settings as one HTML file."""
    return _report(request, [run_id], names_of(names), f"{file_name(run_id)}-report.html")


@router.get("/compare/report", response_class=HTMLReport, responses=failing(404))
def comparison_report(
    request: Request,
    _identity: Reader,
    runs: Annotated[list[str], Query(description=SEVERAL, json_schema_extra=IDS)],
    names: Names = None,
) -> Response:
    """Return a comparison of several runs as one HTML file; ``names`` are series besides the vital signs."""
    ids = list(dict.fromkeys(name for name in (runs[0].split(",") if len(runs) == 1 else runs) if name))
    if not 2 <= len(ids) <= MOST_RUNS:
        raise Problem(422, subject="runs", expected=f"the ids of 2 to {MOST_RUNS} runs", got=len(ids))
    return _report(request, ids, names_of(names), "comparison-report.html")


@router.get("/incidents/{incident_id:path}/report", response_class=HTMLReport)
def incident_report(request: Request, incident_id: str, _identity: Reader) -> Response:
    """Return an incident with its alerts and the charts of its onset as one HTML file."""
    try:
        made = write_incident_report(services_of(request).reader, report_assets(), incident_id)
    except ReportError as error:
        raise _unknown_incident(incident_id) from error
    return HTMLReport(made.body, headers=_saved_as(f"incident-{file_name(incident_id)}.html"))


@router.get("/incidents/{incident_id:path}/postmortem", response_class=PostmortemFile)
def postmortem(
    request: Request,
    incident_id: str,
    _identity: Reader,
    file_format: Annotated[Literal["zip", "markdown"], Query(alias="format")] = "zip",
) -> Response:
    """Return the postmortem of an incident: Markdown with its charts as a ZIP file, or only the Markdown."""
    services = services_of(request)
    packed = file_format == "zip"
    try:
        made = write_postmortem(services.reader, incident_id, base=services.delivery.base, charts=packed)
    except ReportError as error:
        raise _unknown_incident(incident_id) from error
    if packed:
        return PostmortemFile(made.zipped(), headers=_saved_as(f"{made.name}.zip"))
    kind = "text/markdown; charset=utf-8"
    return Response(made.text, media_type=kind, headers=_saved_as(f"{made.name}.md"))


def _unknown_incident(incident_id: str) -> Problem:
    return Problem(404, subject="incident", expected="the id of an incident", got=incident_id)


def _report(request: Request, ids: list[str], names: list[str] | None, name: str) -> Response:
    services = services_of(request)
    for run_id in ids:
        known_run(services.reader, run_id)
    try:
        made = write_report(services.reader, report_assets(), ids, names)
    except ReportError as error:  # deleted meanwhile
        raise Problem(404, subject="report", expected="existing runs", detail=str(error)) from error
    return HTMLReport(made.body, headers=_saved_as(name))


def _saved_as(name: str) -> dict[str, str]:
    return {
        "content-disposition": f'attachment; filename="{name}"',
        "cache-control": "no-store",
        # Compressing megabytes on the event loop would delay the acks of all clients.
        "content-encoding": "identity",
    }
