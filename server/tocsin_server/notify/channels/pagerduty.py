"""PagerDuty, Events API v2: one PagerDuty incident for each incident, triggered, acknowledged and resolved.

The deduplication key names the incident, so an event that is sent twice has no further effect. An incident
whose run ended broken stays open in PagerDuty until you resolve it there. PagerDuty cannot withdraw an
acknowledgement.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tocsin_server.notify import http
from tocsin_server.notify.channel import Field, Kind, Sending, Values, target_of
from tocsin_server.notify.channels.webhook import check_url
from tocsin_server.notify.message import (
    Message,
    first_remedy,
    last_checkpoint,
    likely_cause,
    preface,
    what,
)
from tocsin_server.notify.outcome import DeliveryError, Sent

API = "https://events.pagerduty.com"
TRIGGER, ACKNOWLEDGE, RESOLVE = "trigger", "acknowledge", "resolve"


def check(values: Values, private: bool) -> None:
    """Check the settings. Raises FieldError."""
    if values.get("url"):
        check_url(values["url"], private)


def send(values: Values, message: Message, sending: Sending) -> Sent:
    """Send the events that bring the incident in PagerDuty up to date. Raises DeliveryError."""
    target = target_of(values.get("url") or API, values["routing_key"])
    key = f"tocsin-{sending.thread or message.id}"
    actions = _actions(message, sending, target)
    for action in actions:
        _enqueue(values, sending, _event(values["routing_key"], key, action, message))
    if not actions:
        return Sent("PagerDuty is already up to date")
    return Sent(", ".join(actions), {"target": target} if sending.thread else None)


def _actions(message: Message, sending: Sending, target: str) -> tuple[str, ...]:
    if sending.quiet:
        acked = bool(message.body.get("acked_by")) and message.status != "resolved"
        return (ACKNOWLEDGE,) if acked and sending.known(target) is not None else ()
    if message.status != "resolved" and message.kind != "test":
        return (TRIGGER,)
    if sending.outdated:  # it may have fired again since
        return ()
    return (RESOLVE,) if sending.known(target) is not None else (TRIGGER, RESOLVE)


def _event(routing_key: str, key: str, action: str, message: Message) -> dict[str, Any]:
    """Return an event. Only a trigger describes the incident."""
    event: dict[str, Any] = {"routing_key": routing_key, "event_action": action, "dedup_key": key}
    if action != TRIGGER:
        return event
    alerts = message.body["alerts"]
    first: Mapping[str, Any] = alerts[0] if alerts else {}
    payload = {
        "summary": message.title,
        "source": first.get("run_name") or "tocsin",
        "severity": message.severity,
        "class": first.get("rule", ""),
        "group": first.get("project", ""),
        "custom_details": _details(message, first),
    }
    links = [
        {"href": alert[name], "text": label}
        for alert in alerts[:1]
        for name, label in (("link", "Open"), ("ack_link", "Acknowledge"), ("silence_link", "Silence"))
        if alert.get(name)
    ]
    return event | {"payload": payload, "links": links, "client": "tocsin"}


def _details(message: Message, alert: Mapping[str, Any]) -> dict[str, str]:
    note = " ".join(preface(message.kind, message.body))
    if not alert:
        return {"Note": note}
    found = {
        "Note": note,
        "What": what(alert),
        "Likely cause": likely_cause(alert),
        "First action": first_remedy(alert),
        "Last good checkpoint": last_checkpoint(alert),
    }
    return {name: text for name, text in found.items() if text}


def _enqueue(values: Values, sending: Sending, event: Mapping[str, Any]) -> None:
    url = f"{(values.get('url') or API).rstrip('/')}/v2/enqueue"
    headers, body = {"Content-Type": "application/json"}, json.dumps(event).encode()
    answer = http.send(url, body, headers, timeout_s=sending.timeout_s, private=sending.private)
    try:
        http.check(answer)
    except DeliveryError as error:
        found = http.json_of(answer).get("errors")
        why = "; ".join(map(str, found)) if isinstance(found, list) else ""
        detail = f"{error.detail}: {why}" if why else error.detail
        raise DeliveryError(detail, permanent=error.permanent, retry_after_s=error.retry_after_s) from None


KIND = Kind(
    "pagerduty",
    "PagerDuty (Events API v2)",
    (
        Field("routing_key", "the integration key of a service, for the Events API v2", True),
        Field("url", "https://events.eu.pagerduty.com for an account in the EU", required=False),
    ),
    check,
    send,
    per_incident=True,
    updates=True,
)
