"""One round of routing: what alerts did becomes groups, and groups that are due become notifications.

All of it is one transaction. The inbox is the column ``routed_ns`` of the transitions themselves,
written with the records that caused them: a kill before this commit leaves them unrouted, a kill
after it leaves the notifications in the outbox, and there is nothing in between. Marks (silenced,
inhibited, muted) are derived anew in every round and never stored.

An alert that cannot be routed stays in the inbox and is tried again; one that cannot be told of is taken
out of its group, so that the others of the group are. Both are reported (see ``rounds``).
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
from tocsin_server.core.models import AlertState
from tocsin_server.delivery.payload import body_of, every, title_of
from tocsin_server.delivery.run_failures import fact_of
from tocsin_server.notify import grouping, hourly_limit
from tocsin_server.notify.grouping import Batch, Group
from tocsin_server.notify.inhibition import inhibited_by
from tocsin_server.notify.labels import NO_MARKS, AlertFacts, Marks, Told
from tocsin_server.notify.matching import Matcher, parse_matchers
from tocsin_server.notify.routing import Route, Routing, channels_of, read_stored_routing
from tocsin_server.notify.silences import Silence, silenced_by
from tocsin_server.store import alert_groups, notification_config, outbox, run_failures
from tocsin_server.store.acks import Key, acks_in_force
from tocsin_server.store.alert_groups import GroupRow, Known
from tocsin_server.store.alert_rows import alert_key
from tocsin_server.store.connection import Connection, SQLAlchemyError
from tocsin_server.store.notification_config import ChannelRow, SilenceRow
from tocsin_server.store.outage import is_outage
from tocsin_server.store.outbox import Notification
from tocsin_server.store.periodic_jobs import Round as Work

log = logging.getLogger("tocsin.notify")

NAME = "routing"
LATER_NS = 60_000_000_000
"""A group that cannot be dealt with is looked at again after this long."""
MIRRORED = "alertmanager"
"""Channels of this kind are kept up to date by ``mirror``, not by notifications."""


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
    """Log each message once, not in every round."""
    log.warning("%s", sentence)


def facts_of(known: Mapping[Key, Known], acked: Iterable[Key]) -> dict[str, AlertFacts]:
    """What routing knows of alerts, by their ids."""
    taken = set(acked)
    return {
        one.alert.id: AlertFacts(
            one.alert, one.run_name, one.project, one.host, one.tags, one.imported, key in taken
        )
        for key, one in known.items()
    }


def key_of(alert_id: str) -> Key:
    """(run id, fingerprint, episode) of an id that is known to be one."""
    key = alert_key(alert_id)
    assert key is not None
    return key


def id_of(key: Key) -> str:
    """The id of an alert."""
    return f"{key[0]}.{key[1]}.{key[2]}"


class Round:
    """One transaction of routing. ``told``: ids of the channels that have something new to send."""

    def __init__(self, connection: Connection, now_ns: int, work: Work | None = None) -> None:
        self.now_ns = now_ns
        self._work = work or Work(NAME)
        self._failed: set[str] = set()
        """Runs with an alert that could not be routed."""
        self.told: set[str] = set()
        self._connection = connection
        self._rows: dict[str, GroupRow] = {}
        self._changed: set[str] = set()
        self._fresh: set[str] = set()
        """Alerts that began to fire since the last round."""

    @cached_property
    def _routing(self) -> Routing:
        return routing_of(self._connection)

    @cached_property
    def _channels(self) -> dict[str, ChannelRow]:
        """Channels that are switched on, by name."""
        found = notification_config.channels(self._connection)
        return {row.name: row for row in found if row.enabled and row.kind != MIRRORED}

    @cached_property
    def _silences(self) -> list[Silence]:
        rows = notification_config.silences(self._connection, ending_after_ns=self.now_ns)
        return [silence_of(row) for row in rows]

    def run(self) -> bool:
        """Routes what there is; True where there may be more."""
        keys = alert_groups.take_unrouted(self._connection, self.now_ns, self._work.resting("run"))
        news = self._facts(keys)
        self._fresh = {id_of(key) for key, states in keys.items() if AlertState.FIRING in states}
        homes: dict[str, list[GroupRow]] = {}
        for alert_id, fact in news.items():
            with self._of_run(fact):
                homes[alert_id] = self._homes(fact)
        wanted = {home.id for found in homes.values() for home in found}
        theirs = alert_groups.groups_of(self._connection, list(keys))
        self._rows = alert_groups.groups_to_look_at(self._connection, wanted | theirs, self.now_ns)
        for alert_id, found in homes.items():
            with self._of_run(news[alert_id]):
                self._arrive(news[alert_id], found)
        self._flush_due()
        self._store()
        if self._failed:
            alert_groups.put_back(self._connection, self._failed, self.now_ns)
        for run_id in {key[0] for key in keys} - self._failed:
            self._work.passed(f"run {run_id}")
        return len(keys) == alert_groups.AT_ONCE

    @contextmanager
    def _of_run(self, fact: AlertFacts) -> Iterator[None]:
        """Keep an error to the run of an alert. One of the database itself ends the transaction."""
        try:
            yield
        except SQLAlchemyError:
            raise
        except Exception as error:  # noqa: BLE001 - the alerts of other runs are routed all the same
            self._failed.add(fact.alert.run_id)
            self._work.failed(f"run {fact.alert.run_id}", error)

    def _facts(self, keys: Iterable[Key]) -> dict[str, AlertFacts]:
        wanted = set(keys)
        known = alert_groups.known_alerts(self._connection, wanted)
        acked = acks_in_force(self._connection, {key[0] for key in known})
        failed = run_failures.known_failures(self._connection, wanted)
        return facts_of(known, acked) | {id_of(key): fact_of(one) for key, one in failed.items()}

    # News

    def _homes(self, fact: AlertFacts) -> list[GroupRow]:
        """The groups in which an alert that fires belongs, as they would be new; none for an import. One
        that began and ended since the last round has its groups too, where it is grave."""
        if (
            fact.imported
            or fact.alert.state is AlertState.PENDING
            or (fact.over and not self._is_brief(fact))
        ):
            return []
        found = []
        for route in self._routing.routes_of(fact.labels):
            for name in channels_of(route, self._channels):
                found.append(self._new_group(fact, route, self._channels[name]))
        return found

    def _is_brief(self, fact: AlertFacts) -> bool:
        return fact.alert.id in self._fresh and not fact.alert.late and grouping.is_grave(fact)

    def _new_group(self, fact: AlertFacts, route: Route, channel: ChannelRow) -> GroupRow:
        late = fact.alert.late
        labels = {"run_id": fact.alert.run_id} if late else route.group_of(fact.labels)
        kind, name = ("late", "") if late else ("alerts", route.name)
        return GroupRow(
            group_id(kind, name, channel.id, labels), kind, name, channel.id, labels, self.now_ns, None, None
        )

    def _arrive(self, fact: AlertFacts, homes: list[GroupRow]) -> None:
        for home in homes:
            self._rows.setdefault(home.id, home)
        key = key_of(fact.alert.id)
        chosen = {home.id for home in homes} | {
            row.id for row in self._rows.values() if key in row.members and row.kind == "alerts"
        }
        for group in chosen:
            row = self._rows[group]
            self._put(self._late(row, key) if row.kind == "late" else self._joined(row, fact))

    def _joined(self, row: GroupRow, fact: AlertFacts) -> GroupRow:
        route = self._routing.route(row.route)
        if route is None:
            return row
        brief = fact.over and self._is_brief(fact)
        return self._stored(row, grouping.arrive(_group(row), fact, route, self.now_ns, brief=brief))

    def _late(self, row: GroupRow, key: Key) -> GroupRow:
        if row.told_ns is not None and self.now_ns - row.told_ns < hourly_limit.LATE_AGAIN_NS:
            return row
        first = self.now_ns if row.told_ns is not None or not row.members else row.first_ns
        due = hourly_limit.late_due(first, self.now_ns)
        return replace(row, first_ns=first, due_ns=due, told_ns=None, members={**row.members, key: -1})

    # Groups that are due

    def _flush_due(self) -> None:
        due = [row for row in self._rows.values() if row.due_ns is not None and row.due_ns <= self.now_ns]
        facts = self._facts({key for row in due for key in row.members})
        marks = self._marks(facts)
        by_id = {channel.id: channel for channel in self._channels.values()}
        for row in due:
            channel = by_id.get(row.channel_id)
            try:
                with self._connection.begin_nested():
                    self._look_at(row, channel, facts, marks)
            except Exception as error:
                if is_outage(error):
                    raise
                self._put_off(row, facts, error)

    def _look_at(
        self,
        row: GroupRow,
        channel: ChannelRow | None,
        facts: dict[str, AlertFacts],
        marks: dict[str, Marks],
    ) -> None:
        if channel is None:
            self._put(replace(row, members={}, due_ns=None, kind="gone"))
        elif row.kind == "alerts":
            self._flush(row, channel, facts, marks)
        else:
            self._digest(row, channel, facts)

    def _put_off(self, row: GroupRow, facts: Mapping[str, AlertFacts], error: Exception) -> None:
        """A group could not be told of: the alerts that cannot be put into words leave it."""
        culprits = set()
        for key in row.members:
            name = id_of(key)
            try:
                if name in facts:
                    alone = Batch("new", (name,), (), (name,))
                    exact_json.dumps([title_of(alone, facts), body_of(row, alone, facts)])
            except Exception as why:  # noqa: BLE001 - it is reported for its run
                culprits.add(key)
                self._work.failed(f"run {key[0]}, alert {key[1]} is left out of notifications", why)
        if not culprits:
            self._work.failed(f"group {row.id}", error)
        due = self.now_ns + (0 if culprits else LATER_NS)
        members = {key: told for key, told in row.members.items() if key not in culprits}
        self._put(replace(row, due_ns=due, members=members))

    def _flush(
        self, row: GroupRow, channel: ChannelRow, facts: dict[str, AlertFacts], marks: dict[str, Marks]
    ) -> None:
        route = self._routing.route(row.route)
        if route is None:
            self._put(replace(row, members={}, due_ns=None, kind="gone"))
            return
        muted = self._routing.is_muted(route, self.now_ns)
        group, batch = grouping.flush(_group(row), route, facts, marks, muted, self.now_ns)
        self._put(replace(row, kind="gone") if group is None else self._stored(row, group))
        if batch is not None:
            self._tell(row, channel, batch, facts)

    def _tell(
        self, row: GroupRow, channel: ChannelRow, batch: Batch, facts: Mapping[str, AlertFacts]
    ) -> None:
        since_ns = self.now_ns - hourly_limit.HOUR_NS
        sent = outbox.sent_since(self._connection, channel.id, since_ns) if channel.limit_per_hour else 0
        if hourly_limit.is_over(sent, channel.limit_per_hour):
            self._hold_back(channel, [*batch.firing, *batch.resolved])
        else:
            self._enqueue(row, batch, facts)

    def _hold_back(self, channel: ChannelRow, alert_ids: list[str]) -> None:
        """Above the limit: told in the channel's next digest."""
        name = group_id("digest", "", channel.id, {})
        known = self._rows.get(name) or alert_groups.groups_to_look_at(self._connection, [name], 0).get(name)
        row = known or GroupRow(name, "digest", "", channel.id, {}, self.now_ns, None, None)
        due = hourly_limit.digest_due(row.due_ns, row.told_ns, self.now_ns)
        self._put(replace(row, due_ns=due, members={**row.members, **{key_of(one): 0 for one in alert_ids}}))

    def _digest(self, row: GroupRow, channel: ChannelRow, facts: Mapping[str, AlertFacts]) -> None:
        """Tells everything that gathered at once; nobody is paged by it."""
        known = {id_of(key): facts[id_of(key)] for key in row.members if id_of(key) in facts}
        awake = [
            fact for fact in known.values() if row.kind == "late" and not fact.alert.late and not fact.over
        ]
        self._put(replace(row, members={}, due_ns=None, told_ns=self.now_ns))
        for fact in awake:  # it goes on in records of now: no business of a digest any more
            self._arrive(fact, self._homes(fact))
        left = {name: fact for name, fact in known.items() if fact not in awake}
        firing = tuple(name for name, fact in left.items() if not fact.over)
        over = tuple(name for name, fact in left.items() if fact.over)
        if left:
            self._enqueue(row, Batch(row.kind, firing, over, ()), facts)

    def _marks(self, facts: Mapping[str, AlertFacts]) -> dict[str, Marks]:
        """Which alerts are silenced or inhibited now."""
        rules = self._routing.inhibitions
        runs = {fact.alert.run_id for fact in facts.values()}
        within = all("run_id" in rule.equal for rule in rules)
        others = (
            facts_of(alert_groups.open_alerts(self._connection, runs if within else None), ())
            if facts
            else {}
        )
        return marks_of(
            facts.values(), others.values(), self._silences, self._routing, self.now_ns, self._work
        )

    # What is written

    def _enqueue(self, row: GroupRow, batch: Batch, facts: Mapping[str, AlertFacts]) -> None:
        item = Notification(
            id=outbox.new_id(self.now_ns),
            channel_id=row.channel_id,
            group_id=row.id,
            kind=row.kind,
            title=title_of(batch, facts),
            body=body_of(row, batch, facts),
            created_ns=self.now_ns,
            due_ns=self.now_ns,
        )
        states = [
            (key_of(one), "resolved" if one in batch.resolved else "firing") for one in every(batch, facts)
        ]
        outbox.enqueue(self._connection, item, states)
        self.told.add(row.channel_id)

    def _put(self, row: GroupRow) -> None:
        self._rows[row.id] = row
        self._changed.add(row.id)

    def _stored(self, row: GroupRow, group: Group) -> GroupRow:
        members = {key_of(one): told.height for one, told in group.members.items()}
        return replace(row, members=members, due_ns=group.due_ns, told_ns=group.told_ns)

    def _store(self) -> None:
        for name in sorted(self._changed):
            row = self._rows[name]
            if row.kind == "gone" or (row.kind == "alerts" and not row.members):
                alert_groups.drop_group(self._connection, name)
            else:
                alert_groups.put_group(self._connection, row)


def marks_of(
    facts: Iterable[AlertFacts],
    others: Iterable[AlertFacts],
    silences: Iterable[Silence],
    routing: Routing,
    now_ns: int,
    work: Work | None = None,
) -> dict[str, Marks]:
    """The marks of alerts, given all that is open beside them. One that cannot be compared has none."""
    wanted, quiet, work = list(facts), list(silences), work or Work(NAME)
    inhibiting: Mapping[str, tuple[str, ...]] = {}
    with work.isolated("inhibitions"):
        inhibiting = inhibited_by(wanted, list(others), routing.inhibitions)
    found: dict[str, Marks] = {}
    for fact in wanted:
        found[fact.alert.id] = NO_MARKS
        with work.isolated(f"silences of run {fact.alert.run_id}"):
            silenced = silenced_by(fact.labels, quiet, now_ns)
            found[fact.alert.id] = Marks(silenced, inhibiting.get(fact.alert.id, ()))
    return found


def group_id(kind: str, route: str, channel_id: str, labels: Mapping[str, str]) -> str:
    """The same for the same route, channel and labels, on every server."""
    parts = [kind, route, channel_id, *(f"{name}={labels[name]}" for name in sorted(labels))]
    return "g_" + hashlib.sha256("\x00".join(parts).encode("utf-8", "replace")).hexdigest()[:24]


def _group(row: GroupRow) -> Group:
    members = {id_of(key): Told(told) for key, told in row.members.items()}
    return Group(row.id, row.route, row.channel_id, row.labels, members, row.due_ns, row.told_ns)
