"""``/incidents/{id}/remedies`` and ``/projects/{name}/remedies``: what was tried, and whether it helped."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from typing_extensions import TypedDict

from tocsin_server.core.remedies import (
    AppliedRemedy,
    Direction,
    LedgerRow,
    Outcome,
    summary,
)
from tocsin_server.core.responses import ExactJSON, Problem
from tocsin_server.http.api.incidents import known_incident
from tocsin_server.http.api.permission import Reader
from tocsin_server.http.api.resource import resource
from tocsin_server.http.api.shapes import Number, row_of
from tocsin_server.http.services import services_of
from tocsin_server.runs.remedy_search import project_ledger, tried_after

router = resource("remedies")
MOST_CASES = 20
"""Maximum number of cases of one ledger row that are returned; the newest are chosen."""


class ChangedSetting(TypedDict):
    """A setting that was changed. ``recorded``: the values are those of a series at the onset."""

    setting: str
    before: str | None
    after: str | None
    direction: Direction
    recorded: bool


class RemedyRow(TypedDict):
    """A later attempt, or a later run, that trained the steps of the onset again.

    ``changed`` says from where it continued and what was changed; ``label`` names the changes without values.
    ``step``: the step at which the problem began again. The losses are those at ``loss_step``, the last step
    of the stretch that both trained.
    """

    run_id: str
    run_name: str
    attempt: int
    began_ms: float
    first_step: int
    last_step: int
    changes: list[ChangedSetting]
    label: str
    changed: str
    outcome: Outcome
    step: int | None
    text: str
    loss_step: int | None
    loss_before: Number | None
    loss_after: Number | None


class StretchRow(TypedDict):
    """The steps that are compared, both included, and the step at which the incident was detected."""

    onset: int
    detected: int
    last: int


class RemedyAnswer(TypedDict):
    """What was tried after an incident, oldest first. ``text``: the result in one sentence, "" if none."""

    items: list[RemedyRow]
    stretch: StretchRow | None
    text: str


class CaseRow(TypedDict):
    """One remedy in the ledger: the incident, and the attempt or the run that followed."""

    incident: str
    run_id: str
    run_name: str
    attempt: int
    changed: str
    outcome: Outcome
    step: int | None
    text: str


class LedgerLine(TypedDict):
    """How often one kind of change helped against one cause.

    ``cause``: the rule nearest to the cause. ``held``, ``recurred`` and ``open`` count the outcomes.
    ``cases``: the newest 20.
    """

    cause: str
    label: str
    held: int
    recurred: int
    open: int
    cases: list[CaseRow]


class Ledger(TypedDict):
    """The remedies of a project by cause, the most frequent cause first."""

    items: list[LedgerLine]


@router.get("/incidents/{incident_id:path}/remedies", response_model=RemedyAnswer)
def incident_remedies(request: Request, incident_id: str, _identity: Reader) -> ExactJSON:
    """Return what was changed in later attempts and runs, and whether the problem recurred.

    An attempt counts if it begins before the onset. A later run counts if its configuration, command line or
    notes name the run or one of its checkpoints, or if it repeats the run with up to three settings changed.
    """
    services = services_of(request)
    _, stretch, found = tried_after(services.reader, known_incident(services, incident_id).incident)
    return ExactJSON(
        {
            "items": [_remedy(each) for each in found],
            "stretch": stretch and row_of(StretchRow, stretch),
            "text": summary(found),
        }
    )


@router.get("/projects/{project:path}/remedies", response_model=Ledger)
def project_remedies(request: Request, project: str, _identity: Reader) -> ExactJSON:
    """Return how often each kind of remedy helped against each cause in a project.

    The newest 100 incidents are counted, without those of severity info.
    """
    reader = services_of(request).reader
    if not any(run.project == project for run in reader.runs()):
        raise Problem(404, subject="project", expected="the name of a project", got=project)
    return ExactJSON({"items": [_line(row) for row in project_ledger(reader, project)]})


def _remedy(remedy: AppliedRemedy) -> dict[str, Any]:
    return row_of(RemedyRow, remedy, changes=[row_of(ChangedSetting, each) for each in remedy.changes])


def _line(row: LedgerRow) -> dict[str, Any]:
    newest = sorted(row.cases, key=lambda case: (-case[1].began_ns, case[1].run_id, case[1].attempt))
    return row_of(
        LedgerLine,
        row,
        held=row.count(Outcome.RECOVERED),
        recurred=row.count(Outcome.RECURRED),
        open=row.count(Outcome.TOO_EARLY),
        cases=[row_of(CaseRow, remedy, incident=incident.id) for incident, remedy in newest[:MOST_CASES]],
    )
