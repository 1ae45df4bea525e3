"""``/rules/{id}/settings``: the tuning of a built-in rule, in one project or in all."""

from __future__ import annotations

import time
from typing import Annotated, Any

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from tocsin_server.core.errors import FieldError
from tocsin_server.core.responses import ExactJSON, Problem, shortened
from tocsin_server.detect.custom.tuning import EVERYWHERE, Tuning, plain, read_tuning
from tocsin_server.http.api.deletion import actor_of
from tocsin_server.http.api.permission import Editor
from tocsin_server.http.api.resource import Body, resource
from tocsin_server.http.api.rules import TuningItem, changed, tuning_item
from tocsin_server.http.services import services_of
from tocsin_server.rules.documents import note, read_project
from tocsin_server.store import rules
from tocsin_server.store.connection import Connection
from tocsin_server.store.rules import TuningRow

router = resource("rules")


class NewTuning(Body):
    """``project`` ``*`` means all projects. Null or an omitted setting means no change."""

    project: str = EVERYWHERE
    enabled: Any = None
    severity: Any = None
    settings: Any = None


@router.put("/rules/{rule_id}/settings", response_model=TuningItem)
async def write_tuning(request: Request, rule_id: str, wanted: NewTuning, identity: Editor) -> ExactJSON:
    """Replace the tuning of a built-in rule in a project. It takes effect in running runs immediately."""
    made = _checked(rule_id, wanted)
    actor, now_ns = actor_of(identity), time.time_ns()

    def work(connection: Connection) -> TuningRow:
        before = {(row.rule, row.project): row.source for row in rules.tunings(connection)}
        source = before.get((rule_id, wanted.project), "")
        row = TuningRow(rule_id, wanted.project, plain(made), source, now_ns, actor)
        rules.put_tuning(connection, row)
        note(connection, now_ns, actor, "rule.settings", rule_id, {"project": row.project, **row.body})
        return row

    return ExactJSON(tuning_item(await changed(services_of(request), work)))


@router.delete("/rules/{rule_id}/settings", status_code=204, response_class=Response)
async def delete_tuning(
    request: Request,
    rule_id: str,
    identity: Editor,
    project: Annotated[str, Query(max_length=250)] = EVERYWHERE,
) -> Response:
    """Remove the tuning of a built-in rule in a project."""
    actor, now_ns = actor_of(identity), time.time_ns()

    def work(connection: Connection) -> bool:
        note(connection, now_ns, actor, "rule.settings", rule_id, {"project": project, "action": "delete"})
        if not rules.delete_tuning(connection, rule_id, project, now_ns):
            detail = f"Rule {shortened(rule_id)} has no settings for this project."
            expected = "a rule and project that have settings"
            raise Problem(404, subject="settings", expected=expected, got=rule_id, detail=detail)
        return True

    await changed(services_of(request), work)
    return Response(status_code=204, headers={"cache-control": "no-store"})


def _checked(rule_id: str, wanted: NewTuning) -> Tuning:
    try:
        read_project(wanted.project)
        made = read_tuning(rule_id, wanted.model_dump(exclude={"project"}))
    except FieldError as error:
        status = 404 if error.field == "rule" else 422
        raise Problem(status, subject=error.field, expected=error.expected, got=error.got) from error
    if made.says_nothing:
        raise Problem(422, subject="settings", expected="enabled, severity or a setting", got="nothing")
    return made
