"""A chart embedded in another page, from the menu of the chart to a reader without a login."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
RUN = "r_embedded"
DARK = "rgb(17, 24, 27)"


@pytest.fixture(scope="module")
def run(shared_tower: Any, script: Callable[[str], str]) -> str:
    """A finished run."""
    with shared_tower.training(script("scripted"), "embedded <b>", RUN, "0", "40") as process:
        assert process.wait(120) == 0
    return RUN


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve a folder as another site, and yield its address."""
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def snippet(tab: Any) -> str:
    """Create the link in the menu of the loss, and return what is to be pasted."""
    tab.page.locator('[data-series="loss"] .menubutton').click()
    tab.page.get_by_role("menuitem", name="Embed…").click()
    tab.page.get_by_role("button", name="Create link").click()
    return str(tab.page.get_by_role("dialog", name="Link to embed Loss").locator("pre").inner_text())


def test_another_page_shows_the_chart_without_a_login(tab: Any, chromium: Browser, tmp_path: Path) -> None:
    """In its iframe is the drawing; nothing is written to the console, and no script may run there."""
    pasted = snippet(tab)
    context = chromium.new_context()
    page, written = context.new_page(), list[str]()
    page.on("console", lambda message: written.append(message.text))
    (tmp_path / "wiki.html").write_text(pasted)
    with serving(tmp_path) as base:
        page.goto(f"{base}/wiki.html")
        drawing = page.frame_locator("iframe").get_by_role("img", name="loss of embedded <b>, last step 39")
        drawing.wait_for()
        assert drawing.evaluate("svg => svg.getBoundingClientRect().width > 250")
    assert written == []
    context.close()


@pytest.mark.parametrize(
    ("system", "asked", "background"),
    [
        ("dark", "", DARK),
        ("light", "", "rgb(255, 255, 255)"),
        ("light", "dark", DARK),
    ],
)
def test_an_embedded_chart_follows_the_theme(
    system: Any, asked: str, background: str, shared_tower: Any, run: str, chromium: Browser
) -> None:
    """That of the reader's system, unless the address contains one."""
    path = shared_tower.post(f"/runs/{run}/embed", {"series": "loss"})["path"]
    context = chromium.new_context(color_scheme=system)
    page = context.new_page()
    page.goto(f"{shared_tower.base}{path}&theme={asked}")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == background
    context.close()


def test_a_link_is_revoked_in_the_settings(tab: Any, shared_tower: Any) -> None:
    """It shows the chart no longer; the row is gone."""
    snippet(tab)
    link = shared_tower.get("/embeds")["items"][0]
    tab.page.goto(f"{shared_tower.base}/settings")
    row = tab.page.locator(f'[data-embed="{link["id"]}"]')
    row.get_by_role("button", name="Revoke the link to loss").click()
    tab.page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    row.wait_for(state="detached")
    assert tab.page.context.request.get(shared_tower.base + link["path"]).status == 403


def test_a_reader_cannot_share(shared_tower: Any, run: str, tab: Any) -> None:
    """A token that may only read has no such item in the menu."""
    made = shared_tower.post("/tokens", {"name": "reader", "scope": "read"})
    page = tab.page
    page.context.clear_cookies()
    page.context.request.get(f"{shared_tower.base}/login?token={made['token']}")
    tab.open_run(run)
    page.locator('[data-series="loss"] .menubutton').click()
    page.get_by_role("menuitem", name="Show values").wait_for()
    assert page.get_by_role("menuitem", name="Embed…").count() == 0
