"""Prometheus Alertmanager, API v2: push alerts while they fire, and once more when they are resolved.

An alert that was firing when its run ended did not resolve: it is pushed as firing until it is acknowledged.

Alertmanager drops an alert at its ``endsAt``. Each push extends it by a few minutes, as Prometheus does. If
tocsin stops, its alerts therefore end, and so does the always-firing ``Watchdog``.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Mapping
from typing import Any

from tocsin_server.notify import http
from tocsin_server.notify.channel import Field, Kind, Sending, Values
from tocsin_server.notify.channels.webhook import check_url
from tocsin_server.notify.labels import RoutedAlert
from tocsin_server.notify.links import page
from tocsin_server.notify.message import Message, line

PATH = "/api/v2/alerts"
PUSH_S = 30.0
"""Interval of pushing all firing alerts."""
LASTS_S = 240.0
"""How long an alert lasts in Alertmanager after the last push."""
WATCHDOG = {"alertname": "Watchdog", "severity": "none", "service": "tocsin"}


def check(values: Values, private: bool) -> None:
    """Check the settings. Raises FieldError."""
    check_url(values["url"], private)


def alert_of(routed: RoutedAlert, base: str, now_s: float, *, marked_over: bool = False) -> dict[str, Any]:
    """Return an alert in Alertmanager's format."""
    alert = routed.alert
    labels = {name: value for name, value in routed.labels.items() if value}
    over = routed.over and not (routed.ended and not routed.acked)
    ends_s = (alert.resolved_ns or 0) / 1e9 if over else now_s if marked_over else now_s + LASTS_S
    row = {"run_id": alert.run_id, "id": alert.id, "onset_step": alert.onset_step}
    return {
        "labels": {_name(name): line(value) for name, value in labels.items()} | {"alertname": alert.rule},
        "annotations": {"summary": line(alert.summary), "cause": line(alert.diagnosis.cause)},
        "startsAt": _time((alert.fired_ns or alert.onset_ns) / 1e9),
        "endsAt": _time(ends_s),
        "generatorURL": page(base, row),
    }


def watchdog(base: str, started_s: float, now_s: float) -> dict[str, Any]:
    """Return an alert that always fires: if it is missing, tocsin or its connection is down."""
    return {
        "labels": WATCHDOG,
        "annotations": {"summary": "tocsin is running. Notify someone if this alert is missing."},
        "startsAt": _time(started_s),
        "endsAt": _time(now_s + LASTS_S),
        "generatorURL": base,
    }


def push(values: Values, alerts: Iterable[Mapping[str, Any]], sending: Sending) -> str:
    """Send alerts. Raises DeliveryError."""
    body = json.dumps(list(alerts)).encode()
    headers = {"Content-Type": "application/json"}
    if values.get("authorization"):
        headers["Authorization"] = values["authorization"]
    url = values["url"].rstrip("/") + PATH
    return http.check(http.send(url, body, headers, timeout_s=sending.timeout_s, private=sending.private))


def send(values: Values, message: Message, sending: Sending) -> str:
    """Push the watchdog as a test. Raises DeliveryError."""
    return push(values, [watchdog(sending.public_url, sending.now_s, sending.now_s)], sending)


def _time(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds, tz=dt.UTC).isoformat(timespec="milliseconds")


def _name(label: str) -> str:
    """Return a valid Prometheus label name: letters, digits and underscores."""
    return "".join(each if each.isascii() and (each.isalnum() or each == "_") else "_" for each in label)


KIND = Kind(
    "alertmanager",
    "Prometheus Alertmanager",
    (
        Field("url", "the address of Alertmanager as http://alertmanager:9093"),
        Field("authorization", "the Authorization header, such as Bearer ...", True, False, header=True),
    ),
    check,
    send,
)
