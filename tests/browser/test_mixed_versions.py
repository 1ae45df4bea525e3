"""Files of two versions, as after an upgrade of the server: the page reloads once, or says what to do."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.matrix import LONG, represented

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
SCRIPTS = re.compile(r"/assets/web-[^/]+/joined/(?!main|first)[^/]+\.js$")
"""What the first script imports."""
OLD = {"status": 200, "content_type": "text/javascript", "body": "export const old = 1;"}
"""A script of another version: it lacks what the page imports from it."""
ABSENT = {"status": 404}


@pytest.fixture
def page(shared_tower: Any, visit: Callable[..., Any]) -> Any:
    """A tab that counts how often it opens a page."""
    tab = visit(shared_tower, None)
    tab.page.opened = []
    tab.page.on("framenavigated", lambda frame: tab.page.opened.append(frame.url))
    yield tab.page
    tab.errors.clear()  # Chromium reports the scripts that this module breaks


def failing(page: Any, times: int, answer: dict[str, Any]) -> None:
    """Give another answer to the requests for scripts, while the page opens the next so many times."""
    last = len(page.opened) + times

    def instead(route: Any) -> None:
        route.fulfill(**answer) if len(page.opened) <= last else route.continue_()

    page.route(SCRIPTS, instead)


@pytest.mark.parametrize("answer", represented([ABSENT, OLD]))
def test_a_page_whose_script_fails_reloads_once(answer: dict[str, Any], page: Any, shared_tower: Any) -> None:
    """It is then complete."""
    failing(page, 1, answer)
    page.goto(f"{shared_tower.base}/settings")
    page.get_by_role("heading", name="Settings", level=1).wait_for()
    assert len(page.opened) == 2


def test_scripts_that_keep_failing_are_a_message(page: Any, shared_tower: Any) -> None:
    """No loop: after the second failure the page says what to do; its button loads it again."""
    failing(page, 10_000, OLD)
    page.goto(f"{shared_tower.base}/settings")
    page.get_by_role("heading", name="This page could not be loaded").wait_for()
    assert len(page.opened) == 2
    page.unroute(SCRIPTS)
    page.get_by_role("button", name="Reload").click()
    page.get_by_role("heading", name="Settings", level=1).wait_for()


@LONG
def test_a_part_that_is_loaded_later_fails(page: Any, shared_tower: Any) -> None:
    """As when the server was upgraded while the page was open: the address stays, all of the page is new."""
    page.goto(f"{shared_tower.base}/settings")
    page.get_by_role("heading", name="Settings", level=1).wait_for()
    failing(page, 1, ABSENT)
    page.get_by_role("link", name="Rules").click()
    page.get_by_role("heading", name="Rules", level=1).wait_for()
    assert page.opened[-1].endswith("/rules")
    assert page.evaluate("() => performance.getEntriesByType('navigation')[0].type") == "reload"


@LONG
def test_without_a_server_the_page_stays(page: Any, shared_tower: Any) -> None:
    """A reload would show an error of the browser."""
    page.goto(f"{shared_tower.base}/settings")
    page.get_by_role("heading", name="Settings", level=1).wait_for()
    page.route("**/*", lambda route: route.abort())
    page.get_by_role("link", name="Rules").click()
    page.get_by_text("The server does not answer.").wait_for()
    assert len(page.opened) == 2
