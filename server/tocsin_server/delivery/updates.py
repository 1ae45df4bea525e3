"""Keep one message per incident up to date in channels that can change or continue a sent message.

The receipt of a message is stored with its notification, in the commit that marks it as sent. It is used by
the next notification of the same group about the same incident. Without a receipt, a new message is sent.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Iterable
from dataclasses import replace

from tocsin_server.core.causal_order import by_cause
from tocsin_server.core.models import AlertState
from tocsin_server.delivery.payload import body_of, every, title_of
from tocsin_server.delivery.router import key_of, routed_alerts_of
from tocsin_server.notify.channel import Sending
from tocsin_server.notify.channels import kinds
from tocsin_server.notify.grouping import Batch, incident_of
from tocsin_server.notify.labels import RoutedAlert
from tocsin_server.store import alert_groups, notification_config, outbox
from tocsin_server.store.acks import Ack, Key, acks_in_force
from tocsin_server.store.alert_groups import GroupRow
from tocsin_server.store.alert_rows import alert_key
from tocsin_server.store.connection import Connection
from tocsin_server.store.damage import Damaged
from tocsin_server.store.incident_rows import incident_ids
from tocsin_server.store.outage import is_outage
from tocsin_server.store.outbox import Notification

log = logging.getLogger("tocsin.notify")


def continued(connection: Connection, item: Notification, sending: Sending) -> Sending:
    """Return ``sending`` with the incident of a notification and the receipt of its last message."""
    incident = item.body.get("incident", "")
    if not incident:
        return sending
    before = [
        one
        for one in outbox.latest(connection, item.channel_id, _runs(item), [outbox.SENT], item.group_id)
        if one.id != item.id and not isinstance(one.body, Damaged) and one.body.get("incident") == incident
    ]
    outdated = any(one.id > item.id for one in before)
    receipts = [one.body[outbox.RECEIPT] for one in before if one.body.get(outbox.RECEIPT)]
    # An outdated text, which is sent again by hand, must not replace a newer one.
    receipt = None if outdated else next(iter(receipts), None)
    name = hashlib.sha256(f"{item.group_id}\0{incident}".encode("utf-8", "replace")).hexdigest()[:32]
    quiet = item.kind == outbox.UPDATE
    return replace(sending, thread=name, receipt=receipt, quiet=quiet, outdated=outdated)


def _runs(item: Notification) -> set[str]:
    return {alert["run_id"] for alert in item.body["alerts"]}


def show_acknowledged(connection: Connection, keys: Iterable[Key]) -> None:
    """Enqueue an update of each message about the incidents of these alerts, after an acknowledgement.

    It shares the transaction of the acknowledgement, which is stored even if this fails.
    """
    try:
        with connection.begin_nested():
            _show(connection, set(keys))
    except Exception as error:
        if is_outage(error):
            raise
        log.exception("messages do not show an acknowledgement")


def _show(connection: Connection, keys: set[Key]) -> None:
    able = {name for name, kind in kinds().items() if kind.updates}
    channels = [row for row in notification_config.channels(connection) if row.enabled and row.kind in able]
    if not channels or not keys:
        return
    runs = {key[0] for key in keys}
    acks = acks_in_force(connection, runs)
    incidents = incident_ids(connection, keys)
    ack = max((acks[key] for key in keys if key in acks), key=lambda one: one.at_ns, default=None)
    for channel in channels:
        states = (outbox.SENT, outbox.WAITING, outbox.CLAIMED)
        shown: set[tuple[str, str]] = set()
        for item in outbox.latest(connection, channel.id, runs, states):
            name = "" if isinstance(item.body, Damaged) else item.body.get("incident", "")
            if name in incidents and (item.group_id, name) not in shown:
                shown.add((item.group_id, name))
                _update(connection, item, name, ack)


def _update(connection: Connection, item: Notification, incident: str, ack: Ack | None) -> None:
    """Enqueue the current state of an incident in a group, whose newest notification is ``item``."""
    reported = {key for alert in item.body["alerts"] if (key := alert_key(alert["id"])) is not None}
    group = alert_groups.groups_to_look_at(connection, [item.group_id], 0).get(item.group_id)
    keys = reported | set(group.members if group is not None else ())
    acks = acks_in_force(connection, {key[0] for key in keys})
    found = routed_alerts_of(alert_groups.known_alerts(connection, keys), acks)
    mine = {name: each for name, each in found.items() if _belongs(each, incident, reported)}
    if not mine:
        return
    names = [alert.id for alert in by_cause(each.alert for each in mine.values())]
    over = tuple(name for name in names if mine[name].over)
    firing = tuple(name for name in names if not mine[name].over)
    batch = Batch("acknowledged" if ack else "unacknowledged", firing, over, ())
    labels, now_ns = item.body["group_labels"], time.time_ns()
    row = GroupRow(item.group_id, "alerts", item.body["route"], item.channel_id, labels, now_ns, None, None)
    person = {} if ack is None else {"acked_by": ack.actor, "note": ack.note}
    update = Notification(
        id=outbox.new_id(now_ns),
        channel_id=item.channel_id,
        group_id=item.group_id,
        kind=outbox.UPDATE,
        title=title_of(batch, mine),
        body=body_of(row, batch, mine, incident) | person,
        created_ns=now_ns,
        due_ns=now_ns,
    )
    states = [(key_of(name), mine[name].alert.state.value) for name in every(batch, mine)]
    outbox.enqueue(connection, update, states)


def _belongs(routed: RoutedAlert, incident: str, reported: set[Key]) -> bool:
    """Return whether the message about an incident includes an alert: it named it, or the alert fires."""
    shown = not routed.over and routed.alert.state is not AlertState.PENDING
    return incident_of(routed) == incident and (shown or key_of(routed.alert.id) in reported)
