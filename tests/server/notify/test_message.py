"""The text of a notification."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tocsin_server.core import exact_json
from tocsin_server.core.models import Diagnosis, Evidence, Remedy
from tocsin_server.notify.message import Links, message_of, what
from tocsin_server.runs.run_summary import alert_json

LINKS = Links(
    lambda alert: f"https://t/{alert['id']}",
    lambda alert: f"https://t/ack/{alert['id']}",
    lambda alert: f"https://t/silence/{alert['id']}",
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


def test_a_message_has_problem_onset_evidence_remedy_and_links(
    make_routed_alert: Callable[..., Any],
) -> None:
    """The message exists as plain text and as Markdown."""
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
            "https://t/silence/r1.f-loss-spike.1",
        ):
            assert part in text
    assert (message.severity, message.status) == ("critical", "firing")


def test_a_message_names_the_last_good_checkpoint_of_an_alert_that_fires(
    make_routed_alert: Callable[..., Any],
) -> None:
    """After the first action, escaped in Markdown."""
    text = "ckpt_<1>.pt (step 1700, 90 steps before the onset)."
    resume = {"path": "/w/ckpt_<1>.pt", "step": 1700, "text": text}
    fires = body(alert_of(make_routed_alert(severity="critical"), resume=resume))
    message = message_of("n1", "alerts", fires, LINKS)
    assert f"First action: Skip the batch.\nLast good checkpoint: {text}\n" in message.text
    assert "**Last good checkpoint:** ckpt\\_\\<1\\>.pt" in message.markdown


def test_a_resolved_alert_has_no_acknowledge_link(make_routed_alert: Callable[..., Any]) -> None:
    """The step, but no remedy and no link that acknowledges."""
    over = alert_of(make_routed_alert(state="resolved"), new=False)
    message = message_of("n1", "alerts", body(over, reason="resolved"), LINKS)
    assert message.title.startswith("Resolved: loss-spike")
    assert "resolved at step 1900" in message.text
    assert "ack" not in message.text
    assert "First action:" not in message.text
    assert message.status == "resolved"


@pytest.mark.parametrize(
    "reason",
    [
        "Withdrawn: the log prints grad_norm in steps of 0.1, so zeros and equal values may be rounded",
        "Closed: the rule loss-spike was switched off by ada",
    ],
)
def test_a_withdrawn_or_closed_alert_is_never_called_resolved(
    make_routed_alert: Callable[..., Any], reason: str
) -> None:
    """Nothing has recovered: title and text say what happened, and why."""
    over = alert_of(make_routed_alert(state="resolved"), new=False, summary=reason)
    message = message_of("n1", "alerts", body(over, reason="resolved"), LINKS)
    word = reason.partition(":")[0]
    assert message.title.startswith(f"{word}: loss-spike")
    assert reason in message.text
    assert f"{word.lower()} at step 1900" in message.text
    assert "esolved" not in message.title + message.text


def test_an_alert_that_ended_early_is_described_as_over(
    make_routed_alert: Callable[..., Any],
) -> None:
    """A run that ended with a NaN: critical in the title, with the remedy, not shown as fixed."""
    message = message_of(
        "n1", "alerts", body(alert_of(make_routed_alert(severity="critical", state="resolved"))), LINKS
    )
    assert message.title.startswith("Critical, already over: loss-spike")
    assert "First action: Skip the batch." in message.text
    assert (message.severity, message.status) == ("critical", "resolved")


def test_what_a_run_ended_with_is_never_called_resolved(make_routed_alert: Callable[..., Any]) -> None:
    """The title, the text and the status say that it was firing, with the remedy and the acknowledge link."""
    ended = alert_of(make_routed_alert(severity="critical", state="ended", resolved_step=1900), new=False)
    message = message_of("n1", "alerts", body(ended, reason="ended"), LINKS)
    assert message.title == "Run ended with loss-spike · mdt-fp16 · deblur"
    assert "critical, still firing when the run ended at step 1900" in message.text
    assert "esolved" not in message.title + message.text
    assert "First action: Skip the batch." in message.text
    assert "https://t/ack/" in message.text
    assert (message.severity, message.status) == ("critical", "ended")


def failed(make: Callable[..., Any], **about: Any) -> dict[str, Any]:
    """Return the alert of a run that failed."""
    lines = Evidence("traceback", '  File "train.py", line 7\n    loss.backward() # `@all`')
    diagnosis = Diagnosis("", (Evidence("last step", 9.0), lines), remedies=(Remedy("Use less memory."),))
    facts = {"severity": "critical", "summary": "E: boom", "onset_step": 9, "diagnosis": diagnosis}
    return alert_of(make("run-failed", **{**facts, **about}))


def test_a_failed_run_has_its_last_lines(make_routed_alert: Callable[..., Any]) -> None:
    """In Markdown as code, which nothing in the traceback can end."""
    message = message_of("n1", "alerts", body(failed(make_routed_alert)), LINKS)
    assert message.title == "Run crashed: E: boom · mdt-fp16 · deblur"
    assert "mdt-fp16 crashed at step 9: E: boom" in message.text
    assert "    loss.backward() # `@all`" in message.text
    assert "```\n  File" in message.markdown
    assert "'@\u200ball'" in message.markdown
    assert "First action: Use less memory." in message.text


def test_cause_and_first_action_precede_the_evidence(make_routed_alert: Callable[..., Any]) -> None:
    why = Diagnosis("Likely a bad batch.", (Evidence("peak", 9.0),), remedies=(Remedy("Skip the batch."),))
    message = message_of("n1", "alerts", body(alert_of(make_routed_alert(diagnosis=why))), LINKS)
    lines = message.text.splitlines()
    assert lines[1:4] == ["Likely cause: A bad batch.", "First action: Skip the batch.", "  peak: 9"]
    words = ("**Likely cause:**", "**First action:**", "- peak")
    places = [message.markdown.index(each) for each in words]
    assert places == sorted(places)


def test_a_run_that_a_person_stopped_did_not_crash(make_routed_alert: Callable[..., Any]) -> None:
    stopped = failed(make_routed_alert, severity="warning", summary="SIGTERM")
    message = message_of("n1", "alerts", body(stopped), LINKS)
    assert message.title.startswith("Run stopped: SIGTERM")
    assert "mdt-fp16 was stopped at step 9" in message.text


def test_a_run_that_continues_is_not_called_failed(make_routed_alert: Callable[..., Any]) -> None:
    over = failed(make_routed_alert, state="resolved") | {"new": False}
    message = message_of("n1", "alerts", body(over, reason="resolved"), LINKS)
    assert message.title == "Run continues in a new attempt · mdt-fp16 · deblur"
    assert "mdt-fp16 continues in a new attempt, after E: boom" in message.text
    assert "loss.backward" not in message.text


@pytest.mark.parametrize(
    ("kind", "reason", "words"),
    [("late", "late", "Late: "), ("digest", "digest", "Held back: "), ("alerts", "repeat", "Still ")],
)
def test_the_title_has_the_reason(
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


def test_a_step_is_named_once(make_routed_alert: Callable[..., Any]) -> None:
    """Many summaries name the first step already."""
    row = alert_of(make_routed_alert(summary="Loss is NaN since step 1790, 2 records"))
    assert what(row) == "mdt-fp16: Loss is NaN since step 1790, 2 records (loss-spike, warning)"
    row = alert_of(make_routed_alert(summary="Loss is NaN since step 17901"))
    assert what(row).endswith("(loss-spike, warning, since step 1790)")
