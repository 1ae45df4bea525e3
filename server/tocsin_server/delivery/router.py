"""Run one routing pass: transitions update groups, and groups that are due become notifications.

A pass is one transaction. The inbox is the column ``routed_ns`` of the transitions themselves, which are
written with the records that caused them. If the server is killed before the commit, the transitions stay
unrouted; after the commit, the notifications are in the outbox. Marks (silenced, inhibited, muted) are
computed in every pass and never stored.

An alert that cannot be routed stays in the inbox and is retried. One that cannot be formatted is removed from
its group, so that the group's other alerts are notified. Both are reported as failing periodic work.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, lru_cache

from tocsin_server.core import exact_json
from tocsin_server.core.errors import FieldError
from tocsin_server.core.models import AlertState, Severity
from tocsin_server.delivery.payload import body_of, every, title_of
from tocsin_server.notify import grouping, hourly_limit
from tocsin_server.notify.channels import kinds
from tocsin_server.notify.grouping import Batch, Group
from tocsin_server.notify.inhibition import inhibited_by
from tocsin_server.notify.labels import NO_MARKS, Marks, NotifiedState, RoutedAlert
from tocsin_server.notify.matching import Matcher, parse_matchers
from tocsin_server.notify.routing import Route, Routing, channels_of, read_stored_routing
from tocsin_server.notify.silences import Silence, silenced_by
from tocsin_server.store import alert_groups, notification_config, outbox
from tocsin_server.store.acks import Key, acks_in_force
from tocsin_server.store.alert_groups import GroupRow, Known
from tocsin_server.store.alert_rows import alert_key
from tocsin_server.store.connection import Connection, SQLAlchemyError
from tocsin_server.store.incident_rows import notified_severities
from tocsin_server.store.notification_config import ChannelRow, SilenceRow
from tocsin_server.store.outage import is_outage
from tocsin_server.store.outbox import Notification
from tocsin_server.store.periodic_jobs import PeriodicJob as Work

log = logging.getLogger("tocsin.notify")

NAME = "routing"
LATER_NS = 60_000_000_000
"""A group that fails is retried after this long."""
MIRRORED = "alertmanager"
"""Channels of this kind are kept up to date by ``alertmanager_sync``, not by notifications."""


def routing_of(connection: Connection) -> Routing:
    """Return the current routing document, or the default if none is stored."""
    body = notification_config.read_choice(connection, notification_config.ROUTING)
    routing = Routing() if body is None else read_stored_routing(body)
    for one in routing.unread:
        _warn_once(f"A part of the stored routes is ignored: {one.error}"[:1000])
    return routing


def silence_of(row: SilenceRow) -> Silence:
    """Return a stored silence for routing. One that cannot be read has no matchers and a ``problem``."""
    matchers: tuple[Matcher, ...] = ()
    problem = ""
    try:
        matchers = parse_matchers(row.matchers, "matchers", least=1)
    except FieldError as error:
        problem = str(error)
        _warn_once(f"Silence {row.id} is ignored: {problem}"[:1000])
    return Silence(
        row.id, matchers, row.starts_ns, row.ends_ns, row.author, row.reason, row.created_ns, problem
    )


def report_unread(connection: Connection, now_ns: int) -> None:
    """Log the stored routes and silences that cannot be read."""
    routing_of(connection)
    for row in notification_config.silences(connection, ending_after_ns=now_ns):
        silence_of(row)


@lru_cache(maxsize=1_000)
def _warn_once(sentence: str) -> None:
    """Log each message once, not in every pass."""
    log.warning("%s", sentence)


def routed_alerts_of(known: Mapping[Key, Known], acked: Iterable[Key]) -> dict[str, RoutedAlert]:
    """Return the routing data of alerts by id."""
    taken = set(acked)
    return {
        one.alert.id: RoutedAlert(
            one.alert, one.run_name, one.project, one.host, one.tags, one.imported, key in taken
        )
        for key, one in known.items()
    }


def key_of(alert_id: str) -> Key:
    """Return (run id, fingerprint, episode) of a valid alert id."""
    key = alert_key(alert_id)
    assert key is not None
    return key


def id_of(key: Key) -> str:
    """Return the id of an alert."""
    return f"{key[0]}.{key[1]}.{key[2]}"


class RoutingPass:
    """One routing transaction. ``notified``: ids of the channels with something new to send."""

    def __init__(self, connection: Connection, now_ns: int, work: Work | None = None) -> None:
        self.now_ns = now_ns
        self._work = work or Work(NAME)
        self._failed: set[str] = set()
        """Runs with an alert that could not be routed."""
        self.notified: set[str] = set()
        self._connection = connection
        self._rows: dict[str, GroupRow] = {}
        self._changed: set[str] = set()
        self._fresh: set[str] = set()
        """Alerts that started to fire since the last pass."""

    @cached_property
    def _routing(self) -> Routing:
        return routing_of(self._connection)

    @cached_property
    def _channels(self) -> dict[str, ChannelRow]:
        """Return the enabled channels by name."""
        found = notification_config.channels(self._connection)
        return {row.name: row for row in found if row.enabled and row.kind != MIRRORED}

    @cached_property
    def _silences(self) -> list[Silence]:
        rows = notification_config.silences(self._connection, ending_after_ns=self.now_ns)
        return [silence_of(row) for row in rows]

    def run(self) -> bool:
        """Run the pass; return True if there may be more to route."""
        keys = alert_groups.take_unrouted(self._connection, self.now_ns, self._work.resting("run"))
        arrived = self._routed_alerts(keys)
        self._fresh = {id_of(key) for key, states in keys.items() if AlertState.FIRING in states}
        homes: dict[str, list[GroupRow]] = {}
        for alert_id, routed in arrived.items():
            with self._of_run(routed):
                homes[alert_id] = self._homes(routed)
        wanted = {home.id for found in homes.values() for home in found}
        theirs = alert_groups.groups_of(self._connection, list(keys))
        self._rows = alert_groups.groups_to_look_at(self._connection, wanted | theirs, self.now_ns)
        self._arrive([arrived[alert_id] for alert_id in homes], homes)
        more = len(keys) == alert_groups.AT_ONCE
        if not more:  # all alerts of a flood are in the group before its size is paid for
            self._flush_due()
        self._store()
        if self._failed:
            alert_groups.put_back(self._connection, self._failed, self.now_ns)
        for run_id in {key[0] for key in keys} - self._failed:
            self._work.passed(f"run {run_id}")
        return more

    @contextmanager
    def _of_run(self, routed: RoutedAlert) -> Iterator[None]:
        """Limit an error to the run of an alert, except that a database error ends the transaction."""
        try:
            yield
        except SQLAlchemyError:
            raise
        except Exception as error:  # noqa: BLE001 - other runs must still be routed
            self._failed.add(routed.alert.run_id)
            self._work.failed(f"run {routed.alert.run_id}", error)

    def _routed_alerts(self, keys: Iterable[Key]) -> dict[str, RoutedAlert]:
        wanted = set(keys)
        known = alert_groups.known_alerts(self._connection, wanted)
        acked = acks_in_force(self._connection, {key[0] for key in known})
        return routed_alerts_of(known, acked)

    # Transitions

    def _homes(self, routed: RoutedAlert) -> list[GroupRow]:
        """Return the groups that a firing alert belongs to, as new groups; none for an imported alert.

        A severe alert that fired and was over since the last pass has groups too.
        """
        if (
            routed.imported
            or routed.alert.state is AlertState.PENDING
            or routed.alert.is_inherited
            or (routed.over and not self._is_brief(routed))
        ):
            return []
        found = []
        for route in self._routing.routes_of(routed.labels):
            for name in channels_of(route, self._channels):
                found.append(self._new_group(routed, route, self._channels[name]))
        return found

    def _is_brief(self, routed: RoutedAlert) -> bool:
        known_late = routed.alert.late and not routed.ended
        return routed.alert.id in self._fresh and not known_late and grouping.is_severe(routed)

    def _new_group(self, routed: RoutedAlert, route: Route, channel: ChannelRow) -> GroupRow:
        late = routed.alert.late
        labels = {"run_id": routed.alert.run_id} if late else route.group_of(routed.labels)
        kind, name = ("late", "") if late else ("alerts", route.name)
        return GroupRow(
            group_id(kind, name, channel.id, labels), kind, name, channel.id, labels, self.now_ns, None, None
        )

    def _arrive(self, arrived: Iterable[RoutedAlert], homes: Mapping[str, list[GroupRow]]) -> None:
        """Put alerts into their groups; each group is changed once for all alerts of a run."""
        wanted: dict[tuple[str, str], list[RoutedAlert]] = {}
        for routed in arrived:
            found = homes[routed.alert.id]
            for home in found:
                self._rows.setdefault(home.id, home)
            key = key_of(routed.alert.id)
            chosen = {home.id for home in found} | {
                row.id for row in self._rows.values() if row.kind == "alerts" and key in row.members
            }
            for group in chosen:
                wanted.setdefault((group, routed.alert.run_id), []).append(routed)
        for (group, _), alerts in wanted.items():
            with self._of_run(alerts[0]):
                row = self._rows[group]
                self._put(self._late(row, alerts) if row.kind == "late" else self._joined(row, alerts))

    def _joined(self, row: GroupRow, alerts: list[RoutedAlert]) -> GroupRow:
        route = self._routing.route(row.route)
        if route is None:
            return row
        brief = {routed.alert.id for routed in alerts if routed.over and self._is_brief(routed)}
        return self._stored(row, grouping.arrive(_group(row), alerts, route, self.now_ns, brief=brief))

    def _late(self, row: GroupRow, alerts: list[RoutedAlert]) -> GroupRow:
        if row.notified_ns is not None and self.now_ns - row.notified_ns < hourly_limit.LATE_AGAIN_NS:
            return row
        first = self.now_ns if row.notified_ns is not None or not row.members else row.first_ns
        due = hourly_limit.late_due(first, self.now_ns)
        members = {**row.members, **{key_of(routed.alert.id): -1 for routed in alerts}}
        return replace(row, first_ns=first, due_ns=due, notified_ns=None, members=members)

    # Groups that are due

    def _flush_due(self) -> None:
        due = [row for row in self._rows.values() if row.due_ns is not None and row.due_ns <= self.now_ns]
        routed_alerts = self._routed_alerts({key for row in due for key in row.members})
        marks = self._marks(routed_alerts)
        by_id = {channel.id: channel for channel in self._channels.values()}
        for row in due:
            channel = by_id.get(row.channel_id)
            try:
                with self._connection.begin_nested():
                    self._look_at(row, channel, routed_alerts, marks)
            except Exception as error:
                if is_outage(error):
                    raise
                self._put_off(row, routed_alerts, error)

    def _look_at(
        self,
        row: GroupRow,
        channel: ChannelRow | None,
        routed_alerts: dict[str, RoutedAlert],
        marks: dict[str, Marks],
    ) -> None:
        if channel is None:
            self._put(replace(row, members={}, due_ns=None, kind="gone"))
        elif row.kind == "alerts":
            self._flush(row, channel, routed_alerts, marks)
        else:
            self._digest(row, channel, routed_alerts)

    def _put_off(self, row: GroupRow, routed_alerts: Mapping[str, RoutedAlert], error: Exception) -> None:
        """Handle a group that failed: remove the alerts that cannot be formatted, or retry it later."""
        culprits = set()
        for key in row.members:
            name = id_of(key)
            try:
                if name in routed_alerts:
                    alone = Batch("new", (name,), (), (name,))
                    exact_json.dumps([title_of(alone, routed_alerts), body_of(row, alone, routed_alerts)])
            except Exception as why:  # noqa: BLE001 - it is reported for its run
                culprits.add(key)
                self._work.failed(f"run {key[0]}, alert {key[1]} is left out of notifications", why)
        if not culprits:
            self._work.failed(f"group {row.id}", error)
        due = self.now_ns + (0 if culprits else LATER_NS)
        members = {key: reported for key, reported in row.members.items() if key not in culprits}
        self._put(replace(row, due_ns=due, members=members))

    def _flush(
        self,
        row: GroupRow,
        channel: ChannelRow,
        routed_alerts: dict[str, RoutedAlert],
        marks: dict[str, Marks],
    ) -> None:
        route = self._routing.route(row.route)
        if route is None:
            self._put(replace(row, members={}, due_ns=None, kind="gone"))
            return
        muted = self._routing.is_muted(route, self.now_ns)
        group, batch = grouping.flush(_group(row), route, routed_alerts, marks, muted, self.now_ns)
        self._put(replace(row, kind="gone") if group is None else self._stored(row, group))
        if batch is not None:
            self._notify(row, channel, batch, routed_alerts)

    def _notify(
        self, row: GroupRow, channel: ChannelRow, batch: Batch, routed_alerts: Mapping[str, RoutedAlert]
    ) -> None:
        kind = kinds().get(channel.kind)
        parts: Iterable[tuple[str, Batch]] = [("", batch)]
        if kind is not None and kind.per_incident:
            parts = grouping.per_incident(_group(row), batch, routed_alerts)
        since_ns = self.now_ns - hourly_limit.HOUR_NS
        for incident, part in parts:
            sent = outbox.sent_since(self._connection, channel.id, since_ns) if channel.limit_per_hour else 0
            if hourly_limit.is_over(sent, channel.limit_per_hour):
                self._hold_back(channel, [*part.firing, *part.over])
            else:
                self._enqueue(row, part, routed_alerts, incident)

    def _hold_back(self, channel: ChannelRow, alert_ids: list[str]) -> None:
        """Hold back alerts above the hourly limit for the channel's next digest."""
        name = group_id("digest", "", channel.id, {})
        known = self._rows.get(name) or alert_groups.groups_to_look_at(self._connection, [name], 0).get(name)
        row = known or GroupRow(name, "digest", "", channel.id, {}, self.now_ns, None, None)
        due = hourly_limit.digest_due(row.due_ns, row.notified_ns, self.now_ns)
        self._put(replace(row, due_ns=due, members={**row.members, **{key_of(one): 0 for one in alert_ids}}))

    def _digest(self, row: GroupRow, channel: ChannelRow, routed_alerts: Mapping[str, RoutedAlert]) -> None:
        """Send one notification with everything held back. Alerts that fire again join normal groups."""
        known = {id_of(key): routed_alerts[id_of(key)] for key in row.members if id_of(key) in routed_alerts}
        awake = [
            routed
            for routed in known.values()
            if row.kind == "late" and not routed.alert.late and not routed.over
        ]
        self._put(replace(row, members={}, due_ns=None, notified_ns=self.now_ns))
        # They have firing records from now on and no longer belong to a digest.
        self._arrive(awake, {routed.alert.id: self._homes(routed) for routed in awake})
        left = {name: routed for name, routed in known.items() if routed not in awake}
        if row.kind == "late":
            left = self._unknown(left, row.channel_id)
        firing = tuple(name for name, routed in left.items() if not routed.over)
        over = tuple(name for name, routed in left.items() if routed.over)
        if left:
            self._enqueue(row, Batch(row.kind, firing, over, ()), routed_alerts)

    def _unknown(self, late: dict[str, RoutedAlert], channel_id: str) -> dict[str, RoutedAlert]:
        """Return the late alerts without those that joined an incident of which the channel was notified.

        A more severe one stays.
        """
        levels: dict[str, int] = {}
        ids = {routed.alert.incident_id for routed in late.values()}
        for name, severity in notified_severities(self._connection, channel_id, ids):
            levels[name] = max(levels.get(name, -1), Severity(severity).level)
        return {
            name: routed
            for name, routed in late.items()
            if routed.alert.severity.level > levels.get(routed.alert.incident_id, -1)
        }

    def _marks(self, routed_alerts: Mapping[str, RoutedAlert]) -> dict[str, Marks]:
        """Return the current marks of the alerts."""
        rules = self._routing.inhibitions
        runs = {routed.alert.run_id for routed in routed_alerts.values()}
        within = all("run_id" in rule.equal for rule in rules)
        others = (
            routed_alerts_of(alert_groups.open_alerts(self._connection, runs if within else None), ())
            if routed_alerts
            else {}
        )
        return marks_of(
            routed_alerts.values(), others.values(), self._silences, self._routing, self.now_ns, self._work
        )

    # Storing

    def _enqueue(
        self, row: GroupRow, batch: Batch, routed_alerts: Mapping[str, RoutedAlert], incident: str = ""
    ) -> None:
        item = Notification(
            id=outbox.new_id(self.now_ns),
            channel_id=row.channel_id,
            group_id=row.id,
            kind=row.kind,
            title=title_of(batch, routed_alerts),
            body=body_of(row, batch, routed_alerts, incident),
            created_ns=self.now_ns,
            due_ns=self.now_ns,
        )
        states = [
            (key_of(one), routed_alerts[one].alert.state.value if one in batch.over else "firing")
            for one in every(batch, routed_alerts)
        ]
        outbox.enqueue(self._connection, item, states)
        self.notified.add(row.channel_id)

    def _put(self, row: GroupRow) -> None:
        self._rows[row.id] = row
        self._changed.add(row.id)

    def _stored(self, row: GroupRow, group: Group) -> GroupRow:
        members = {key_of(one): notified.level for one, notified in group.members.items()}
        return replace(row, members=members, due_ns=group.due_ns, notified_ns=group.notified_ns)

    def _store(self) -> None:
        for name in sorted(self._changed):
            row = self._rows[name]
            if row.kind == "gone" or (row.kind == "alerts" and not row.members):
                alert_groups.drop_group(self._connection, name)
            else:
                alert_groups.put_group(self._connection, row)


def marks_of(
    routed_alerts: Iterable[RoutedAlert],
    others: Iterable[RoutedAlert],
    silences: Iterable[Silence],
    routing: Routing,
    now_ns: int,
    work: Work | None = None,
) -> dict[str, Marks]:
    """Return the marks of alerts, given all other open alerts. An alert that fails to compare has none."""
    wanted, quiet, work = list(routed_alerts), list(silences), work or Work(NAME)
    inhibiting: Mapping[str, tuple[str, ...]] = {}
    with work.isolated("inhibitions"):
        inhibiting = inhibited_by(wanted, list(others), routing.inhibitions)
    found: dict[str, Marks] = {}
    for routed in wanted:
        found[routed.alert.id] = NO_MARKS
        with work.isolated(f"silences of run {routed.alert.run_id}"):
            silenced = silenced_by(routed.labels, quiet, now_ns)
            found[routed.alert.id] = Marks(silenced, inhibiting.get(routed.alert.id, ()))
    return found


def group_id(kind: str, route: str, channel_id: str, labels: Mapping[str, str]) -> str:
    """Return an id that is the same for the same route, channel and labels on every server."""
    parts = [kind, route, channel_id, *(f"{name}={labels[name]}" for name in sorted(labels))]
    return "g_" + hashlib.sha256("\x00".join(parts).encode("utf-8", "replace")).hexdigest()[:24]


def _group(row: GroupRow) -> Group:
    members = {id_of(key): NotifiedState(reported) for key, reported in row.members.items()}
    return Group(row.id, row.route, row.channel_id, row.labels, members, row.due_ns, row.notified_ns)
