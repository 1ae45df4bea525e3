"""Take the screenshots in docs/img from the running demo: ``make screenshots``. Nothing in them is staged."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser import notebook_picture, terminal_pictures

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "img"
PATIENCE_MS = 600_000
SETTLE_MS = 4_000
SIZE = {"width": 1440, "height": 1180}
PHONE = {"width": 390, "height": 1400}
ALERTING = {
    "alerts": "/alerts",
    "silences": "/silences",
    "routes": "/routes",
    "channels": "/channels",
    "deliveries": "/deliveries",
    "settings": "/settings",
}
CHANNEL = """async () => { const headers = { "content-type": "application/json" };
    const body = JSON.stringify({ name: "this browser", kind: "browser" });
    await fetch("/api/v1/channels", { method: "POST", headers, body }); }"""
"""Create a channel as a user does, because nothing is sent without one."""
SILENCE = """async () => { const headers = { "content-type": "application/json" };
    const ends_ms = Date.now() + 6 * 3600e3, reason = "this clip is a ceiling on purpose";
    const body = JSON.stringify({ matchers: ['rule="clip-ineffective"'], ends_ms, reason });
    await fetch("/api/v1/silences", { method: "POST", headers, body }); }"""
"""Silence an alert that is expected in the demo."""
IDS = "async () => (await (await fetch('/api/v1/runs')).json()).items.map(({ id }) => encodeURIComponent(id))"


def close_toasts(page: Page) -> None:
    """Close the toasts, as a user does after reading them."""
    while (close := page.locator(".toast button").first).count():
        close.click()


def picture(browser: Browser, login: str, theme: str) -> None:
    """Take the page of the collapsed run and the fleet page, in one theme."""
    context = browser.new_context(viewport=SIZE, color_scheme=theme, locale="en-GB")  # type: ignore[arg-type]
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(login)
    page.get_by_text("restorer-fp16").first.click()
    page.locator("[data-alert]", has_text="Scaler collapse").first.wait_for()
    page.locator('[data-series="scale"] .faults', has_text="zero").first.wait_for()
    page.reload()  # without the toasts of the last minute
    page.wait_for_timeout(SETTLE_MS)
    close_toasts(page)
    page.screenshot(path=IMAGES / f"run-{theme}.png")
    page.goto(login.split("/login")[0])
    page.get_by_text("restorer-fp16").first.wait_for()
    page.wait_for_timeout(SETTLE_MS)
    close_toasts(page)
    page.screenshot(path=IMAGES / f"fleet-{theme}.png")
    compare(page, theme)
    incident(page, login.split("/login")[0], theme)
    alerting(page, login.split("/login")[0], theme)
    context.close()


def compare(page: Page, theme: str) -> None:
    """Take the comparison of all runs of the demo."""
    base, ids = page.url.rstrip("/"), page.evaluate(IDS)
    page.goto(f"{base}/compare?smooth=0.8&" + "&".join(f"run={name}" for name in ids))
    page.locator('[data-series="loss"] .plot .xy').first.wait_for()
    page.wait_for_timeout(SETTLE_MS)
    close_toasts(page)
    page.screenshot(path=IMAGES / f"compare-{theme}.png")


def incident(page: Page, base: str, suffix: str) -> None:
    """Take the page of the collapse, as a message opens it."""
    page.goto(f"{base}/alerts")
    page.locator("[role=option]", has_text="Scaler collapse").click()
    page.locator('#pane [data-act="open"]').click()
    page.locator('.onset [data-series="loss"] .plot .xy').first.wait_for()
    page.wait_for_timeout(SETTLE_MS)
    close_toasts(page)
    page.screenshot(path=IMAGES / f"incident-{suffix}.png")


def alerting(page: Page, base: str, suffix: str) -> None:
    """Take the inbox with an alert selected, and the other alerting pages."""
    for name, address in ALERTING.items():
        page.goto(base + address)
        page.locator("[role=option], article, .settings table").first.wait_for()
        page.wait_for_timeout(SETTLE_MS)
        close_toasts(page)
        page.screenshot(path=IMAGES / f"{name}-{suffix}.png")


def phone(browser: Browser, login: str) -> None:
    """Take the same pages on a phone."""
    context = browser.new_context(viewport=PHONE, color_scheme="light", locale="en-GB")  # type: ignore[arg-type]
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(login)
    page.get_by_text("restorer-fp16").first.click()
    page.locator('[data-series="loss"] .plot .xy').first.wait_for()
    page.wait_for_timeout(SETTLE_MS)
    close_toasts(page)
    page.screenshot(path=IMAGES / "run-phone.png")
    page.goto(login.split("/login")[0])
    page.get_by_text("restorer-fp16").first.wait_for()
    page.wait_for_timeout(SETTLE_MS)
    close_toasts(page)
    page.screenshot(path=IMAGES / "fleet-phone.png")
    compare(page, "phone")
    incident(page, login.split("/login")[0], "phone")
    alerting(page, login.split("/login")[0], "phone")
    context.close()


def login_link(demo: subprocess.Popen[str]) -> str:
    """Return the login link that the demo prints."""
    assert demo.stdout is not None
    for line in demo.stdout:
        if found := re.search(r"http\S+/login\?token=\S+", line):
            return found[0]
    raise SystemExit("the demo did not start")


def tell_this_browser(browser: Browser, login: str) -> None:
    """Create a channel and a silence before any alert fires."""
    page = browser.new_page()
    page.goto(login)
    page.evaluate(CHANNEL)
    page.evaluate(SILENCE)
    page.close()


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run a headless Chromium."""
    path = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def take(login: str) -> None:
    """Take both themes from the demo behind ``login``."""
    with chromium() as browser:
        tell_this_browser(browser, login)
        for theme in ("light", "dark"):
            picture(browser, login, theme)
        phone(browser, login)
        terminal_pictures.take(browser, login, IMAGES)
        notebook_picture.take(browser, login, IMAGES)


@contextmanager
def demo_running() -> Iterator[str]:
    """Run the demo; yield its login link."""
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", "tocsin_server", "demo", "--port", "0", "--data-dir", directory]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as demo:
            try:
                link = login_link(demo)
                threading.Thread(target=demo.stdout.read, daemon=True).start()  # type: ignore[union-attr]
                yield link
            finally:
                demo.send_signal(signal.SIGINT)
                demo.wait(timeout=60)


def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    with demo_running() as login:
        take(login)


if __name__ == "__main__":
    main()
