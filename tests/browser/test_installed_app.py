"""tocsin as an installed app, below a path: manifest, icons, and pages while the server is down."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page

from tests.browser.conftest import Launched
from tests.conftest import Tower
from tests.matrix import LONG
from tests.reverse_proxy import free_port

pytestmark = [LONG, pytest.mark.browser, pytest.mark.timeout(600)]
SCOPE = "() => navigator.serviceWorker.ready.then(({ scope, active }) => [scope, active.scriptURL])"


class TowerBelowPath(Tower):
    """A server as behind a proxy that leaves the path on."""

    @property
    def base(self) -> str:
        return f"{super().base}/tocsin"


@pytest.fixture(scope="module")
def launched(complete_chromium: Launched) -> Launched:
    """The headless shell has neither notifications nor push messages."""
    return complete_chromium


@pytest.fixture(scope="module")
def below(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TowerBelowPath]:
    tower = TowerBelowPath(tmp_path_factory.mktemp("below"))
    tower.port = free_port()
    tower.options = ("--public-url", tower.base)
    tower.start()
    yield tower
    tower.stop()


@pytest.fixture
def page(below: TowerBelowPath, visit: Callable[..., Any]) -> Page:
    """The fleet, once its service worker is active."""
    opened: Page = visit(below, None).page
    opened.goto(f"{below.base}/")
    opened.evaluate(SCOPE)
    return opened


def test_the_browser_can_install_it(page: Page, below: TowerBelowPath) -> None:
    """Chromium finds no error in the manifest, which begins at the path; all icons exist."""
    devtools = page.context.new_cdp_session(page)
    found = devtools.send("Page.getAppManifest")
    assert (found["url"], found["errors"]) == (f"{below.base}/manifest.webmanifest", [])
    assert found["manifest"]["startUrl"] == found["manifest"]["scope"] == f"{below.base}/"
    errors = devtools.send("Page.getInstallabilityErrors")["installabilityErrors"]
    assert [each["errorId"] for each in errors] == ["in-incognito"]  # as every tab of the tests is
    for icon in json.loads(found["data"])["icons"]:
        answer = httpx.get(f"{below.base}/{icon['src']}")
        assert (answer.status_code, answer.headers["content-type"]) == (200, icon["type"])


def test_the_service_worker_controls_only_the_path(page: Page, below: TowerBelowPath) -> None:
    """Other sites of the host are not affected."""
    assert page.evaluate(SCOPE) == [f"{below.base}/", f"{below.base}/service-worker.js"]


def test_a_page_opened_while_the_server_is_down_says_so_and_returns(
    page: Page, below: TowerBelowPath
) -> None:
    """At its own address, styled, and without a click once the server is back."""
    below.stop()
    try:
        page.goto(f"{below.base}/alerts")
        page.get_by_text("The server cannot be reached").wait_for()
        assert page.evaluate("() => getComputedStyle(document.querySelector('main')).maxWidth") != "none"
    finally:
        below.start()
    page.locator("header [aria-current=page]", has_text="Alerts").wait_for()
    assert page.url == f"{below.base}/alerts"
