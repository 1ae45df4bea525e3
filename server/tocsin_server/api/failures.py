"""Every failure of a request as a problem (RFC 9457): unknown paths, bad parameters, crashes too."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import SQLAlchemyError
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tocsin_server.outage import is_outage, line
from tocsin_server.responses import Problem, problem_response, shortened

RETRY_S = 5
"""How long a client waits before it asks a failing database again."""

log = logging.getLogger("tocsin.api")


def install(app: FastAPI) -> None:
    """Registers the handlers on ``app``."""
    app.add_exception_handler(Problem, on_problem)
    app.add_exception_handler(HTTPException, on_http)
    app.add_exception_handler(RequestValidationError, on_validation)
    app.add_exception_handler(SQLAlchemyError, on_database)


def on_problem(_request: Request, error: Exception) -> Response:
    """A route said what is wrong."""
    assert isinstance(error, Problem)
    return problem_response(error)


def on_http(request: Request, error: Exception) -> Response:
    """No such path, wrong method, unreadable body: what the framework itself refuses."""
    assert isinstance(error, HTTPException)
    if isinstance(error.__cause__, Problem):  # raised while the framework read the body
        return problem_response(error.__cause__)
    if error.status_code == 405:
        allowed = Headers(error.headers or {}).get("allow", "another method")
        return _problem(error, subject="method", expected=allowed, got=request.method)
    if error.status_code == 404:
        return _problem(error, subject="path", expected="a path of this server", got=request.url.path)
    phrase = HTTPStatus(error.status_code).phrase
    return _problem(error, subject="request", expected="a request that can be answered", got=phrase)


def _problem(error: HTTPException, *, subject: str, expected: str, got: str) -> Response:
    headers = dict(error.headers or {})
    return problem_response(
        Problem(error.status_code, subject=subject, expected=expected, got=got, headers=headers)
    )


def on_validation(_request: Request, error: Exception) -> Response:
    """A parameter or body that does not fit: the first of its faults."""
    assert isinstance(error, RequestValidationError)
    first: dict[str, Any] = error.errors()[0]
    where = ".".join(str(part) for part in first.get("loc", ()) if part not in ("query", "body", "path"))
    problem = Problem(
        422,
        subject=where or "body",
        expected=_expected(str(first.get("msg", ""))),
        got=first.get("input", ""),
    )
    return problem_response(problem)


def on_database(request: Request, error: Exception) -> Response:
    """Answer 503 with the database's own words where it may work later: down, locked, disk full.

    Raises:
        SQLAlchemyError: The statement itself is at fault, which is a bug of ours: a 500.
    """
    if not is_outage(error):
        raise error
    log.warning("%s %s: the database failed: %s", request.method, request.url.path, line(error))
    # A stranger with a signed link must not read the address of the database.
    got = line(error) if request.state.identity is not None else "no answer"
    return problem_response(
        Problem(
            503,
            subject="database",
            expected="a database that works",
            got=got,
            detail=f"The database does not answer: {shortened(got)}. Try again in {RETRY_S} s.",
            headers={"retry-after": str(RETRY_S)},
        )
    )


def _expected(message: str) -> str:
    """Pydantic's message as what was expected: "Input should be X" becomes "X"."""
    text = message.removeprefix("Input should be ").removeprefix("Value error, ")
    return "a value (it is missing)" if text == "Field required" else text


class Crashes:
    """ASGI middleware: our own faults. The log has the traceback, the answer has no details.

    It sits inside the others, so that this answer too carries the security headers.
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
            log.info("%s left before the answer", scope["path"])
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            if started:
                raise  # half an answer is out: the connection must break, not end as if it were whole
            await problem_response(OUR_FAULT)(scope, receive, send)


OUR_FAULT = Problem(
    500,
    subject="server",
    expected="an answer",
    got="an internal error",
    detail="The server failed on this request; its log says why.",
)
