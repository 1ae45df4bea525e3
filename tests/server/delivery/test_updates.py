"""Channels that can change a message have one message per incident, at every moment and after a crash."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.server.chat_services import Answer, SlackService
from tests.server.delivery.conftest import AT_ONCE
from tests.server.delivery.test_sender import QUICK, QUICK_ENV
from tests.server.notify.conftest import facts_of
from tocsin.protocol import Finish
from tocsin_server.delivery import sender
from tocsin_server.notify.grouping import Batch, Group, per_incident
from tocsin_server.notify.labels import NotifiedState

Start = Callable[..., Any]


@pytest.fixture
def slack() -> Iterator[SlackService]:
    with SlackService() as service:
        yield service


def add_slack(api: Any, slack: SlackService) -> None:
    """Create a channel that gets everything immediately."""
    config = {"token": slack.TOKEN, "channel": "#training", "url": slack.url}
    assert api.ask("POST", "/channels", name="slack", kind="slack", config=config).status_code == 201
    assert api.ask("PUT", "/routes", **AT_ONCE).status_code == 200


def fire(client: Any) -> None:
    client.acked(client.train([0, 1], loss=[1.0, math.nan]))


def test_acknowledgement_and_end_change_the_message_of_an_incident(
    run_server: Start, dial: Any, slack: SlackService, admin_api: Any, eventually: Any
) -> None:
    """One message from its beginning to its end. Only the end is a reply, which notifies people."""
    server = run_server(**QUICK)
    api = admin_api(server)
    add_slack(api, slack)
    client = dial(server.base, "r1", server.token)
    fire(client)
    eventually(lambda: api.states() == ["sent"], "the first message")
    (incident,) = api.get("/incidents")["items"]
    assert api.ask("POST", f"/incidents/{incident['id']}/ack", note="on it").status_code == 200
    eventually(lambda: api.states() == ["sent", "sent"], "the acknowledgement")
    (message,) = slack.shown
    assert message.text.startswith("*Critical, acknowledged: nonfinite-loss")
    assert "\nAcknowledged by " in message.text
    client.send(Finish(0, time.time_ns(), records=2))
    client.acked(1, 0)
    eventually(lambda: api.states() == ["sent"] * 3, "the end")
    message, reply = slack.shown
    assert message.text.startswith("*Run ended with nonfinite-loss")
    assert (message.edits, reply.thread, reply.broadcast) == (2, "1", True)
    history = api.get(f"/incidents/{incident['id']}/history")["items"]
    assert len([entry for entry in history if entry["kind"] == "notification"]) == 2, (
        "not the acknowledgement"
    )


class SlowSlack(SlackService):
    """Takes ``pause_s`` for each response."""

    pause_s = 0.0

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        time.sleep(self.pause_s)
        return super().answer(method, path, headers, body)


def test_a_slow_change_and_its_reply_are_one_attempt(
    run_server: Start, dial: Any, admin_api: Any, eventually: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request has its own timeout. If both shared one, every attempt would reply again."""
    monkeypatch.setattr(sender, "GRACE_S", 0.1)
    server = run_server(**QUICK, notify_timeout_s=1.0)
    with SlowSlack() as slack:
        api = admin_api(server)
        add_slack(api, slack)
        client = dial(server.base, "r1", server.token)
        fire(client)
        eventually(lambda: api.states() == ["sent"], "the first message")
        slack.pause_s = 0.7
        client.send(Finish(0, time.time_ns(), records=2))
        eventually(lambda: len(slack.calls) == 3, "the change and its reply")
        eventually(lambda: api.states() == ["sent", "sent"], "the end")
    assert slack.calls == ["chat.postMessage", "chat.update", "chat.postMessage"]


def test_killed_before_the_receipt_is_stored_one_message_is_doubled(
    start_server: Start, dial: Any, slack: SlackService, admin_api: Any, eventually: Any
) -> None:
    """SIGKILL between the acceptance by the service and the commit. The second message is then kept up to
    date."""
    server = start_server(**QUICK_ENV)
    add_slack(admin_api(server), slack)

    def kill() -> None:
        if server.process.poll() is None:
            server.process.send_signal(signal.SIGKILL)
            server.process.wait(60)

    slack.accepted = kill
    fire(dial(server.base, "r1", server.token))
    eventually(lambda: server.process.poll() is not None, "the kill")
    again = start_server(**QUICK_ENV)
    api = admin_api(again)
    eventually(lambda: api.states() == ["sent"], "the message to be sent again")
    (incident,) = api.get("/incidents")["items"]
    api.ask("POST", f"/incidents/{incident['id']}/ack", note="on it")
    eventually(lambda: api.states() == ["sent", "sent"], "the acknowledgement")
    assert [one.edits for one in slack.shown] == [0, 1]


def test_a_batch_is_split_by_incident() -> None:
    """An incident without news gets no message; one that has news lists all of its alerts that fire."""
    found = [
        facts_of("a", incident="f-a.1"),
        facts_of("b", incident="f-a.1"),
        facts_of("c", incident="f-c.1"),
        facts_of("d", "warning", "resolved", incident="f-d.1"),
        facts_of("e", incident="f-d.1"),
    ]
    a, b, c, d, e = (routed.alert.id for routed in found)
    facts = {routed.alert.id: routed for routed in found}
    group = Group("g", "all", "chat", {}, dict.fromkeys(facts, NotifiedState(1)))
    parts = dict(per_incident(group, Batch("new", (a, c), (d,), (a,)), facts))
    assert parts == {
        "r1.f-a.1": Batch("new", (a, b), (), (a,)),
        "r1.f-d.1": Batch("resolved", (e,), (d,), ()),
    }
