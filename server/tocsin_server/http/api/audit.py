"""``GET /audit``: who changed what and when, newest first."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from starlette.requests import Request
from typing_extensions import TypedDict

from tocsin_server.core.responses import ExactJSON, Problem
from tocsin_server.http.api.permission import Admin
from tocsin_server.http.api.query import WHOLE, cursor
from tocsin_server.http.api.resource import resource
from tocsin_server.http.api.shapes import row_of
from tocsin_server.http.services import services_of
from tocsin_server.store.audit import listed

router = resource("audit")


class ActRow(TypedDict):
    """``by`` (a token's id and name, or the user of the command line) did ``action`` to ``subject``."""

    id: str
    at_ms: float
    by: str
    action: str
    subject: str
    details: dict[str, Any]


class ActList(TypedDict):
    """Newest first; pass ``next`` as ``before`` to get the next page."""

    items: list[ActRow]
    next: str | None


@router.get("/audit", response_model=ActList)
def audit_log(
    request: Request,
    _identity: Admin,
    action: Annotated[str | None, Query(description="Prefix of the action: token, or token.create.")] = None,
    subject: Annotated[str | None, Query(description="The id of what was changed.")] = None,
    before: Annotated[str | None, cursor(r"^[0-9]{1,19}\.[0-9a-f]{1,64}$")] = None,
    limit: Annotated[int, Query(ge=1, le=1000), WHOLE] = 100,
) -> ExactJSON:
    """List changes by users to alerts, silences, channels, routes, tokens, runs and projects."""
    try:
        with services_of(request).database.reader.connect() as connection:
            found = listed(connection, action=action, subject=subject, before=before, limit=limit)
    except ValueError:
        raise Problem(422, subject="before", expected="`next` of an earlier answer", got=before) from None
    items = [row_of(ActRow, act, by=act.actor) for act in found]
    return ExactJSON({"items": items, "next": found[-1].cursor if len(found) == limit else None})
