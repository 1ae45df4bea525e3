"""``GET /runs/{id}/media``: images, histograms, texts and tables of a run, and their contents by hash."""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import Path, Query
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from tocsin_server.core.models import RunEvent
from tocsin_server.core.responses import ExactJSON, Problem
from tocsin_server.http.api.permission import Reader
from tocsin_server.http.api.query import known_run
from tocsin_server.http.api.resource import resource
from tocsin_server.http.services import services_of
from tocsin_server.store.reader import StoreReader

router = resource("media")

MOST = 2_000
"""Maximum number of objects of a run that are listed; the newest are chosen. A process sends at most 500."""
KINDS = ("image", "histogram", "text", "table")
PICTURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
}
"""First bytes -> type that a browser may draw. Everything else is sent as text or JSON, never as a page."""
NOT_FACTS = ("name", "type", "hash", "bytes", "caption")


class MediaRow(TypedDict):
    """One object that the script logged; ``facts`` are its size in pixels, rows or characters."""

    id: str
    name: str
    type: Literal["image", "histogram", "text", "table"]
    step: int | None
    time_ms: float
    attempt: int
    rank: int
    caption: str
    hash: str
    bytes: int
    facts: dict[str, Any]


class MediaAnswer(TypedDict):
    """Objects in order of arrival, at most the newest 2,000; the content of each is at ``/media/{hash}``."""

    items: list[MediaRow]
    names: list[str]


@router.get("/runs/{run_id:path}/media", response_model=MediaAnswer)
def list_media(
    request: Request,
    run_id: str,
    _identity: Reader,
    name: Annotated[str | None, Query(description="Only objects that were logged under this name.")] = None,
) -> ExactJSON:
    """List the images, histograms, texts and tables of a run."""
    reader = services_of(request).reader
    known_run(reader, run_id)
    rows = [_row(event) for event in reader.media(run_id, MOST) if is_media(event.data)]
    names = list(dict.fromkeys(row["name"] for row in rows))
    return ExactJSON({"items": [row for row in rows if name in (None, row["name"])], "names": names})


@router.get(
    "/runs/{run_id:path}/media/{digest}",
    response_class=Response,
    responses={
        200: {"content": {name: {} for name in (*PICTURES.values(), "text/plain", "application/json")}}
    },
)
def media_content(
    request: Request,
    run_id: str,
    digest: Annotated[str, Path(pattern="^[0-9a-f]{8,64}$")],
    _identity: Reader,
) -> Response:
    """Return the content of an object. It never changes, so browsers may keep it."""
    reader = services_of(request).reader
    known_run(reader, run_id)
    body = content_of(reader, run_id, digest)
    if body is None:
        detail = f"Run {run_id} has no object with the hash {digest}, or its content did not arrive."
        raise Problem(404, subject="hash", expected="the hash of an object", got=digest, detail=detail)
    headers = {
        "cache-control": "private, max-age=31536000, immutable",
        "x-content-type-options": "nosniff",
        "content-security-policy": "default-src 'none'; sandbox",
    }
    return Response(body, media_type=_type_of(body), headers=headers)


def is_media(data: Mapping[str, Any]) -> bool:
    """Return whether an event names an object of a known type."""
    texts = all(isinstance(data.get(name), str) for name in ("name", "hash"))
    return texts and data.get("type") in KINDS


def content_of(reader: StoreReader, run_id: str, digest: str) -> bytes | None:
    """Return the content of an object, or None if it did not arrive."""
    event = reader.media_content(run_id, digest)
    return None if event is None or event.data.get("hash") != digest else _decoded(event.data)


def picture_type(body: bytes) -> str:
    """Return the type of a picture, by its first bytes.

    Raises:
        ValueError: It is not one that a browser may draw.
    """
    found = next((name for start, name in PICTURES.items() if body.startswith(start)), None)
    if found is None:
        raise ValueError("The content is not a picture.")
    return found


def _row(event: RunEvent) -> dict[str, Any]:
    data = event.data
    return {
        "id": f"{event.writer.writer_no}.{event.no}",
        "name": data["name"],
        "type": data["type"],
        "step": event.step,
        "time_ms": event.time_ns / 1e6,
        "attempt": event.writer.attempt_no,
        "rank": event.writer.rank,
        "caption": str(data.get("caption") or ""),
        "hash": data["hash"],
        "bytes": data["bytes"] if isinstance(data.get("bytes"), int) else 0,
        "facts": {name: value for name, value in data.items() if name not in NOT_FACTS},
    }


def _decoded(data: Mapping[str, Any]) -> bytes | None:
    try:
        return base64.b64decode(str(data.get("content")), validate=True)
    except (binascii.Error, ValueError):
        return None


def _type_of(body: bytes) -> str:
    """Return a type that cannot run in a browser, by the bytes, whatever the training process claims."""
    with contextlib.suppress(ValueError):
        return picture_type(body)
    try:
        json.loads(body)
    except ValueError:
        return "text/plain; charset=utf-8"
    return "application/json"
