"""What a push message contains: within the size that push services accept, whatever the names are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.server.notify.channels.incident_messages import SENDING, about
from tocsin_server.notify.channels.push import KIND, PROJECT, payload
from tocsin_server.notify.outcome import DeliveryError
from tocsin_server.notify.web_push import MOST_PLAIN

LONG = "名" * 4000
INCIDENT = "r_1.f_1.0"


def message(**alert: Any) -> Any:
    """Return a decoded message about an incident."""
    written = payload(about(alert=alert, incident=INCIDENT), SENDING, 3)
    assert len(written) <= MOST_PLAIN
    return json.loads(written)


def test_a_message_names_its_incident_and_the_number_of_open_ones() -> None:
    found = message(incident=INCIDENT)
    assert (found["tag"], found["path"], found["open"]) == (INCIDENT, f"/incidents/{INCIDENT}", 3)


def test_long_texts_are_shortened() -> None:
    """The text first; the title only if that is not enough. The incident stays complete."""
    found = message(run_name=LONG, summary=LONG, project=LONG)
    assert found["title"].startswith("Critical: nonfinite-loss")
    assert found["tag"] == INCIDENT


def test_a_digest_leads_to_the_inbox() -> None:
    """It is about several incidents, so it replaces no other notification and acknowledges none."""
    found = json.loads(payload(about(), SENDING, 0))
    assert (found["path"], found["ack"], found["tag"]) == ("/alerts", "", "n1")


def test_without_a_subscribed_browser_only_a_test_fails() -> None:
    """Unsubscribing the last browser is a choice, not a failure."""
    sent = KIND.send({}, about(), SENDING)
    assert getattr(sent, "detail", sent) == "no browser is subscribed"
    test = about()
    object.__setattr__(test, "kind", "test")
    with pytest.raises(DeliveryError, match="Subscribe one in Settings"):
        KIND.send({}, test, SENDING)


def test_the_contact_for_push_services_is_an_https_address() -> None:
    """Some push services reject others."""
    assert PROJECT.startswith("https://")
