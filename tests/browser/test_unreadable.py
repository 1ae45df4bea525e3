"""Stored routes and silences that this version cannot read: the server starts, and their pages show
errors."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from tocsin_server.core.settings import Settings
from tocsin_server.notify.routing import plain, read_routing
from tocsin_server.store import notification_config
from tocsin_server.store.database import open_database

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
PATTERN = 'rule=~"(?x)(a+) +b"'


@pytest.fixture
def left_by_an_older_one(tower: Any) -> Any:
    """A server whose database has a silence and a route with a pattern that only Python's engine accepts."""
    tower.stop()
    now_ns = time.time_ns()
    row = notification_config.SilenceRow(
        "s_old", [PATTERN], now_ns, now_ns + 10**13, "ann", "maintenance", now_ns
    )
    document = plain(read_routing({"routes": [{"name": "old"}]}))
    document["routes"][0]["matchers"] = [PATTERN]
    database = open_database(Settings(data_dir=tower.directory).url)
    with database.engine.begin() as connection:
        notification_config.put_silence(connection, row)
        notification_config.write_choice(connection, notification_config.ROUTING, document, now_ns)
    database.close()
    tower.start()
    return tower


def test_pages_show_which_parts_are_ignored(left_by_an_older_one: Any, visit: Callable[..., Any]) -> None:
    """The page shows the reason. After a corrected route is saved, the notice disappears."""
    page = visit(left_by_an_older_one, None).page
    page.goto(f"{left_by_an_older_one.base}/silences")
    page.get_by_role("article", name="Silence: maintenance").get_by_text("Ignored").wait_for()
    page.goto(f"{left_by_an_older_one.base}/routes")
    notice = page.get_by_role("alert").filter(has_text="These parts cannot be read")
    notice.get_by_text("routes[0].matchers[0]").wait_for()
    page.locator('[data-field="routes[0].matchers"]').fill('severity="critical"')
    page.get_by_role("button", name="Save").click()
    page.get_by_text("All changes saved").wait_for()
    notice.wait_for(state="hidden")
    assert left_by_an_older_one.get("/routes")["problems"] == []
    assert "Silence s_old is ignored" in left_by_an_older_one.log.read_text("utf-8")
