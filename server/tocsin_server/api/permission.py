"""What a route asks of whoever calls it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import Depends
from starlette.requests import Request

from tocsin_server.access import Identity, Scope
from tocsin_server.responses import Problem


def allow(scope: Scope) -> Callable[[Request], Identity]:
    """A dependency: the caller's identity; 401 without one, 403 where its scope lacks ``scope``."""

    def check(request: Request) -> Identity:
        identity: Identity | None = request.state.identity
        if identity is None:
            raise Problem(401, subject="login", expected="a token or a session", got="")
        if not identity.may(scope):
            raise Problem(403, subject="scope", expected=f"a token of scope {scope}", got=str(identity.scope))
        return identity

    return check


Reader = Annotated[Identity, Depends(allow(Scope.READ))]
Editor = Annotated[Identity, Depends(allow(Scope.WRITE))]
Admin = Annotated[Identity, Depends(allow(Scope.ADMIN))]
