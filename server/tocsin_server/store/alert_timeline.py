"""Read the timeline of an alert or an incident: transitions, acknowledgements, notifications, attempts."""

from __future__ import annotations

from typing import Any

from tocsin_server.core.incidents import Incident
from tocsin_server.core.models import AlertState
from tocsin_server.store import notification_config, outbox
from tocsin_server.store.acks import Key, acks_of
from tocsin_server.store.alert_rows import read_history, turns
from tocsin_server.store.connection import Connection


def timeline_of(connection: Connection, alert_id: str, key: Key) -> list[dict[str, Any]]:
    """Return the timeline of an alert, oldest entry first."""
    steps = read_history(connection, alert_id)
    lines = [_line("transition", step.at_ns, step.summary, step.state) for step in steps]
    if steps:
        over = (AlertState.RESOLVED, AlertState.ENDED)
        over_ns = next((step.at_ns for step in steps if step.state in over), None)
        lines += [_line("run", *turn, "") for turn in turns(connection, key[0], steps[0].at_ns, over_ns)]
    for ack in acks_of(connection, key):
        lines.append(_line("unack" if ack.undone else "ack", ack.at_ns, ack.note, "", ack.actor))
    names = {row.id: row.name for row in notification_config.channels(connection)}
    for item, reported in outbox.notifications_about(connection, key):
        if item.kind == outbox.UPDATE:  # it was no notification
            continue
        text = f"{reported}: {names.get(item.channel_id, 'a deleted channel')}" + (
            f" ({item.error})" if item.error else ""
        )
        lines.append(_line("notification", item.sent_ns or item.created_ns, text, item.state))
    return sorted(lines, key=lambda line: line["at_ms"])


def incident_timeline(connection: Connection, incident: Incident) -> list[dict[str, Any]]:
    """Return the timeline of an incident: the entries of its alerts, each once, oldest first.

    ``alert`` and ``rule`` of an entry are those of a transition, else "".
    """
    lines: dict[tuple[Any, ...], dict[str, Any]] = {}
    for alert in incident.alerts:
        for line in timeline_of(connection, alert.id, (alert.run_id, alert.fingerprint, alert.episode)):
            own = line["kind"] == "transition"
            about = {"alert": alert.id, "rule": alert.rule} if own else {"alert": "", "rule": ""}
            key = (about["alert"], *(line[name] for name in ("kind", "at_ms", "text", "state", "by")))
            lines.setdefault(key, line | about)
    return sorted(lines.values(), key=lambda line: line["at_ms"])


def _line(kind: str, at_ns: int, text: str, state: str, by: str = "") -> dict[str, Any]:
    return {"kind": kind, "at_ms": at_ns / 1e6, "text": text, "state": state, "by": by}
