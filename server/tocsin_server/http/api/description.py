"""Complete the OpenAPI description: errors, authentication and request bodies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter

from tocsin_server.http.api.documents import BODIES, described
from tocsin_server.http.api.shapes import Problem

OPEN = ("/api/v1/health", "/api/v1/ready")
FAILURES = {
    400: "The body is not JSON, is nested too deeply, or contains a value that cannot be stored.",
    401: "A token or a session is required.",
    403: "The token's scope does not allow this.",
    404: "Not found.",
    409: "The resource was changed meanwhile.",
    413: "The body is too large.",
    421: "The server does not answer for this host.",
    422: "A parameter or the body is invalid.",
    426: "The export needs HTTP/1.1.",
    429: "Too many requests. Try again later.",
    501: "A package that this request needs is not installed on the server.",
    503: "The database failed. Try again later.",
}


def failing(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the ``responses`` of a route with errors that do not follow from its parameters and body."""
    return {status: {"description": FAILURES[status]} for status in statuses}


def describe(app: FastAPI) -> None:
    """Make ``app`` describe itself in full. The description is generated on first use and cached."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _complete(
                get_openapi(
                    title=app.title,
                    version=app.version,
                    description=app.description,
                    routes=app.routes,
                    servers=app.servers,
                )
            )
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _complete(schema: dict[str, Any]) -> dict[str, Any]:
    parts = schema.setdefault("components", {})
    shapes = parts.setdefault("schemas", {})
    shapes["Problem"] = TypeAdapter(Problem).json_schema()
    shapes |= {name: shape for name, shape in described().items() if name in BODIES or name not in shapes}
    for unused in ("HTTPValidationError", "ValidationError"):
        shapes.pop(unused, None)
    parts["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer"},
        "session": {"type": "apiKey", "in": "cookie", "name": "tocsin_session"},
    }
    schema["security"] = [{"token": []}, {"session": []}]
    for path, operations in schema["paths"].items():
        for operation in operations.values():
            if path in OPEN:
                operation["security"] = []
            _tell_failures(path, operation)
            for part in operation.get("parameters", ()):
                part["schema"] = _without_null(part["schema"])
    return schema


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a parameter without null, which a URL cannot contain."""
    kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    rest = {name: value for name, value in schema.items() if name != "anyOf"}
    return {**kinds[0], **rest} if len(kinds) == 1 else schema


def _tell_failures(path: str, operation: dict[str, Any]) -> None:
    """Describe every error of an operation as a problem."""
    answers = operation["responses"]
    answers.pop("422", None)  # the framework's own format, which this API does not use
    stated = {int(status) for status, answer in answers.items() if "content" not in answer} & FAILURES.keys()
    for status in sorted({*stated, *_usual(path, operation)}):
        answers.setdefault(str(status), {"description": FAILURES[status]})["content"] = {
            "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
        }


def _usual(path: str, operation: dict[str, Any]) -> Iterator[int]:
    """Yield the error statuses that follow from the parameters and body of an operation."""
    yield 421
    if path in OPEN:
        return
    yield from (401, 403, 503)
    if "{" in path:
        yield 404
    if any(part["in"] == "query" for part in operation.get("parameters", ())):
        yield 422
    if "requestBody" in operation:
        yield from (400, 413, 422)
