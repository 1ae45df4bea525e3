"""``GET /incidents/{id}/similar``: incidents of the project that resemble another one."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from typing_extensions import TypedDict

from tocsin_server.core.incidents import IncidentState
from tocsin_server.core.models import Severity
from tocsin_server.core.remedies import Outcome
from tocsin_server.core.responses import ExactJSON
from tocsin_server.core.run_changes import texts_of
from tocsin_server.core.similar_incidents import SimilarIncident, fingerprint_of, similar_incidents
from tocsin_server.http.api.acks import AckRow
from tocsin_server.http.api.incidents import incident_row, known_incident
from tocsin_server.http.api.permission import Reader
from tocsin_server.http.api.resource import resource
from tocsin_server.http.api.shapes import row_of
from tocsin_server.http.services import Services, services_of
from tocsin_server.runs.remedy_search import RemedySearch
from tocsin_server.store.acks import acks_in_force
from tocsin_server.store.results import StoredIncident
from tocsin_server.store.run_rows import configs

router = resource("incidents")
MOST, MOST_COMPARED = 10, 100
"""Similar incidents that are listed, and newest incidents of each state that are compared."""
MOST_SOLVED = 3
"""Maximum number of similar incidents whose remedy is read: as many as the pages show."""


class SolvedBy(TypedDict):
    """The attempt in which a problem did not recur; ``changed`` says how it began and what was changed."""

    run_id: str
    run_name: str
    attempt: int
    changed: str


class SimilarRow(TypedDict):
    """A similar incident; ``reasons`` name what they have in common, and ``points`` measure it.

    ``solved``: the newest change after which the problem did not recur; looked for in the first three.
    """

    id: str
    run_id: str
    run_name: str
    state: IncidentState
    severity: Severity
    rule: str
    summary: str
    onset_step: int | None
    onset_ms: float
    ack: AckRow | None
    points: float
    reasons: list[str]
    solved: SolvedBy | None


class SimilarAnswer(TypedDict):
    """Up to 10 incidents, the most similar first. ``count``: all that were found; ``before``: older ones."""

    items: list[SimilarRow]
    count: int
    before: int


@router.get("/incidents/{incident_id:path}/similar", response_model=SimilarAnswer)
def similar(request: Request, incident_id: str, _identity: Reader) -> ExactJSON:
    """List incidents of the same project with the same likely cause, alerts, layer or configuration.

    The newest 100 incidents of each state are compared.
    """
    services = services_of(request)
    own = known_incident(services, incident_id)
    others = {
        each.incident.id: each for each in services.reader.incidents(limit=MOST_COMPARED, project=own.project)
    }
    settings = _settings(services, own.project)
    mark = fingerprint_of(own.incident, settings.get(own.incident.lead.run_id, {}))
    marks = [
        fingerprint_of(each.incident, settings.get(each.incident.lead.run_id, {})) for each in others.values()
    ]
    found = similar_incidents(mark, marks)
    before = sum(1 for each in found if others[each.incident_id].incident.onset_ns < own.incident.onset_ns)
    return ExactJSON({"items": _rows(services, found[:MOST], others), "count": len(found), "before": before})


def _settings(services: Services, project: str) -> dict[str, dict[str, str]]:
    with services.reader.consistent() as connection:
        return {run_id: texts_of(config) for run_id, config in configs(connection, project).items()}


def _rows(
    services: Services, found: list[SimilarIncident], others: dict[str, StoredIncident]
) -> list[dict[str, Any]]:
    stored = [others[each.incident_id] for each in found]
    with services.reader.consistent() as connection:
        acks = acks_in_force(connection, {run_id for each in stored for run_id in each.runs})
    search = RemedySearch(services.reader, services.reader.runs())
    rows = []
    for at, (each, one) in enumerate(zip(found, stored, strict=True)):
        row = incident_row(one, acks)
        kept = {name: row[name] for name in SimilarRow.__annotations__ if name in row}
        solved = _solved(search, one) if at < MOST_SOLVED else None
        about = {"rule": one.incident.lead.rule, "points": each.points, "reasons": list(each.reasons)}
        about["solved"] = solved
        rows.append(kept | about)
    return rows


def _solved(search: RemedySearch, stored: StoredIncident) -> dict[str, Any] | None:
    """Return the newest change that held."""
    held = [each for each in search.remedies_of(stored.incident) if each.outcome is Outcome.RECOVERED]
    if not held:
        return None
    return row_of(SolvedBy, held[-1])
