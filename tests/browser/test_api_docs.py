"""``/docs``: Swagger UI under the content security policy, without another host, usable by everyone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.browser.test_accessibility import violations_of
from tests.matrix import LONG
from tocsin_server.http import api_docs

pytestmark = pytest.mark.browser


@pytest.fixture
def opened(shared_tower: Any, visit: Callable[..., Any]) -> Any:
    """The page with two open routes, one of them requested; what the console said and what was loaded."""
    tab = visit(shared_tower)
    tab.said, tab.loaded = [], []
    tab.page.on("console", lambda message: tab.said.append(message.text))
    tab.page.on("request", lambda request: tab.loaded.append(request.url))
    tab.page.goto(f"{shared_tower.base}/docs")
    tab.page.locator(".opblock-summary-control", has_text="/api/v1/about").click()
    tab.page.get_by_role("button", name="Execute").click()
    tab.page.locator(".live-responses-table", has_text='"version"').wait_for()
    tab.page.locator(".opblock-post .opblock-summary-control", has_text="/api/v1/channels").first.click()
    tab.page.locator("textarea").first.wait_for()
    return tab


@LONG
def test_routes_can_be_tried_and_nothing_is_wrong(opened: Any, shared_tower: Any) -> None:
    """No message in the console, no request to another host, no violation of axe-core's rules."""
    assert opened.said == []
    assert [url for url in opened.loaded if not url.startswith((shared_tower.base, "data:"))] == []
    assert violations_of(opened) == []


def test_the_theme_is_the_one_chosen_on_other_pages(shared_tower: Any, visit: Callable[..., Any]) -> None:
    """Whatever the system's is. The settings lead here."""
    page = visit(shared_tower, None).page
    page.emulate_media(color_scheme="light")
    page.goto(f"{shared_tower.base}/settings")
    page.evaluate("localStorage.setItem('tocsin.theme', 'dark')")
    page.get_by_role("link", name="Routes and schemas").click()
    page.locator("html.dark-mode").wait_for()
    page.wait_for_url(f"{shared_tower.base}/docs")


def test_the_page_needs_a_login(shared_tower: Any) -> None:
    answer = httpx.get(f"{shared_tower.base}/docs")
    assert answer.status_code == 401
    assert 'value="/docs"' in answer.text


def test_only_its_own_files_are_served(shared_tower: Any) -> None:
    address = f"{shared_tower.base}{api_docs.ASSETS}"
    assert httpx.get(f"{address}swagger-ui.css").status_code == 200
    assert [httpx.get(address + name).status_code for name in ("LICENSE", "..%2Fapi_docs.py")] == [404, 404]
