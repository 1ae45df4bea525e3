"""The text of a notification."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tocsin_server.core import exact_json
from tocsin_server.notify.message import Links, message_of
from tocsin_server.runs.run_summary import alert_json

LINKS = Links(
    lambda alert: f"https://t/{alert['id']}",
    lambda run: f"https://t/runs/{run['run_id']}",
    lambda alert: f"https://t/ack/{alert['id']}",
)


def alert_of(fact: Any, **about: Any) -> dict[str, Any]:
    row = alert_json(fact.alert, run_name=fact.run_name, project=fact.project)
    plain: dict[str, Any] = exact_json.plain(row | {"new": True, "over": fact.over, "acked": False})
    return plain | about


def body(*alerts: Any, reason: str = "new", left_out: int = 0) -> dict[str, Any]:
    return {
        "reason": reason,
        "route": "default",
        "group_labels": {},
        "alerts": list(alerts),
        "left_out": left_out,
    }


def test_it_says_run_what_since_when_evidence_remedy_and_links(make_routed_alert: Callable[..., Any]) -> None:
    """As plain text and as Markdown."""
    message = message_of("n1", "alerts", body(alert_of(make_routed_alert(severity="critical"))), LINKS)
    assert message.title == "Critical: loss-spike · mdt-fp16 · deblur"
    for text in (message.text, message.markdown.replace("\\", "")):
        for part in (
            "mdt-fp16",
            "Loss rose 40 times",
            "since step 1790",
            "loss: NaN at step 1790",
            "Skip the batch.",
            "https://t/r1.f-loss-spike.1",
            "https://t/ack/r1.f-loss-spike.1",
        ):
            assert part in text
    assert (message.severity, message.over) == ("critical", False)


def test_what_is_over_needs_no_acknowledging(make_routed_alert: Callable[..., Any]) -> None:
    """The step, but no remedy and no link that acknowledges."""
    over = alert_of(make_routed_alert(state="resolved"), new=False)
    message = message_of("n1", "alerts", body(over, reason="resolved"), LINKS)
    assert message.title.startswith("Resolved: loss-spike")
    assert "resolved at step 1900" in message.text
    assert "ack" not in message.text
    assert "First:" not in message.text
    assert message.over


def test_what_is_over_before_it_was_told_reads_as_what_it_was(make_routed_alert: Callable[..., Any]) -> None:
    """A run that ended with a NaN: critical in the title, with the remedy, not shown as fixed."""
    message = message_of(
        "n1", "alerts", body(alert_of(make_routed_alert(severity="critical", state="resolved"))), LINKS
    )
    assert message.title.startswith("Critical, already over: loss-spike")
    assert "First: Skip the batch." in message.text
    assert (message.severity, message.over) == ("critical", True)


@pytest.mark.parametrize(
    ("new", "title"), [(True, "Critical: loss-spike (+1 more)"), (False, "Goes on: mdt")]
)
def test_a_run_that_goes_on_does_not_hide_what_is_new(
    make_routed_alert: Callable[..., Any], new: bool, title: str
) -> None:
    """If an alert fires in a new attempt, the title is that alert."""
    run = {"run_id": "r1", "run_name": "mdt", "project": "deblur", "attempt": 1, "severity": "critical",
           "summary": "boom", "error": {"type": "E", "lines": []}, "last_step": 9, "over": True}  # fmt: skip
    ringing = alert_of(make_routed_alert(severity="critical"), new=new)
    message = message_of("n1", "alerts", {**body(ringing), "runs": [run]}, LINKS)
    assert message.title.startswith(title)
    assert not message.over


@pytest.mark.parametrize(
    ("kind", "reason", "words"),
    [("late", "late", "Late: "), ("digest", "digest", "Held back: "), ("alerts", "repeat", "Still ")],
)
def test_the_title_says_why(
    make_routed_alert: Callable[..., Any], kind: str, reason: str, words: str
) -> None:
    """Late, above the limit, or repeated."""
    assert message_of("n1", kind, body(alert_of(make_routed_alert()), reason=reason), LINKS).title.startswith(
        words
    )


def test_many_alerts_are_counted(make_routed_alert: Callable[..., Any]) -> None:
    """Three in full, then a line each, then a count."""
    alerts = [alert_of(make_routed_alert(f"rule-{at}")) for at in range(5)]
    message = message_of("n1", "alerts", body(*alerts, left_out=7), LINKS)
    assert "(+11 more)" in message.title
    assert message.text.count("Acknowledge:") == 3
    assert message.text.endswith("- and 7 more")


def test_names_from_outside_forge_nothing(make_routed_alert: Callable[..., Any]) -> None:
    """A run named like a header, a link or a mention of everyone is shown literally, on one line."""
    alert = alert_of(make_routed_alert()) | {
        "run_name": "x\r\nBcc: all@example.org",
        "summary": "[click](http://evil) @everyone <!here>",
    }
    message = message_of("n1", "alerts", body(alert), LINKS)
    assert "\n" not in message.title
    assert "\r" not in message.text
    assert "[click]" not in message.markdown
    assert "@everyone" not in message.markdown
    assert "<!here>" not in message.markdown
