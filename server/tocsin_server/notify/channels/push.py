"""Web push: notifications of the browsers that users subscribed in Settings, with no page open.

One notification per incident: it names the incident as its tag, so that a browser replaces it when the
incident gets worse or ends. A subscription that the push service no longer knows is deleted.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from tocsin_server.notify import http, links
from tocsin_server.notify.channel import Kind, Sending, Values
from tocsin_server.notify.message import (
    Message,
    first_remedy,
    last_checkpoint,
    likely_cause,
    preface,
    what,
)
from tocsin_server.notify.outcome import DeliveryError, Sent
from tocsin_server.notify.web_push import MOST_PLAIN, PushTargets, Subscription, encrypt

PROJECT = "https://github.com/tocsin-ml/tocsin"
"""Contact for push services if the server has no public HTTPS address."""
AT_ONCE = 16
KEPT_S = 24 * 3600
"""How long a push service keeps a message for a browser that is offline."""
TEST_KEPT_S = 60
LEAST_S = 1.0
"""Least time that is left to contact a push service; otherwise the next attempt does."""
UNKNOWN = (404, 410)
"""Status codes of a push service for a subscription that has ended."""
NAMED = 3
"""Number of failures that are described; the others are counted."""


def check(values: Values, private: bool) -> None:
    """Accept any settings: the browsers are those that users subscribed."""


def send(values: Values, message: Message, sending: Sending) -> Sent:
    """Send a message to every subscribed browser that does not have it yet. Raises DeliveryError."""
    targets = sending.push
    if targets is None or not targets.subscriptions:
        if message.kind != "test":
            return Sent("no browser is subscribed")
        raise DeliveryError("No browser is subscribed. Subscribe one in Settings.", permanent=True)
    before = frozenset(sending.partial.get("sent", ()))
    body = payload(message, sending, targets.open_incidents)
    ends = time.monotonic() + sending.timeout_s
    wanted = [each for each in targets.subscriptions if each.id not in before]
    found = _in_threads(lambda each: _outcome(each, body, message, sending, targets, ends), wanted)
    sent = sorted(before | {each.id for each, error in found if error is None})
    return _result(sent, [(each, error) for each, error in found if error is not None])


def _in_threads(
    work: Callable[[Subscription], DeliveryError | None], wanted: Iterable[Subscription]
) -> list[tuple[Subscription, DeliveryError | None]]:
    """Return each subscription with the result of ``work``, in order.

    The threads are daemons: one that hangs must not delay the end of the process.
    """
    waiting = deque(wanted)
    found: dict[Subscription, DeliveryError | None] = dict.fromkeys(
        waiting, DeliveryError("the attempt failed; see the server log")
    )

    def run() -> None:
        while True:
            try:
                each = waiting.popleft()
            except IndexError:
                return
            found[each] = work(each)

    count = min(AT_ONCE, len(waiting))
    threads = [threading.Thread(target=run, name="tocsin-push", daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return list(found.items())


def _result(sent: list[str], failed: list[tuple[Subscription, DeliveryError]]) -> Sent:
    """Return that it was sent, if no other attempt is needed. Raises DeliveryError."""
    receipt = {"sent": sent}
    parts = [f"sent to {len(sent)} browser{'' if len(sent) == 1 else 's'}"]
    parts += [f"{each.host}: {error.detail}" for each, error in failed[:NAMED]]
    parts += [f"and {len(failed) - NAMED} more failed"] if len(failed) > NAMED else []
    detail = "; ".join(parts)
    later = [error for _, error in failed if not error.permanent]
    if later:
        after = max((error.retry_after_s or 0 for error in later), default=0)
        raise DeliveryError(detail, retry_after_s=after or None, receipt=receipt)
    if failed and not sent:
        raise DeliveryError(detail, permanent=True)
    return Sent(detail, receipt)


def _outcome(
    subscription: Subscription,
    body: bytes,
    message: Message,
    sending: Sending,
    targets: PushTargets,
    ends: float,
) -> DeliveryError | None:
    """Send to one browser; return why that failed, or None."""
    left_s = ends - time.monotonic()
    if left_s < LEAST_S:
        return DeliveryError("not contacted in time")
    test = message.kind == "test"
    headers = {
        "Authorization": targets.key.authorization(subscription.endpoint, _contact(sending), sending.now_s),
        "Content-Encoding": "aes128gcm",
        "Content-Type": "application/octet-stream",
        "TTL": str(TEST_KEPT_S if test else KEPT_S),
        "Urgency": "high" if test or message.status != "resolved" else "normal",
    }
    if sending.thread:  # the push service keeps only the newest message about an incident
        headers["Topic"] = sending.thread
    try:
        answer = http.send(
            subscription.endpoint,
            encrypt(body, subscription),
            headers,
            timeout_s=left_s,
            private=sending.private,
        )
        if answer.status in UNKNOWN:
            targets.forget(subscription.id)
            return DeliveryError("the browser is no longer subscribed", permanent=True)
        http.check(answer)
    except DeliveryError as error:
        return error
    return None


def _contact(sending: Sending) -> str:
    return sending.public_url if sending.public_url.startswith("https://") else PROJECT


def payload(message: Message, sending: Sending, open_incidents: int) -> bytes:
    """Return the message for the service worker: web/service-worker.js. It is at most MOST_PLAIN bytes."""
    alerts = message.body["alerts"]
    first: Mapping[str, Any] = alerts[0] if alerts else {}
    incident = message.body.get("incident", "")
    found = {
        "title": message.title,
        "body": "",
        "tag": incident or message.id,
        "path": _path(message, first, incident),
        "status": message.status,
        "open": open_incidents,
        "ack": urlsplit(first.get("ack_link", "")).query if incident else "",
    }
    lines = preface(message.kind, message.body)
    if first:
        lines += [what(first)]
        lines += _labelled("Likely cause", likely_cause(first))
        lines += _labelled("First action", first_remedy(first))
        lines += _labelled("Last good checkpoint", last_checkpoint(first))
    return _fitting(found, "\n".join(lines))


def _labelled(label: str, text: str) -> list[str]:
    return [f"{label}: {text}"] if text else []


def _path(message: Message, first: Mapping[str, Any], incident: str) -> str:
    if incident:
        return links.page("", first)
    return "/settings" if message.kind == "test" else "/alerts"


def _fitting(found: dict[str, Any], body: str) -> bytes:
    """Return the message with as much of the body as it has room for."""
    while True:
        written = json.dumps({**found, "body": body}, ensure_ascii=False).encode("utf-8", "replace")
        if len(written) <= MOST_PLAIN:
            return written
        if not body:
            found = {**found, "title": found["title"][: len(found["title"]) // 2], "ack": ""}
        body = body[: len(body) * 3 // 4]


KIND = Kind("push", "Web push", (), check, send, per_incident=True, pushes=True)
