"""Return every error as a problem (RFC 9457), including unknown paths, bad parameters and crashes."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tocsin_server.core.errors import DamagedError, FieldError
from tocsin_server.core.responses import Problem, problem_response, shortened
from tocsin_server.http.api.methods import not_allowed
from tocsin_server.store.connection import SQLAlchemyError
from tocsin_server.store.outage import is_outage, line

RETRY_S = 5
"""Seconds after which a client should retry if the database fails."""

log = logging.getLogger("tocsin.api")


def install(app: FastAPI) -> None:
    """Register the handlers on ``app``."""
    app.add_exception_handler(Problem, on_problem)
    app.add_exception_handler(HTTPException, on_http)
    app.add_exception_handler(RequestValidationError, on_validation)
    app.add_exception_handler(FieldError, on_field)
    app.add_exception_handler(SQLAlchemyError, on_database)
    app.add_exception_handler(DamagedError, on_damage)


def on_problem(_request: Request, error: Exception) -> Response:
    """Return a problem that a route raised."""
    assert isinstance(error, Problem)
    return problem_response(error)


def on_http(request: Request, error: Exception) -> Response:
    """Return an error of the framework: unknown path, wrong method, unreadable body."""
    assert isinstance(error, HTTPException)
    if isinstance(error.__cause__, Problem):  # raised while the framework read the body
        return problem_response(error.__cause__)
    if error.status_code == 405:
        allowed = Headers(error.headers or {}).get("allow", "another method")
        return problem_response(not_allowed(request.method, allowed, dict(error.headers or {})))
    if error.status_code == 404:
        return _problem(error, subject="path", expected="a path of this server", got=request.url.path)
    phrase = HTTPStatus(error.status_code).phrase
    detail = f"The request cannot be answered: {error.detail}"
    return _problem(error, subject="request", expected="a valid request", got=phrase, detail=detail)


def _problem(error: HTTPException, *, subject: str, expected: str, got: str, detail: str = "") -> Response:
    headers = dict(error.headers or {})
    return problem_response(
        Problem(
            error.status_code, subject=subject, expected=expected, got=got, detail=detail, headers=headers
        )
    )


def on_validation(_request: Request, error: Exception) -> Response:
    """Return the first error in the parameters or the body."""
    assert isinstance(error, RequestValidationError)
    first: dict[str, Any] = error.errors()[0]
    where = ".".join(str(part) for part in first.get("loc", ()) if part not in ("query", "body", "path"))
    return problem_response(_invalid(where or "body", first))


def _invalid(where: str, first: dict[str, Any]) -> Problem:
    got = first.get("input", "")
    if first.get("type") == "missing":
        return Problem(422, subject=where, expected="a value", detail=f"{where}: this field is required")
    if first.get("type") == "extra_forbidden":
        detail = f"{where}: unknown field"
        return Problem(422, subject=where, expected="a known field", got=got, detail=detail)
    got = "an empty text" if got == "" else got
    return Problem(422, subject=where, expected=_expected(str(first.get("msg", ""))), got=got)


def on_field(_request: Request, error: Exception) -> Response:
    """Return the field of a document that is invalid."""
    assert isinstance(error, FieldError)
    return problem_response(
        Problem(422, subject=error.field, expected=error.expected, got="" if error.got is None else error.got)
    )


def on_database(request: Request, error: Exception) -> Response:
    """Return 503 with the database's message for temporary errors: unavailable, locked, disk full.

    Raises:
        SQLAlchemyError: The statement itself is wrong, which is a bug in the server: a 500.
    """
    if not is_outage(error):
        raise error
    log.warning("%s %s failed because of the database: %s", request.method, request.url.path, line(error))
    # Without a login, a caller with a signed link must not learn the address of the database.
    got = line(error) if request.state.identity is not None else "no answer"
    return problem_response(
        Problem(
            503,
            subject="database",
            expected="a working database",
            got=got,
            detail=f"The database is unavailable: {shortened(got)}. Try again in {RETRY_S} s.",
            headers={"retry-after": str(RETRY_S)},
        )
    )


PHRASES = {
    "Input should be less than or equal to ": "at most ",
    "Input should be greater than or equal to ": "at least ",
    "Input should be a valid string": "text",
    "Input should be a valid list": "a list",
    "Input should be a valid integer": "a whole number",
    "Input should be a valid number": "a number",
    "Input should be a valid boolean": "true or false",
    "Input should be a valid dictionary": "an object",
    "Input should be ": "",
    "Value error, ": "",
    "String should have ": "a text with ",
    "String should match pattern ": "a text that matches ",
    "List should have ": "a list with ",
    "Dictionary should have ": "an object with ",
}
"""Beginnings of Pydantic's messages -> how the text after "expected" begins."""


def on_damage(request: Request, error: Exception) -> Response:
    """Return 500 for damaged records of a run, with what to do."""
    log.error("%s %s: %s", request.method, request.url.path, error)
    problem = Problem(500, subject="records", expected="records that can be read", detail=str(error))
    return problem_response(problem)


def _expected(message: str) -> str:
    """Return what Pydantic's message expects: "Input should be X" becomes "X"."""
    for start, phrase in PHRASES.items():
        if message.startswith(start):
            rest = message.removeprefix(start).partition(" after validation")[0]
            return phrase if start.startswith("Input should be a valid ") else phrase + rest.replace("'", "")
    return message


class Crashes:
    """ASGI middleware for bugs in the server. The log has the traceback, the response has no details.

    It is the innermost middleware, so that this response has the security headers too.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def noting(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, noting)
        except ClientDisconnect:
            log.info("%s: the client disconnected before the response", scope["path"])
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            if started:
                raise  # the response has begun: break the connection, or it would seem complete
            await problem_response(OUR_FAULT)(scope, receive, send)


OUR_FAULT = Problem(
    500,
    subject="server",
    expected="a response",
    got="an internal error",
    detail="The server failed to handle this request. Its log has the details.",
)
