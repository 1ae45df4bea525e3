"""The reference of the HTTP routes and their schemas, from the server's OpenAPI description."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

from openapi import description
from tables import code, table

PREFIX = "/api/v1"
COMMON = {"400", "401", "403", "404", "413", "421", "422", "503"}
"""Statuses that mean the same for every route."""
ROUTES = """\
# HTTP routes

*Reference, generated from the server's OpenAPI description.* All paths are below `/api/v1`.
[HTTP API](http-api.md) has what is common to all: authentication, numbers, errors, pages of results.

Common errors: 400 and 422 invalid body or parameter, 401 no token, 403 the token's scope does not allow it,
404 not found, 413 the body is too large, 421 the host name is not served, 503 the database failed.
"""
SCHEMAS = """\
# HTTP schemas

*Reference, generated from the server's OpenAPI description.* The objects that
[HTTP routes](http-routes.md) take and return.
"""


def routes_page() -> str:
    """Return the list of routes, one section per tag."""
    parts = [ROUTES]
    by_tag = sorted(_operations(), key=itemgetter(0))
    for tag, members in groupby(by_tag, key=itemgetter(0)):
        parts.append(f"## {tag.capitalize()}")
        parts += [_route(path, method, operation) for _, path, method, operation in members]
    return "\n\n".join(parts) + "\n"


def schemas_page() -> str:
    """Return the list of schemas with their fields."""
    parts = [SCHEMAS]
    for name, schema in sorted(description()["components"]["schemas"].items()):
        properties = schema.get("properties")
        if "enum" in schema:
            parts.append(f"## {name}\n\nOne of {_type(schema)}.")
        if properties is None or name.startswith(("HTTPValidation", "Validation")):
            continue
        required = set(schema.get("required", ()))
        rows = [
            (code(field), _type(one), "yes" if field in required else "", _text(one.get("description", "")))
            for field, one in properties.items()
        ]
        text = _text(schema.get("description", ""))
        parts.append(f"## {name}\n\n{text}\n\n" + table(("Field", "Type", "Required", "Meaning"), rows))
    return "\n\n".join(parts) + "\n"


def _operations() -> Iterator[tuple[str, str, str, Mapping[str, Any]]]:
    """Yield tag, path, method and operation of each route."""
    for path, methods in description()["paths"].items():
        for method, operation in methods.items():
            yield operation["tags"][0], path.removeprefix(PREFIX), method.upper(), operation


def _route(path: str, method: str, operation: Mapping[str, Any]) -> str:
    parts = [f"### {method} {path}", _text(operation.get("description", ""))]
    rows = [
        (
            code(one["name"]),
            _type(one["schema"]),
            code(one["schema"].get("default", "")),
            _text(one.get("description", "")) or "-",
        )
        for one in operation.get("parameters", ())
        if one["in"] != "path"
    ]
    if rows:
        parts.append(table(("Parameter", "Type", "Default", "Meaning"), rows))
    if "requestBody" in operation:
        parts.append("Body: " + _content(operation["requestBody"]))
    for status, response in operation["responses"].items():
        if status.startswith("2"):
            parts.append(f"Returns {status}: {_content(response)}")
        elif status not in COMMON or (status == "404" and not path.count("{")):
            parts.append(f"Returns {status}: {_text(response['description'])}")
    return "\n\n".join(parts)


def _content(holder: Mapping[str, Any]) -> str:
    """Return the schema, or else the media types, of a body or a response."""
    content = holder.get("content", {})
    found = [_type(one["schema"]) for one in content.values() if one.get("schema")]
    return ", ".join(dict.fromkeys(found)) or ", ".join(map(code, content)) or "no content"


def _type(schema: Mapping[str, Any]) -> str:
    """Return a short text for a JSON schema, with links to named ones."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](http-schemas.md#{name.lower()})"
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return " or ".join(dict.fromkeys(map(_type, schema[several])))
    if "enum" in schema:
        return ", ".join(map(code, schema["enum"]))
    if "const" in schema:
        return code(schema["const"])
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return str(kind)


def _text(text: str) -> str:
    return re.sub(r"``", "`", " ".join(text.split()))
