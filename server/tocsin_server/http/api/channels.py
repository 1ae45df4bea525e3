"""``/channels``: notification channels. Secrets are never shown again, not even to admins."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field, StringConstraints
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from tocsin_server.core.errors import FieldError
from tocsin_server.core.responses import ExactJSON, Problem, shortened
from tocsin_server.delivery.service import FAILED_NS
from tocsin_server.http.api.deletion import actor_of
from tocsin_server.http.api.permission import Admin, Reader
from tocsin_server.http.api.query import one_of
from tocsin_server.http.api.resource import Body, resource
from tocsin_server.http.api.shapes import row_of
from tocsin_server.http.services import Services, services_of
from tocsin_server.notify.channel import Kind, masked, scrubbed
from tocsin_server.notify.channels import kinds
from tocsin_server.notify.outcome import DeliveryError
from tocsin_server.store import alert_groups, audit, notification_config
from tocsin_server.store.connection import Connection, IntegrityError
from tocsin_server.store.notification_config import ChannelRow
from tocsin_server.store.outbox import UNKNOWN, Standing, standings

router = resource("channels")

Name = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=100, pattern=r"^[^*]+$")
]


class NewChannel(Body):
    """A channel to create. ``config`` holds the fields of its kind; ``limit_per_hour`` 0 means no limit."""

    name: Name
    kind: str = Field(json_schema_extra={"enum": [*kinds()]})
    enabled: bool = True
    limit_per_hour: int = Field(60, ge=0, le=100_000)
    config: dict[str, Any] = Field({})


class ChangedChannel(Body):
    """The fields to change. A secret in ``config`` that is omitted or ``***`` stays unchanged."""

    name: Name | None = None
    enabled: bool | None = None
    limit_per_hour: int | None = Field(None, ge=0, le=100_000)
    config: dict[str, Any] | None = None


class ChannelItem(TypedDict):
    """A channel; secrets are ``***``. ``trouble`` is the latest error if no delivery succeeded since, else
    empty.
    """

    id: str
    name: str
    kind: str
    enabled: bool
    limit_per_hour: int
    config: dict[str, Any]
    created_ms: float
    updated_ms: float
    last_sent_ms: float | None
    trouble: str


class KindField(TypedDict):
    """A field of a channel's ``config``."""

    name: str
    help: str
    secret: bool
    required: bool


class KindItem(TypedDict):
    """A kind of channel and its fields."""

    id: str
    title: str
    fields: list[KindField]


class ChannelList(TypedDict):
    """Channels, oldest first, and the available kinds."""

    items: list[ChannelItem]
    kinds: list[KindItem]


class TryAnswer(TypedDict):
    """The result of a test: the response of the receiver, or why it failed."""

    ok: bool
    detail: str


def channel_item(row: ChannelRow, standing: Standing = UNKNOWN) -> dict[str, Any]:
    """Return a channel as the API shows it."""
    return row_of(
        ChannelItem,
        row,
        config=masked(kinds().get(row.kind), row.config, row.secret),
        last_sent_ms=None if standing.sent_ns is None else standing.sent_ns / 1e6,
        trouble=standing.error,
    )


def kind_item(kind: Kind) -> dict[str, Any]:
    """Return a kind as the API shows it."""
    fields = [
        {"name": field.name, "help": field.help, "secret": field.secret, "required": field.required}
        for field in kind.fields
    ]
    return {"id": kind.id, "title": kind.title, "fields": fields}


@router.get("/channels", response_model=ChannelList)
def list_channels(request: Request, _identity: Reader) -> ExactJSON:
    """List all channels and the available kinds."""
    services = services_of(request)
    with services.database.reader.connect() as connection:
        rows = notification_config.channels(connection)
        known = standings(connection, time.time_ns() - FAILED_NS)
    pushed = services.delivery.push_error
    reported = {row.id: known.get(row.id) or Standing(error=pushed(row.name)) for row in rows}
    return ExactJSON(
        {
            "items": [channel_item(row, reported[row.id]) for row in rows],
            "kinds": [kind_item(kind) for kind in kinds().values()],
        }
    )


@router.post("/channels", response_model=ChannelItem, status_code=201)
async def create_channel(request: Request, wanted: NewChannel, identity: Admin) -> ExactJSON:
    """Create a channel. Nothing is sent to it until an alert is routed there or a test is requested."""
    services, now_ns = services_of(request), time.time_ns()
    config, secret = await _read(services, wanted.kind, wanted.config, {})
    row = ChannelRow(
        id=f"c_{secrets.token_hex(6)}",
        **wanted.model_dump(exclude={"config"}),
        config=config,
        secret=secret,
        created_ns=now_ns,
        updated_ns=now_ns,
    )
    await _store(services, row, "channel.create", actor_of(identity))
    return ExactJSON(channel_item(row), status_code=201)


@router.patch("/channels/{channel_id}", response_model=ChannelItem)
async def change_channel(
    request: Request, channel_id: str, wanted: ChangedChannel, identity: Admin
) -> ExactJSON:
    """Change a channel. Queued notifications are sent with the new settings."""
    services = services_of(request)
    before = await asyncio.to_thread(_known, services, channel_id)
    reported = wanted.model_dump(exclude_none=True, exclude={"config"})
    row = replace(before, **reported, updated_ns=time.time_ns())
    if wanted.config is not None:
        given = {**before.config, **wanted.config}
        config, secret = await _read(services, before.kind, given, before.secret)
        row = replace(row, config=config, secret=secret)
    await _store(services, row, "channel.change", actor_of(identity))
    return ExactJSON(channel_item(row))


@router.delete("/channels/{channel_id}", status_code=204, response_class=Response)
async def delete_channel(request: Request, channel_id: str, identity: Admin) -> Response:
    """Delete a channel. Its queued notifications are not sent."""
    services = services_of(request)

    def work(connection: Connection) -> bool:
        before = notification_config.read_channel(connection, channel_id)
        if before is None:
            return False
        details = {"name": before.name, "kind": before.kind}
        audit.note(connection, time.time_ns(), actor_of(identity), "channel.delete", channel_id, details)
        return notification_config.delete_channel(connection, channel_id)

    if not await asyncio.wrap_future(services.writer.call(work)):
        raise _unknown(channel_id)
    services.delivery.wake()
    services.live.changed("channels")
    return Response(status_code=204, headers={"cache-control": "no-store"})


@router.post("/channels/{channel_id}/test", response_model=TryAnswer)
async def try_channel(request: Request, channel_id: str, _identity: Admin) -> ExactJSON:
    """Send a test notification now and return the result."""
    services = services_of(request)
    row = await asyncio.to_thread(_known, services, channel_id)
    try:
        return ExactJSON({"ok": True, "detail": await services.delivery.test(row)})
    except DeliveryError as error:
        return ExactJSON({"ok": False, "detail": error.detail})


async def _read(
    services: Services, kind_id: str, given: Mapping[str, Any], before: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Check the settings of a channel.

    Raises:
        Problem: 422 for invalid settings; it never repeats a secret.
    """
    kind = kinds().get(kind_id)
    if kind is None:
        raise Problem(422, subject="kind", expected=one_of(kinds()), got=kind_id)
    private = services.settings.notify_private_addresses
    try:
        return await asyncio.to_thread(kind.read, given, before, private=private)
    except FieldError as error:
        hidden = {field.name: given.get(field.name, "") for field in kind.fields if field.secret}
        got = scrubbed(str(error.got), hidden)
        raise Problem(422, subject=error.field, expected=error.expected, got=got) from None
    except DeliveryError as error:
        detail = f"The channel cannot be checked: {error.detail}"
        raise Problem(
            422, subject="config", expected="a channel that can be checked", got=error.detail, detail=detail
        ) from None


async def _store(services: Services, row: ChannelRow, action: str, actor: str) -> None:
    def work(connection: Connection) -> None:
        before = notification_config.read_channel(connection, row.id)
        notification_config.put_channel(connection, row)
        if row.enabled and (before is None or not before.enabled):
            alert_groups.route_again(connection)
        details = {"name": row.name, "kind": row.kind, "changed": _changed(before, row)}
        audit.note(connection, row.updated_ns, actor, action, row.id, details)

    try:
        await asyncio.wrap_future(services.writer.call(work))
    except IntegrityError as error:
        detail = f"Another channel is already called {shortened(row.name)}. Choose another name."
        raise Problem(422, subject="name", expected="an unused name", got=row.name, detail=detail) from error
    services.delivery.wake()
    services.live.changed("channels")


def _changed(before: ChannelRow | None, row: ChannelRow) -> list[str]:
    """Return the names of changed fields; secrets by name only."""
    if before is None:
        return []
    own = [
        name for name in ("name", "enabled", "limit_per_hour") if getattr(before, name) != getattr(row, name)
    ]
    old, new = {**before.config, **before.secret}, {**row.config, **row.secret}
    return own + sorted(
        f"config.{name}" for name in old.keys() | new.keys() if old.get(name) != new.get(name)
    )


def _known(services: Services, channel_id: str) -> ChannelRow:
    with services.database.reader.connect() as connection:
        row = notification_config.read_channel(connection, channel_id)
    if row is None:
        raise _unknown(channel_id)
    return row


def _unknown(channel_id: str) -> Problem:
    return Problem(404, subject="channel", expected="the id of a channel", got=channel_id)
