"""What the routers of the API share: bodies are strict JSON, and failures are described."""

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

from tocsin_server import exactjson
from tocsin_server.responses import Problem

DIGITS = 308
"""Every whole number of so many digits is within float64."""


def resource(tag: str) -> APIRouter:
    """Return the router of one resource."""
    return APIRouter(tags=[tag], route_class=ExactRoute)


class Body(BaseModel):
    """A body of known fields whose values are of the type in the description: no text for a number."""

    model_config = ConfigDict(extra="forbid", strict=True)


class ExactRoute(APIRoute):
    """A route whose body is read by :func:`read_json`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def exact(request: Request) -> Response:
            return await handle(ExactRequest(request.scope, request.receive))

        return exact


class ExactRequest(Request):
    """A request whose ``json`` refuses what the server could not keep."""

    async def json(self) -> Any:
        return read_json(await self.body())


def read_json(body: bytes) -> Any:
    """Parse the body of a request.

    Raises:
        Problem: 400 for what is not JSON (RFC 8259) or nested too deeply, or holds a number beyond
            float64 or text that is not Unicode.
    """
    try:
        found = json.loads(
            body.decode("utf-8-sig"), parse_constant=_no_constant, parse_float=_float, parse_int=_int
        )
    except RecursionError:
        raise _unreadable("JSON of fewer levels", "lists or maps nested too deeply") from None
    except ValueError as error:
        raise _unreadable("JSON", str(error)) from None
    wrong = exactjson.fault(found)
    if wrong is not None:
        raise Problem(400, subject=f"body{wrong[0]}", expected=wrong[1], got="something else")
    return found


def _unreadable(expected: str, got: str) -> Problem:
    return Problem(400, subject="body", expected=expected, got=got)


def _no_constant(name: str) -> float:
    raise ValueError(f"{name}, which JSON does not have")


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError("a number beyond float64")
    return value


def _int(text: str) -> int:
    if len(text.removeprefix("-")) > DIGITS:
        raise ValueError("a number beyond float64")
    return int(text)
