"""``/push``: browsers that are subscribed to web push. Addresses and keys of browsers are never shown."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field, StringConstraints
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from tocsin_server.core.permissions import Identity, Scope
from tocsin_server.core.responses import ExactJSON, Problem
from tocsin_server.http.api.channels import TryAnswer
from tocsin_server.http.api.permission import Reader
from tocsin_server.http.api.resource import Body, resource
from tocsin_server.http.api.shapes import row_of
from tocsin_server.http.services import Services, services_of
from tocsin_server.notify import http
from tocsin_server.notify.address import AddressError, UnresolvedError, checked
from tocsin_server.notify.outcome import DeliveryError
from tocsin_server.notify.web_push import read_auth, read_public_key
from tocsin_server.store import notification_config, push_subscriptions
from tocsin_server.store.connection import Connection
from tocsin_server.store.push_subscriptions import SubscriptionRow

router = resource("push")

LONGEST = 2000
CONFIRMED_NS = 3600 * 10**9
"""How often a page that is opened updates when its browser's subscription was confirmed."""
Text = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST)]


class Keys(Body):
    """Keys of the browser, as base64url."""

    p256dh: Text
    auth: Text


class NewSubscription(Body):
    """What ``PushSubscription.toJSON()`` of the browser returns, and a name to recognize the browser by."""

    endpoint: Text
    keys: Keys
    name: Annotated[str, StringConstraints(strip_whitespace=True, max_length=100)] = Field("")


class SubscriptionItem(TypedDict):
    """A subscribed browser; ``confirmed_ms``: when its pages were last opened."""

    id: str
    name: str
    by: str
    created_ms: float
    confirmed_ms: float


class PushStatus(TypedDict):
    """``key``: the ``applicationServerKey``. ``channels``: names of the enabled channels that push."""

    key: str
    channels: list[str]
    items: list[SubscriptionItem]


def subscription_item(row: SubscriptionRow) -> dict[str, Any]:
    """Return a subscription as the API shows it."""
    return row_of(SubscriptionItem, row, by=row.token_name)


@router.get("/push", response_model=PushStatus)
def status(request: Request, _identity: Reader) -> ExactJSON:
    """Return the key for subscribing, the channels that push, and the subscribed browsers."""
    services = services_of(request)
    push = services.delivery.push
    with services.database.reader.connect() as connection:
        rows = notification_config.channels(connection)
    names = [row.name for row in rows if row.kind == "push" and row.enabled]
    items = [subscription_item(row) for row in push.active()]
    return ExactJSON({"key": push.key().public, "channels": names, "items": items})


@router.put("/push/subscriptions", response_model=SubscriptionItem)
def subscribe(request: Request, wanted: NewSubscription, identity: Reader) -> ExactJSON:
    """Subscribe a browser until its login ends, or confirm that it is subscribed."""
    services, now_ns = services_of(request), time.time_ns()
    _check(services, wanted)
    session = identity.session
    row = SubscriptionRow(
        endpoint=wanted.endpoint,
        public_key=wanted.keys.p256dh,
        auth=wanted.keys.auth,
        name=wanted.name,
        token_id=identity.token_id,
        token_name=identity.name,
        digest=identity.digest,
        session=None if session is None else [session.id, session.begun_s, session.expires_s],
        created_ns=now_ns,
        confirmed_ns=now_ns,
    )
    services.writer.call(lambda connection: _put(services, connection, row)).result()
    return ExactJSON(subscription_item(row))


@router.delete("/push/subscriptions/{subscription_id}", status_code=204, response_class=Response)
def unsubscribe(request: Request, subscription_id: str, identity: Reader) -> Response:
    """Unsubscribe a browser that the caller subscribed; admins can unsubscribe any."""
    services = services_of(request)
    _own(services, subscription_id, identity)
    services.writer.call(
        lambda connection: push_subscriptions.remove_subscriptions(connection, [subscription_id])
    ).result()
    return Response(status_code=204, headers={"cache-control": "no-store"})


@router.post("/push/subscriptions/{subscription_id}/test", response_model=TryAnswer)
async def test(request: Request, subscription_id: str, identity: Reader) -> ExactJSON:
    """Send a test to a browser that the caller subscribed, and return the result."""
    services = services_of(request)
    await asyncio.to_thread(_own, services, subscription_id, identity)
    try:
        return ExactJSON({"ok": True, "detail": await services.delivery.test_push(subscription_id)})
    except DeliveryError as error:
        return ExactJSON({"ok": False, "detail": error.detail})


def _check(services: Services, wanted: NewSubscription) -> None:
    """Raise a 422 if the address may not be called or a key is invalid; it never repeats them."""
    for name, read, expected in (
        ("p256dh", read_public_key, "a point of the curve P-256 as base64url"),
        ("auth", read_auth, "16 bytes as base64url"),
    ):
        try:
            read(getattr(wanted.keys, name))
        except ValueError as error:
            raise Problem(422, subject=f"keys.{name}", expected=expected, got=str(error)) from None
    private = services.settings.notify_private_addresses
    try:
        parts = http.split(wanted.endpoint)
        if parts.scheme != "https" and not private:
            raise ValueError("an address that begins with https://")
        checked(str(parts.hostname), parts.port or 443, private=private)
    except ValueError as error:
        raise Problem(422, subject="endpoint", expected=str(error), got="another address") from None
    except UnresolvedError:
        return
    except AddressError as error:
        expected = "a host outside the server's own network"
        raise Problem(422, subject="endpoint", expected=expected, got=str(error)) from None


def _put(services: Services, connection: Connection, row: SubscriptionRow) -> None:
    """Store a subscription and delete those whose login ended. Raises a 422 if there is no room."""
    known = push_subscriptions.subscriptions(connection)
    if any(_is_confirmed(each, row) for each in known):
        return
    others = [each for each in known if each.id != row.id]
    ended = [each.id for each in others if not services.gate.still_valid(each.identity)]
    mine = [each for each in others if each.token_id == row.token_id and each.id not in ended]
    most = push_subscriptions.MOST_PER_TOKEN
    if len(others) - len(ended) >= push_subscriptions.MOST or len(mine) >= most:
        detail = "Too many browsers are subscribed. Unsubscribe one that is no longer used."
        raise Problem(422, subject="subscriptions", expected="room for another browser", detail=detail)
    push_subscriptions.remove_subscriptions(connection, ended)
    push_subscriptions.put_subscription(connection, row)


def _is_confirmed(known: SubscriptionRow, row: SubscriptionRow) -> bool:
    """Return whether the same subscription was stored lately, so that opening a page writes nothing."""
    same = replace(row, created_ns=known.created_ns, confirmed_ns=known.confirmed_ns) == known
    return same and row.confirmed_ns - known.confirmed_ns < CONFIRMED_NS


def _own(services: Services, subscription_id: str, identity: Identity) -> SubscriptionRow:
    """Return a subscription of the caller. Raises a 404, or a 403 for that of another token."""
    with services.database.reader.connect() as connection:
        rows = push_subscriptions.subscriptions(connection)
    row = next((each for each in rows if each.id == subscription_id), None)
    if row is None:
        expected = "the id of a subscription"
        raise Problem(404, subject="subscription", expected=expected, got=subscription_id)
    if row.token_id != identity.token_id and not identity.may(Scope.ADMIN):
        detail = "Another user subscribed this browser. Only that user or an admin can do this."
        raise Problem(403, subject="subscription", expected="a browser that you subscribed", detail=detail)
    return row
