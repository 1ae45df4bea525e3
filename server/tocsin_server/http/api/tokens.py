"""``/tokens``: API tokens. A secret is shown once, when it is created."""

from __future__ import annotations

import time
from typing import Annotated

from pydantic import Field, StringConstraints
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from tocsin_server.core.permissions import ADMIN_ID, CLIENT_ID, NAME_CHARACTERS, Scope, Token, make_token
from tocsin_server.core.responses import ExactJSON, Problem
from tocsin_server.http.api.deletion import actor_of
from tocsin_server.http.api.description import failing
from tocsin_server.http.api.permission import Admin
from tocsin_server.http.api.resource import Body, resource
from tocsin_server.http.api.shapes import row_of
from tocsin_server.http.services import services_of
from tocsin_server.store import audit
from tocsin_server.store.connection import Connection
from tocsin_server.store.tokens import add_token, revoke_token, tokens

router = resource("tokens")


class NewToken(Body):
    """The name and scope of a token. ``project`` restricts an ingest token; null means any project."""

    name: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=NAME_CHARACTERS)]
    scope: Annotated[Scope, Field(strict=False)]
    project: Annotated[str, StringConstraints(max_length=NAME_CHARACTERS)] | None = None


class TokenRow(TypedDict):
    """A token without its secret."""

    id: str
    name: str
    scope: Scope
    project: str | None
    created_ms: float
    revoked_ms: float | None


class TokenList(TypedDict):
    """Active and revoked tokens, oldest first."""

    items: list[TokenRow]


class MadeToken(TokenRow):
    """A new token; ``token`` is its secret, in this response only."""

    token: str


def token_row(token: Token) -> dict[str, object]:
    """Return a token as the API shows it."""
    return row_of(TokenRow, token, project=token.project or None)


@router.get("/tokens", response_model=TokenList)
def list_tokens(request: Request, _identity: Admin) -> ExactJSON:
    """List all tokens ever created, except the two in the data directory."""
    with services_of(request).database.reader.connect() as connection:
        return ExactJSON({"items": [token_row(token) for token in tokens(connection)]})


@router.post("/tokens", response_model=MadeToken, status_code=201)
def create_token(request: Request, wanted: NewToken, identity: Admin) -> ExactJSON:
    """Create a token. Its secret is in this response only."""
    services = services_of(request)
    try:
        made, secret = make_token(wanted.name, wanted.scope, wanted.project or "", time.time_ns())
    except ValueError as error:
        raise Problem(422, subject="token", expected="a valid token", detail=str(error)) from error

    def work(connection: Connection) -> None:
        add_token(connection, made)
        details = {"name": made.name, "scope": made.scope.value, "project": made.project or None}
        audit.note(connection, made.created_ns, actor_of(identity), "token.create", made.id, details)

    services.writer.call(work).result()
    services.gate.refresh()
    return ExactJSON(token_row(made) | {"token": secret}, status_code=201)


@router.delete("/tokens/{token_id}", status_code=204, response_class=Response, responses=failing(422))
def delete_token(request: Request, token_id: str, identity: Admin) -> Response:
    """Revoke a token immediately; its connections end within seconds."""
    if token_id in (ADMIN_ID, CLIENT_ID):
        command = f"`tocsin-server token revoke {token_id}`"
        detail = f"This token can be revoked on the server's machine only: {command}."
        raise Problem(422, subject="token", expected=command, got="the API", detail=detail)
    services = services_of(request)
    now_ns = time.time_ns()

    def work(connection: Connection) -> bool:
        found = revoke_token(connection, token_id, now_ns)
        if found:
            audit.note(connection, now_ns, actor_of(identity), "token.revoke", token_id)
        return found

    if not services.writer.call(work).result():
        raise Problem(404, subject="token", expected="the id of a token", got=token_id)
    services.gate.refresh()
    return Response(status_code=204, headers={"cache-control": "no-store"})
