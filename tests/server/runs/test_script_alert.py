"""``run.alert`` in a script is an alert: it fires until the script resolves it or the run ends."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tocsin.protocol import Event, Finish
from tocsin_server.core.models import AlertState, Severity
from tocsin_server.runs.script_alert import LONGEST_TITLE, MOST_TITLES, script_finding


def alert(no: int, title: str, **data: Any) -> Event:
    """Return the event of an alert of the script."""
    return Event(
        no, "alert", time.time_ns(), data={"title": title, "text": "", "severity": "warning", **data}
    )


@pytest.fixture
def client(run_server: Any, dial: Any) -> Any:
    """A training process that has sent one step; ``client.alerts()`` are title, state and severity."""
    server = run_server()
    client = dial(server.base, "r1", server.token)
    client.acked(client.train([0], loss=[1.0]))
    reader = server.services.reader

    def alerts() -> list[tuple[str, str, str]]:
        found = [stored.alert for stored in reader.alerts("r1", list(AlertState), list(Severity), 100)]
        return sorted((one.summary, one.state.value, one.severity.value) for one in found)

    client.alerts = alerts
    return client


def test_each_title_is_an_alert_until_the_script_resolves_it(client: Any) -> None:
    client.send(alert(0, "disk nearly full", severity="critical"))
    client.send(alert(1, "slow"))
    client.send(alert(2, "slow", resolved=True))
    client.acked(events=2)
    assert client.alerts() == [("disk nearly full", "firing", "critical"), ("slow", "resolved", "warning")]


def test_it_is_ended_and_not_resolved_when_the_run_ends(client: Any) -> None:
    client.send(alert(0, "slow"))
    client.send(Finish(1, time.time_ns(), records=1))
    client.acked(events=1)
    assert client.alerts() == [("slow", "ended", "warning")]


def test_the_same_title_again_is_the_same_alert(client: Any) -> None:
    client.send(alert(0, "slow", text="1 s"))
    client.send(alert(1, "slow", text="2 s", severity="critical"))
    client.acked(events=1)
    assert client.alerts() == [("slow", "firing", "critical")]


@pytest.mark.parametrize("data", [{}, {"title": None}, {"title": "  \n"}])
def test_without_a_title_there_is_no_alert(data: dict[str, Any]) -> None:
    assert script_finding(data, step=1, time_ns=1, known=()) is None


def test_what_is_odd_is_made_to_fit() -> None:
    data = {"title": "a\n" + "b" * 1000, "severity": "huge", "text": 3}
    finding = script_finding(data, step=None, time_ns=1, known=())
    assert finding is not None
    assert (len(finding.summary), finding.severity) == (LONGEST_TITLE, Severity.WARNING)
    assert [one.value for one in finding.diagnosis.evidence] == ["3"]


def test_a_script_that_always_makes_new_titles_has_a_bounded_number_of_alerts() -> None:
    known = {f"title {k}" for k in range(MOST_TITLES)}
    for title, labels in (("title 3", {"title": "title 3"}), ("a new one", {})):
        finding = script_finding({"title": title}, step=1, time_ns=1, known=known)
        assert finding is not None
        assert (dict(finding.labels), finding.summary) == (labels, title)
