"""Deliveries: failures are shown on every page, the log has each attempt, Retry sends again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.browser.conftest import notify_at_once
from tests.conftest import tower_in
from tests.server.receiver import Receiver

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
CHANNEL = "chat <b>of the lab</b>"


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    """A receiver that rejects permanently until it is reconfigured."""
    made = Receiver([404])
    yield made
    made.close()


@pytest.fixture(scope="module")
def notifying(
    tmp_path_factory: pytest.TempPathFactory, receiver: Receiver, alerting: Callable[..., Any]
) -> Iterator[Any]:
    """A server that notifies the receiver of one run with an alert."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOCSIN_NOTIFY_PRIVATE_ADDRESSES", "true")
        with tower_in(tmp_path_factory.mktemp("tower")) as tower:
            notify_at_once(tower)
            yield tower


@pytest.fixture
def tab(notifying: Any, visit: Callable[..., Any], receiver: Receiver, alerting: Callable[..., Any]) -> Any:
    """A fleet page that was opened before anything was sent."""
    opened = visit(notifying, None)
    config = {"url": f"{receiver.url}/x"}
    notifying.post("/channels", {"name": CHANNEL, "kind": "webhook", "config": config})
    opened.page.goto(notifying.base)
    with alerting(notifying, "r_delivered"):
        yield opened


def test_a_failed_delivery_is_shown_on_every_page_and_retried(
    tab: Any, notifying: Any, receiver: Receiver
) -> None:
    """Badge and reason appear automatically; the log has the attempt; after Retry everything is healthy."""
    page = tab.page
    badge = page.locator(".undelivered")
    badge.wait_for()
    note = page.locator(".deliverynote")
    note.get_by_text(CHANNEL).wait_for()
    note.get_by_role("button", name="Dismiss").click()
    for address in ("/compare", "/settings", "/runs/r_delivered"):
        page.goto(notifying.base + address)
        badge.wait_for()
    badge.click()
    page.wait_for_url("**/deliveries?state=failed,waiting")
    failed = page.locator("article[data-delivery]", has_text="given up").first
    failed.get_by_text("1 attempt", exact=True).click()
    failed.locator(".attempts").get_by_text("404").wait_for()
    failed.get_by_text("Message", exact=True).click()
    failed.locator(".message", has_text="Likely cause").wait_for()
    assert page.get_by_text(CHANNEL).count() > 0
    receiver.answers[:] = [200]
    failed.get_by_role("button", name="Retry").click()
    page.get_by_role("button", name="Sent").click()
    page.locator("article[data-delivery]", has_text="2 attempts").first.wait_for()
    badge.wait_for(state="hidden")
    page.goto(f"{notifying.base}/channels")
    page.get_by_text("last notified").first.wait_for()
