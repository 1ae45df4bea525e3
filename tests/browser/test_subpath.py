"""tocsin at a subpath, behind a real nginx that removes the path or keeps it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.conftest import Tower
from tests.matrix import LONG
from tests.reverse_proxy import NGINX, free_port, reverse_proxy

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]


class ProxiedTower(Tower):
    """A server that browsers, training processes and tests reach only through its proxy."""

    public = ""

    @property
    def base(self) -> str:
        return self.public


@pytest.fixture(
    scope="module", params=[pytest.param(False, id="left on", marks=LONG), pytest.param(True, id="stripped")]
)
def proxied(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[ProxiedTower]:
    if NGINX is None:
        pytest.skip("nginx is not installed here (`make test` unpacks it where apt-get can fetch it)")
    tower = ProxiedTower(tmp_path_factory.mktemp("proxied"))
    port, tower.port = free_port(), free_port()
    tower.public = f"http://127.0.0.1:{port}/tocsin"
    tower.options = ("--public-url", tower.public)
    with contextlib.ExitStack() as stack:
        stack.enter_context(reverse_proxy(tower.directory, port, tower.port, strips=request.param))
        stack.callback(tower.stop)
        tower.start()
        yield tower


@pytest.fixture(scope="module")
def alert(proxied: ProxiedTower, alerting: Callable[..., Any]) -> Iterator[str]:
    """An alert of a training that reports through the proxy."""
    with alerting(proxied, "r_1", "behind a proxy") as found:
        yield found


@pytest.fixture
def tab(proxied: ProxiedTower, alert: str, visit: Callable[..., Any]) -> Iterator[Any]:
    """A tab logged in with the login link. All requests of its pages are below the path."""
    opened, asked = visit(proxied), list[str]()
    opened.page.on("request", lambda request: asked.append(request.url))
    opened.page.on("websocket", lambda socket: asked.append(socket.url))
    opened.page.goto(f"{proxied.base}/")
    yield opened
    assert len(asked) > 10
    assert [url for url in asked if not url.partition("://")[2].partition("/")[2].startswith("tocsin/")] == []


def test_the_fleet_leads_to_the_run_and_the_run_is_live(tab: Any, proxied: ProxiedTower) -> None:
    """Through the links of the pages; new steps arrive over the live socket."""
    assert urlsplit(tab.page.url).path == "/tocsin/"
    tab.page.get_by_role("link", name="behind a proxy").first.click()
    tab.page.wait_for_url(f"{proxied.base}/runs/r_1")
    tab.page.locator('[data-series="loss"] .plot .xy').first.wait_for()
    tab.until_step(tab.step() + 5)


def test_an_alert_is_acknowledged_in_the_inbox(
    tab: Any, proxied: ProxiedTower, alert: str, eventually_true: Callable[..., Any]
) -> None:
    """The inbox opens by the header's link and the alert is acknowledged by keyboard."""
    tab.page.get_by_role("navigation", name="Pages").get_by_role("link", name="Alerts").click()
    tab.page.locator(f'[role=option][data-alert="{alert}"]').click()
    tab.page.keyboard.press("a")
    tab.page.get_by_role("dialog").get_by_label("Note").fill("looking at it")
    tab.page.keyboard.press("Enter")
    eventually_true(lambda: proxied.get(f"/alerts/{alert}/history")["marks"]["ack"], "the acknowledgement")


def test_every_page_opens_by_its_address(tab: Any, proxied: ProxiedTower) -> None:
    """Each page is marked as the current one in the header."""
    for page in ("compare", "rules", "silences", "routes", "channels", "deliveries", "settings"):
        tab.page.goto(f"{proxied.base}/{page}")
        tab.page.locator("main h1, main h2, main .card").first.wait_for()
        marked = tab.page.locator("header [aria-current=page]").first.get_attribute("href")
        assert marked.startswith("/tocsin/")


@LONG
def test_links_of_the_run_download_files(tab: Any, proxied: ProxiedTower) -> None:
    """A click on the report's link downloads it."""
    tab.open_run("r_1")
    with tab.page.expect_download() as saved:
        tab.page.evaluate("document.querySelector('a[download][href*=\"/report\"]').click()")
    assert saved.value.url.startswith(f"{proxied.base}/api/v1/runs/r_1/report")


@LONG
def test_logging_out_ends_at_the_login_page(tab: Any, proxied: ProxiedTower) -> None:
    """Its form logs in again and returns to the requested page."""
    tab.page.evaluate("fetch('/tocsin/logout', { method: 'POST' })")
    tab.page.goto(f"{proxied.base}/rules")
    tab.page.get_by_label("Or paste a token").fill(proxied.token)
    tab.page.get_by_role("button", name="Log in").click()
    tab.page.wait_for_url(f"{proxied.base}/rules")
    tab.page.locator("header [aria-current=page]", has_text="Rules").wait_for()
