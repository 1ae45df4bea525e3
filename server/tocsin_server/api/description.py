"""What OpenAPI says besides the routes: the shape of every error and how a caller proves who it is."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter

from tocsin_server.api.shapes import Problem

OPEN = ("/api/v1/health", "/api/v1/ready")


def describe(app: FastAPI) -> None:
    """Makes ``app`` describe itself in full. The description is made at its first reading and kept."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _complete(
                get_openapi(
                    title=app.title, version=app.version, description=app.description, routes=app.routes
                )
            )
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _complete(schema: dict[str, Any]) -> dict[str, Any]:
    parts = schema.setdefault("components", {})
    parts.setdefault("schemas", {})["Problem"] = TypeAdapter(Problem).json_schema()
    parts["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer"},
        "session": {"type": "apiKey", "in": "cookie", "name": "tocsin_session"},
    }
    schema["security"] = [{"token": []}, {"session": []}]
    for path in OPEN:
        schema["paths"][path]["get"]["security"] = []
    return schema
