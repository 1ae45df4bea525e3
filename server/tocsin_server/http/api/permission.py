"""Check that the caller of a route has the required scope."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import Depends
from starlette.requests import Request

from tocsin_server.core.permissions import Identity, Scope
from tocsin_server.core.responses import Problem


def allow(scope: Scope) -> Callable[[Request], Identity]:
    """Return a dependency that yields the caller's identity: 401 without one, 403 if it lacks ``scope``."""

    def check(request: Request) -> Identity:
        identity: Identity | None = request.state.identity
        if identity is None:
            detail = "You are not logged in. Open the login link of the server, or send a token."
            raise Problem(401, subject="login", expected="a token or a session", detail=detail)
        if not identity.may(scope):
            got = str(identity.scope)
            detail = f"This needs a token with scope {scope}; yours has scope {got}."
            raise Problem(403, subject="scope", expected=f"a token of scope {scope}", got=got, detail=detail)
        return identity

    return check


Reader = Annotated[Identity, Depends(allow(Scope.READ))]
Editor = Annotated[Identity, Depends(allow(Scope.WRITE))]
Admin = Annotated[Identity, Depends(allow(Scope.ADMIN))]
