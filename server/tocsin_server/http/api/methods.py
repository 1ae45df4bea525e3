"""Return 405 with a complete ``Allow`` for a method that a path does not support.

A router looks for any route that accepts both path and method. It would therefore treat ``PATCH
//runs/r/events`` as a change of the run ``r/events``, and its ``Allow`` would name the methods of one route
only. Here the first path that matches is the resource, and its methods are those of all routes with that
path.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from re import Pattern

from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, compile_path
from starlette.types import ASGIApp, Receive, Scope, Send

from tocsin_server.core.responses import Problem, problem_response


class Methods:
    """ASGI middleware in front of the router; ``routes`` are those below ``prefix``, specific paths first."""

    def __init__(self, app: ASGIApp, routes: Iterable[BaseRoute], prefix: str) -> None:
        self._app = app
        self._prefix = prefix
        self._allowed: dict[str, tuple[Pattern[str], set[str]]] = {}
        for route in routes:
            if isinstance(route, APIRoute):
                pattern = compile_path(prefix + route.path)[0]
                _, methods = self._allowed.setdefault(route.path, (pattern, set()))
                methods |= route.methods or set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        allowed = self._methods_of(scope["path"]) if scope["type"] == "http" else None
        if allowed is None or scope["method"] in allowed:
            await self._app(scope, receive, send)
            return
        names = ", ".join(sorted(allowed))
        problem = not_allowed(scope["method"], names, {"allow": names})
        await problem_response(problem)(scope, receive, send)

    def _methods_of(self, path: str) -> set[str] | None:
        if not path.startswith(self._prefix):
            return None
        return next((methods for pattern, methods in self._allowed.values() if pattern.match(path)), None)


def not_allowed(method: str, allowed: str, headers: Mapping[str, str]) -> Problem:
    """Return the 405 for a method that a path does not support."""
    detail = f"This path does not support {method}. Supported methods: {allowed}."
    return Problem(405, subject="method", expected=allowed, got=method, detail=detail, headers=headers)
