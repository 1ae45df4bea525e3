"""One routing pass on a real database: from stored transitions to notifications, each exactly once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, insert, select
from sqlalchemy.engine import URL

from tests.matrix import ALL, STALL_S
from tests.server.notify.conftest import NOW, S, facts_of
from tocsin_server.core.models import Alert, AlertState
from tocsin_server.delivery.router import RoutingPass
from tocsin_server.notify.routing import plain, read_routing
from tocsin_server.runs.run_summary import alert_json
from tocsin_server.store import alert_groups, deletion, notification_config, outbox
from tocsin_server.store.acks import Ack, add_acks
from tocsin_server.store.database import Database, open_database
from tocsin_server.store.incident_rows import alert_keys
from tocsin_server.store.notification_config import ChannelRow
from tocsin_server.store.outbox import Attempt, Notification
from tocsin_server.store.periodic_jobs import PeriodicJob as Work
from tocsin_server.store.row_builder import Rows, _alert_row, write
from tocsin_server.store.tables import alert_transition, event, notify_group, run

MANY = 10_000 if ALL else 1_000


def transition_of(alert: Alert, now_ns: int) -> dict[str, Any]:
    """Return the row of the transition of an alert to its state."""
    key = {"run_id": alert.run_id, "fingerprint": alert.fingerprint, "episode": alert.episode}
    state = {"state": alert.state.value, "severity": alert.severity.value, "previous": None}
    return key | state | {"at_ns": now_ns, "step": 1, "summary": "s"}


@dataclass
class RoutingScene:
    """A database with runs r1 and r2 and a channel, and a clock."""

    database: Database
    now_ns: int = NOW

    def __post_init__(self) -> None:
        for name in ("r1", "r2"):
            about: dict[str, Any] = {
                "id": name,
                "project": "deblur",
                "name": f"run {name}",
                "host": "h",
                "notes": "",
            }
            self.do(partial(_add_run, about=about | {"created_ns": 0, "last_seen_ns": 0}))
        self.channel("mail")

    def do(self, work: Callable[[Connection], Any]) -> Any:
        with self.database.engine.begin() as connection:
            return work(connection)

    def channel(self, name: str, **about: Any) -> None:
        self.do(
            lambda c: notification_config.put_channel(c, ChannelRow(f"c_{name}", name, "browser", **about))
        )

    def routing(self, body: Any) -> None:
        self.do(
            lambda c: notification_config.write_choice(
                c, notification_config.ROUTING, plain(read_routing(body)), 0
            )
        )

    def happen(
        self, rule: str = "loss-spike", severity: str = "critical", state: str = "firing", **about: Any
    ) -> None:
        """Commit a transition of an alert."""
        alert = facts_of(rule, severity, state, **about).alert
        rows = Rows(alerts={(alert.run_id, alert.fingerprint, alert.episode): _alert_row(alert)})
        rows.transitions.append(transition_of(alert, self.now_ns))
        self.do(lambda c: write(c, rows))

    def later(self, seconds: float) -> list[Notification]:
        """Run a routing pass at each second; return the notifications that they add to the outbox."""
        before = {item.id for item in self.all()}
        for _ in range(max(1, int(seconds))):
            self.now_ns += S
            self.do(self.route)
        return [item for item in self.all() if item.id not in before]

    def route(self, connection: Connection) -> None:
        alert_groups.lock(connection)
        RoutingPass(connection, self.now_ns).run()

    def all(self) -> list[Notification]:
        return list(reversed(self.do(lambda c: outbox.listed(c, limit=1000))))


def _add_run(connection: Connection, about: dict[str, Any]) -> None:
    connection.execute(insert(run), about)


@pytest.fixture
def scene(url: URL) -> Iterator[RoutingScene]:
    """On either database."""
    database = open_database(url)
    yield RoutingScene(database)
    database.close()


def rules(item: Notification) -> list[tuple[str, bool]]:
    return [(alert["rule"], alert["over"]) for alert in item.body["alerts"]]


@pytest.mark.both_databases
def test_an_alert_and_its_end_are_sent_once(scene: RoutingScene) -> None:
    """Each transition is routed exactly once, however many passes run."""
    scene.happen()
    (new,) = scene.later(30)
    assert (new.channel_id, rules(new), new.body["reason"]) == ("c_mail", [("loss-spike", False)], "new")
    scene.happen(state="resolved")
    (over,) = scene.later(120)
    assert (rules(over), over.body["reason"]) == ([("loss-spike", True)], "resolved")
    assert scene.later(20) == []
    with scene.database.reader.connect() as connection:
        assert None not in connection.execute(select(alert_transition.c.routed_ns)).scalars().all()


def test_alerts_of_an_incident_go_together_and_incidents_apart(scene: RoutingScene) -> None:
    """Grouped by project and incident; changing values are those at the time of the notification."""
    scene.happen("a", "warning", incident="a.1")
    scene.happen("b", "warning", incident="a.1")
    scene.happen("a", "warning", run_id="r2", incident="a.1")
    reported = scene.later(35)
    assert sorted(sorted(rules(item)) for item in reported) == [[("a", False)], [("a", False), ("b", False)]]


def test_runs_that_share_an_incident_are_one_notification(scene: RoutingScene) -> None:
    """Also if the second one fails after the first one was notified; it is over when both are."""
    scene.happen("a", incident="f-a.1")
    first, *_ = scene.later(10)
    scene.happen("a", run_id="r2", incident="r1.f-a.1")
    assert (rules(first), scene.later(70)) == ([("a", False)], [])
    scene.happen("a", state="resolved", incident="f-a.1")
    assert scene.later(70) == []
    scene.happen("a", state="resolved", run_id="r2", incident="r1.f-a.1")
    (over,) = scene.later(70)
    assert over.body["reason"] == "resolved"


def test_a_critical_alert_that_ended_before_the_first_pass_is_sent(scene: RoutingScene) -> None:
    """If an alert fires and its run ends within one commit, one notification reports it as resolved.

    A warning that its own rule resolves that quickly is not sent.
    """
    for severity, rule in (("critical", "a"), ("warning", "b")):
        scene.happen(rule, severity)
        scene.happen(rule, severity, "resolved")
    (reported,) = scene.later(100)
    assert rules(reported) == [("a", True)]


def test_info_alerts_are_not_sent_by_default(scene: RoutingScene) -> None:
    """Info alerts are only shown on the pages."""
    scene.happen(severity="info")
    assert scene.later(60) == []


def test_an_inhibited_alert_is_held_back_until_its_source_is_over(scene: RoutingScene) -> None:
    """The loss spike of a run whose loss is NaN is held back, and sent if it still fires after the NaN has
    resolved."""
    scene.happen("nonfinite-loss")
    scene.happen("loss-spike")
    assert [rules(item) for item in scene.later(100)] == [[("nonfinite-loss", False)]]
    scene.happen("nonfinite-loss", state="resolved")
    reported = [rule for item in scene.later(130) for rule in rules(item)]
    assert ("loss-spike", False) in reported
    assert ("nonfinite-loss", True) in reported


def test_a_silence_suppresses_while_it_lasts(scene: RoutingScene) -> None:
    """When the silence ends, the alert is sent."""
    ends = scene.now_ns + 100 * S
    row = notification_config.SilenceRow(
        "s1", ['run_id="r1"'], scene.now_ns, ends, "ann", "known", scene.now_ns
    )
    scene.do(lambda c: notification_config.put_silence(c, row))
    scene.happen()
    assert scene.later(95) == []
    assert len(scene.later(100)) == 1


def test_a_stored_silence_that_cannot_be_read_is_set_aside(
    scene: RoutingScene, caplog: pytest.LogCaptureFixture
) -> None:
    """A pattern of an older version mutes nothing and is logged; other silences stay effective."""
    ends = scene.now_ns + 1000 * S
    old = f"s_old_{scene.database.dialect}"
    for name, matcher in ((old, 'run_id=~"(r)(?=1)1"'), ("s_good", 'run_id="r2"')):
        row = notification_config.SilenceRow(
            name, [matcher], scene.now_ns, ends, "ann", "known", scene.now_ns
        )
        scene.do(partial(notification_config.put_silence, row=row))
    scene.happen()
    scene.happen(run_id="r2")
    assert [rules(item) for item in scene.later(60)] == [[("loss-spike", False)]]
    assert [line for line in caplog.messages if f"Silence {old} is ignored" in line]


def test_an_unreadable_route_stops_no_notification(scene: RoutingScene) -> None:
    """Alerts of an unreadable route take the default route."""
    body = {"routes": [{"name": "old", "matchers": ['rule=~"(?x)(a+) +b"'], "channels": ["mail"]}]}
    scene.do(lambda c: notification_config.write_choice(c, notification_config.ROUTING, body, 0))
    scene.happen()
    assert [rules(item) for item in scene.later(60)] == [[("loss-spike", False)]]


def test_late_alerts_are_one_digest_a_run(scene: RoutingScene) -> None:
    """The records of a spool: one notification for all alerts, and no further one within a day."""
    for at in range(5):
        scene.happen(f"rule-{at}", late=True)
        assert scene.later(20) == []
    (digest,) = scene.later(90)
    assert (digest.kind, len(digest.body["alerts"])) == ("late", 5)
    scene.happen("rule-9", late=True)
    assert scene.later(120) == []
    assert scene.do(lambda c: alert_groups.prune(c, NOW)) == 0
    assert scene.do(lambda c: alert_groups.prune(c, scene.now_ns)) == 1


@pytest.mark.parametrize("run_id", ["r1", "r2"])
@pytest.mark.parametrize(("severity", "digests"), [("warning", 0), ("critical", 1)])
def test_a_late_cause_of_a_notified_incident_is_no_second_notification(
    scene: RoutingScene, severity: str, digests: int, run_id: str
) -> None:
    """The records of another rank, or of a run that shares the incident, arrive from a spool.

    Only a more severe alert is reported again.
    """
    scene.routing({"routes": [{"name": "all", "group_wait_s": 0}]})
    scene.happen("loss-drift", "warning", incident="f-loss-drift.1")
    assert [item.kind for item in scene.later(2)] == ["alerts"]
    own = "f-loss-drift.1" if run_id == "r1" else "r1.f-loss-drift.1"
    scene.happen("lr-jump", severity, late=True, run_id=run_id, incident=own, onset_step=1700)
    assert [item.kind for item in scene.later(150)] == ["late"] * digests


def test_a_late_alert_that_still_fires_is_sent_normally(scene: RoutingScene) -> None:
    """The run's records caught up with the clock before the digest was sent."""
    scene.happen("old", late=True)
    scene.happen("goes-on", late=True)
    scene.later(5)
    alert = facts_of("goes-on", "critical").alert
    key = (alert.run_id, alert.fingerprint, alert.episode)
    scene.do(lambda c: write(c, Rows(alerts={key: _alert_row(replace(alert, late=False))})))
    reported = scene.later(130)
    assert [(item.kind, rules(item)) for item in reported] == [
        ("late", [("old", False)]),
        ("alerts", [("goes-on", False)]),
    ]


@pytest.mark.parametrize("how", ["event", "environment"])
def test_imported_runs_send_no_notifications(scene: RoutingScene, how: str) -> None:
    """Alerts of `tocsin import` and `tocsin-server import` are not sent."""
    if how == "event":
        row = {
            "run_id": "r1",
            "writer_no": 0,
            "no": 0,
            "arrival": 0,
            "kind": "imported",
            "time_ns": 0,
            "data": {},
        }
        scene.do(lambda c: c.execute(insert(event), row))
    else:
        scene.do(lambda c: c.execute(run.update().values(environment={"imported": {"at_ns": 1}})))
    scene.happen()
    assert scene.later(60) == []


def test_above_the_limit_comes_a_digest(scene: RoutingScene) -> None:
    """At a limit of three per hour, the fourth and fifth are sent together ten minutes later."""
    scene.channel("mail", limit_per_hour=3)
    scene.routing({"routes": [{"name": "all", "group_by": ["rule"], "group_wait_s": 0}]})
    for at in range(5):
        scene.happen(f"rule-{at}")
    assert len(scene.later(10)) == 3
    scene.now_ns += 580 * S
    (digest,) = scene.later(30)
    assert (digest.kind, len(digest.body["alerts"])) == ("digest", 2)


def test_many_alerts_of_one_incident_are_one_notification(scene: RoutingScene) -> None:
    """However many fire, they are routed and acknowledged in time proportional to their number."""
    scene.routing({"routes": [{"name": "all", "group_wait_s": 0}]})
    rows = Rows()
    for no in range(MANY):
        alert = facts_of("my-rule", "critical", fingerprint=f"f-{no}", incident="f-0.1").alert
        rows.alerts[alert.run_id, alert.fingerprint, 1] = _alert_row(alert)
        rows.transitions.append(transition_of(alert, scene.now_ns))
    scene.do(lambda c: write(c, rows))
    began = time.perf_counter()
    notified = scene.later(MANY // alert_groups.AT_ONCE + 3)
    keys = scene.do(lambda c: add_acks(c, alert_keys(c, "r1.f-0.1"), Ack(scene.now_ns, "ann", "")))
    assert time.perf_counter() - began < MANY * 0.005 + STALL_S
    assert [(len(item.body["alerts"]), item.body["left_out"]) for item in notified] == [(50, MANY - 50)]
    assert len(set(keys)) == MANY


def test_each_channel_of_a_route_is_notified(scene: RoutingScene) -> None:
    """All channels get it, except disabled ones and those that no route names."""
    scene.channel("chat")
    scene.channel("off", enabled=False)
    scene.channel("other")
    scene.routing({"routes": [{"name": "a", "channels": ["mail", "chat", "off"]}]})
    scene.happen()
    assert {item.channel_id for item in scene.later(10)} == {"c_mail", "c_chat"}


@pytest.mark.both_databases
def test_a_round_that_is_rolled_back_loses_and_doubles_nothing(scene: RoutingScene) -> None:
    """If the server is killed before the commit, the next pass repeats all of it."""
    scene.happen()
    scene.later(1)
    scene.now_ns += 10 * S
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            scene.do(partial(_killed, scene))
    assert len(scene.later(30)) == 1


def _killed(scene: RoutingScene, connection: Connection) -> None:
    scene.route(connection)
    raise ZeroDivisionError


def test_a_deleted_channel_ends_its_groups(scene: RoutingScene) -> None:
    """Alerts that were grouped for it are not sent, and its groups are deleted."""
    scene.happen()
    scene.later(1)
    scene.do(lambda c: notification_config.delete_channel(c, "c_mail"))
    assert scene.later(60) == []
    with scene.database.reader.connect() as connection:
        assert connection.execute(select(notify_group.c.id)).all() == []


def test_a_pending_alert_is_not_sent(scene: RoutingScene) -> None:
    """Pending alerts are only shown on the pages. Once one fires, it is sent."""
    scene.happen(state="pending")
    assert scene.later(60) == []
    scene.happen(state=AlertState.FIRING.value)
    assert len(scene.later(10)) == 1


def words_but_for(rule: str) -> Callable[..., Any]:
    def words(alert: Any, **about: Any) -> Any:
        if alert.rule == rule:
            raise ValueError(f"no words for {rule}")
        return alert_json(alert, **about)

    return words


def test_an_alert_that_cannot_be_formatted_stops_no_other(
    scene: RoutingScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The notification of its group is sent without it; health names its run and the alert."""
    scene.happen("a", "warning")
    scene.happen("b", "warning")
    work = Work("routing")
    monkeypatch.setattr("tocsin_server.delivery.payload.alert_json", words_but_for("a"))
    for _ in range(3):
        scene.now_ns += 35 * S
        scene.do(lambda connection: RoutingPass(connection, scene.now_ns, work).run())
    assert [rules(item) for item in scene.all()] == [[("b", False)]]
    assert [item["reason"] for item in work.failing()] == ["ValueError: no words for a"]


def test_a_silence_that_cannot_be_read_silences_nothing(scene: RoutingScene) -> None:
    """Health reports the failure, and the alert is sent."""
    row = notification_config.SilenceRow("s_1", ["no matcher"], 0, NOW * 2, "me", "", 0)
    scene.do(lambda connection: notification_config.put_silence(connection, row))
    scene.happen()
    assert len(scene.later(30)) == 1


@pytest.mark.parametrize("claimed", [False, True])
def test_nothing_is_sent_about_a_deleted_run(scene: RoutingScene, claimed: bool) -> None:
    """Neither what waits, nor the repetition of what is being sent, nor what happens afterwards."""
    scene.routing({"routes": [{"name": "all", "group_wait_s": 0, "group_interval_s": 1}]})
    scene.happen(run_id="r2", incident="f.1")
    scene.happen(incident="f.1")
    other, waiting = sorted(scene.later(1), key=lambda item: item.body["alerts"][0]["run_id"] == "r1")
    if claimed:
        waiting = scene.do(lambda c: _claim_about(c, "r1", scene.now_ns))
    assert scene.do(partial(deletion.mark, run_id="r1", now_ns=scene.now_ns))
    lost = Attempt(waiting.attempts, scene.now_ns, 1, "retry", "503")
    scene.do(lambda c: outbox.settle(c, waiting, lost, state=outbox.WAITING, due_ns=scene.now_ns))
    scene.happen(state="resolved", incident="f.1")
    assert scene.later(5) == []
    assert [item.id for item in scene.all()] == [other.id]


def _claim_about(connection: Connection, run_id: str, now_ns: int) -> Notification:
    """Claim notifications until one about this run is claimed."""
    while True:
        item = outbox.claim(connection, "c_mail", "me", now_ns, S)
        assert item is not None
        if item.body["alerts"][0]["run_id"] == run_id:
            return item
