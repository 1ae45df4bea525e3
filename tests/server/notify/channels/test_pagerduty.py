"""PagerDuty, against a local server that keeps incidents as the Events API v2 does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server.chat_services import PagerDutyService
from tests.server.notify.channels.incident_messages import about, follow
from tests.server.notify.test_message import LINKS, body
from tocsin_server.notify.channel import Sending
from tocsin_server.notify.channels.pagerduty import KIND
from tocsin_server.notify.message import message_of
from tocsin_server.notify.outcome import DeliveryError

KEY = "tocsin-0123456789abcdef"
ACKED = about(alert={"acked": True}, reason="acknowledged", acked_by="ada")
RESOLVED = about("resolved", reason="resolved")


@pytest.fixture
def pagerduty() -> Iterator[PagerDutyService]:
    with PagerDutyService() as service:
        yield service


def values(pagerduty: PagerDutyService) -> dict[str, str]:
    return {"routing_key": pagerduty.KEY, "url": pagerduty.url}


def test_an_incident_is_triggered_acknowledged_and_resolved(pagerduty: PagerDutyService) -> None:
    """All events have the key of the incident."""
    first = follow(KIND, values(pagerduty), about())
    assert pagerduty.incidents == {KEY: "trigger"}
    follow(KIND, values(pagerduty), ACKED, receipt=first.receipt, quiet=True)
    assert pagerduty.incidents == {KEY: "acknowledge"}
    follow(KIND, values(pagerduty), RESOLVED, receipt=first.receipt)
    assert pagerduty.incidents == {KEY: "resolve"}


def test_an_event_says_what_to_do(pagerduty: PagerDutyService) -> None:
    """With links to the incident, to acknowledge and to silence it."""
    follow(KIND, values(pagerduty), about(alert={"resume": {"text": "ckpt_2900.pt"}}))
    (event,) = pagerduty.events
    assert event["payload"]["summary"] == "Critical: nonfinite-loss · mdt-fp16 · deblur"
    assert event["payload"]["custom_details"] == {
        "What": "mdt-fp16: Loss is NaN (nonfinite-loss, critical, since step 1790)",
        "Likely cause": "A bad batch.",
        "First action": "Skip the batch.",
        "Last good checkpoint": "ckpt_2900.pt",
    }
    assert [link["text"] for link in event["links"]] == ["Open", "Acknowledge", "Silence"]


def test_a_run_that_ended_broken_stays_open(pagerduty: PagerDutyService) -> None:
    """Even if its alerts no longer fire."""
    follow(KIND, values(pagerduty), about(), about("ended", reason="ended"))
    assert pagerduty.incidents == {KEY: "trigger"}


def test_an_outdated_resolution_does_not_close_an_incident(pagerduty: PagerDutyService) -> None:
    """Somebody retried it by hand after the incident had fired again."""
    follow(KIND, values(pagerduty), about(), RESOLVED, outdated=True)
    assert pagerduty.incidents == {KEY: "trigger"}


def test_nothing_stays_open_that_is_already_over(pagerduty: PagerDutyService) -> None:
    """A critical alert that is over before it is sent, and a test."""
    follow(KIND, values(pagerduty), about("resolved"))
    KIND.send(values(pagerduty), message_of("n7", "test", body(), LINKS), Sending(private=True))
    assert pagerduty.incidents == {KEY: "resolve", "tocsin-n7": "resolve"}


@pytest.mark.parametrize(
    ("answer", "permanent", "wait_s"),
    [
        ((429, {"Retry-After": "9"}, None), False, 9.0),
        ((500, {}, None), False, None),
        ((400, {}, {"status": "invalid event", "errors": ["x"]}), True, None),
    ],
)
def test_an_error_is_retried_unless_it_would_repeat(
    pagerduty: PagerDutyService,
    answer: tuple[int, dict[str, str], object],
    permanent: bool,
    wait_s: float | None,
) -> None:
    """A wait that the service asks for is respected."""
    pagerduty.failures.append(answer)
    with pytest.raises(DeliveryError) as caught:
        follow(KIND, values(pagerduty), about())
    assert (caught.value.permanent, caught.value.retry_after_s) == (permanent, wait_s)
