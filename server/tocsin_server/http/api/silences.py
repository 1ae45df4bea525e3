"""``/silences``: mute matching alerts for some time."""

from __future__ import annotations

import asyncio
import secrets
import time
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from tocsin_server.core.responses import ExactJSON, Problem
from tocsin_server.delivery.router import silence_of
from tocsin_server.http.api.deletion import actor_of
from tocsin_server.http.api.permission import Editor, Reader
from tocsin_server.http.api.resource import Body, resource
from tocsin_server.http.api.shapes import row_of
from tocsin_server.http.services import services_of
from tocsin_server.notify.silences import check_room, read_matchers
from tocsin_server.store import audit
from tocsin_server.store.connection import Connection
from tocsin_server.store.notification_config import (
    SilenceRow,
    expire_silence,
    put_silence,
    read_silence,
    silences,
)

router = resource("silences")
LONGEST_MS = 366 * 86_400_000


class NewSilence(Body):
    """What to silence, from when (now if omitted) until when, and why."""

    matchers: list[str]
    starts_ms: float | None = Field(None, allow_inf_nan=False)
    ends_ms: float = Field(allow_inf_nan=False)
    reason: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1000)]


class SilenceItem(TypedDict):
    """A silence; ``state`` is pending, active or expired. With a ``problem`` it mutes nothing."""

    id: str
    matchers: list[str]
    starts_ms: float
    ends_ms: float
    author: str
    reason: str
    created_ms: float
    state: Literal["pending", "active", "expired"]
    problem: str | None


class SilenceList(TypedDict):
    """Silences, newest first; expired ones are kept for 90 days."""

    items: list[SilenceItem]


def silence_item(row: SilenceRow) -> dict[str, Any]:
    """Return a silence as the API shows it."""
    silence = silence_of(row)
    state, problem = silence.state(time.time_ns()), silence.problem or None
    return row_of(SilenceItem, row, state=state, problem=problem)


@router.get("/silences", response_model=SilenceList)
def list_silences(request: Request, _identity: Reader) -> ExactJSON:
    """List all silences."""
    with services_of(request).database.reader.connect() as connection:
        return ExactJSON({"items": [silence_item(row) for row in silences(connection)]})


@router.post("/silences", response_model=SilenceItem, status_code=201)
async def create_silence(request: Request, wanted: NewSilence, identity: Editor) -> ExactJSON:
    """Silence matching alerts; the caller is the author."""
    now_ns = time.time_ns()
    row = _row(wanted, f"s_{secrets.token_hex(6)}", actor_of(identity), now_ns)
    await _store(request, row, "silence.create", actor_of(identity))
    return ExactJSON(silence_item(row), status_code=201)


@router.put("/silences/{silence_id}", response_model=SilenceItem)
async def change_silence(
    request: Request, silence_id: str, wanted: NewSilence, identity: Editor
) -> ExactJSON:
    """Change a silence; its author stays the same."""
    with services_of(request).database.reader.connect() as connection:
        before = read_silence(connection, silence_id)
    if before is None:
        raise _unknown(silence_id)
    row = _row(wanted, silence_id, before.author, before.created_ns)
    await _store(request, row, "silence.change", actor_of(identity))
    return ExactJSON(silence_item(row))


@router.delete("/silences/{silence_id}", status_code=204, response_class=Response)
async def end_silence(request: Request, silence_id: str, identity: Editor) -> Response:
    """End a silence now. It stays in the list as expired."""
    services, now_ns = services_of(request), time.time_ns()

    def work(connection: Connection) -> bool:
        found = expire_silence(connection, silence_id, now_ns)
        if found:
            audit.note(connection, now_ns, actor_of(identity), "silence.expire", silence_id)
        return found

    if not await asyncio.wrap_future(services.writer.call(work)):
        raise _unknown(silence_id)
    services.delivery.wake()
    services.live.changed("silences")
    return Response(status_code=204, headers={"cache-control": "no-store"})


async def _store(request: Request, row: SilenceRow, action: str, actor: str) -> None:
    services = services_of(request)

    def work(connection: Connection) -> None:
        others = silences(connection, ending_after_ns=time.time_ns())
        check_room(silence_of(row), [silence_of(other) for other in others])
        put_silence(connection, row)
        details = {"matchers": row.matchers, "ends_ms": row.ends_ns / 1e6, "reason": row.reason}
        audit.note(connection, time.time_ns(), actor, action, row.id, details)

    await asyncio.wrap_future(services.writer.call(partial(work)))
    services.delivery.wake()
    services.live.changed("silences")


def _row(wanted: NewSilence, silence_id: str, author: str, created_ns: int) -> SilenceRow:
    matchers = [str(each) for each in read_matchers(wanted.matchers)]
    starts_ms = created_ns / 1e6 if wanted.starts_ms is None else wanted.starts_ms
    if not 0 <= starts_ms < wanted.ends_ms <= starts_ms + LONGEST_MS:
        expected = "a time after starts_ms and at most a year later (Unix ms)"
        raise Problem(422, subject="ends_ms", expected=expected, got=wanted.ends_ms)
    starts_ns, ends_ns = int(starts_ms * 1e6), int(wanted.ends_ms * 1e6)
    return SilenceRow(silence_id, matchers, starts_ns, ends_ns, author, wanted.reason, created_ns)


def _unknown(silence_id: str) -> Problem:
    return Problem(404, subject="silence", expected="the id of a silence", got=silence_id)
