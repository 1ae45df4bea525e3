"""Share code between the routers of the API: strict JSON bodies, and errors in the OpenAPI description."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict
from starlette.requests import Request
from starlette.responses import Response

from tocsin_server.core import exact_json
from tocsin_server.core.responses import Problem

DIGITS = 308
"""Every integer with this many digits fits into float64."""


def resource(tag: str) -> APIRouter:
    """Return the router of one resource."""
    return APIRouter(tags=[tag], route_class=ExactRoute)


class Body(BaseModel):
    """A body of known fields whose values have exactly the declared types: a string is not a number."""

    model_config = ConfigDict(extra="forbid", strict=True)


class ExactRoute(APIRoute):
    """A route whose body is parsed by :func:`read_json`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def exact(request: Request) -> Response:
            return await handle(ExactRequest(request.scope, request.receive))

        return exact


class ExactRequest(Request):
    """A request whose ``json`` rejects values that the server cannot store."""

    async def json(self) -> Any:
        return read_json(await self.body())


def read_json(body: bytes) -> Any:
    """Parse the body of a request.

    Raises:
        Problem: 400 if it is not JSON (RFC 8259), is nested too deeply, or contains a number beyond float64
            or text that is not Unicode.
    """
    try:
        found = json.loads(
            body.decode("utf-8-sig"), parse_constant=_no_constant, parse_float=_float, parse_int=_int
        )
    except RecursionError:
        raise _unreadable("lists or objects are nested too deeply") from None
    except ValueError as error:
        raise _unreadable(str(error)) from None
    wrong = exact_json.problem(found)
    if wrong is not None:
        detail = f"The request body cannot be accepted: expected {wrong[1]} in body{wrong[0]}."
        raise Problem(400, subject=f"body{wrong[0]}", expected=wrong[1], detail=detail)
    return found


def _unreadable(why: str) -> Problem:
    detail = f"The request body is not valid JSON: {why}."
    return Problem(400, subject="body", expected="JSON", got=why, detail=detail)


def _no_constant(name: str) -> float:
    raise ValueError(f"it contains {name}")


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError("it contains a number beyond float64")
    return value


def _int(text: str) -> int:
    if len(text.removeprefix("-")) > DIGITS:
        raise ValueError("it contains a number beyond float64")
    return int(text)
