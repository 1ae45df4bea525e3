"""Record docs/img/demo.webp, the animation in README.md, from the running demo: ``make animation``.

It shows the pages of a real server while a real training collapses, faster than in reality.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, ViewportSize

from tests.browser.screenshots import IMAGES, PATIENCE_MS, chromium, close_toasts, demo_running

OUT = IMAGES / "demo.webp"
SIZE: ViewportSize = {"width": 1280, "height": 860}
WIDTH = 960
"""Pixels of the picture, which GitHub shows at about this width."""
EVERY_MS = 900
"""Between two screenshots."""
FRAME_MS = 180
"""How long each screenshot is shown."""
FIRST_MS, LAST_MS = 1200, 4000
OVERVIEW_FRAMES, AFTER_FRAMES = 6, 8
LONGEST_S = 420
QUALITY = 62
LIMIT_BYTES = 1_500_000


def frame(page: Page) -> Image.Image:
    """Return a screenshot, as small as the picture."""
    shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    return shot.resize((WIDTH, shot.height * WIDTH // shot.width), Image.Resampling.LANCZOS)


def frames_of(page: Page, count: int) -> Iterator[Image.Image]:
    """Yield ``count`` screenshots."""
    for _ in range(count):
        yield frame(page)
        page.wait_for_timeout(EVERY_MS)


def frames_until(page: Page, is_over: Callable[[], bool]) -> Iterator[Image.Image]:
    """Yield screenshots until a condition is true."""
    ends = time.monotonic() + LONGEST_S
    while not is_over():
        if time.monotonic() > ends:
            raise SystemExit("The training of the demo did not collapse in time. Is the machine busy?")
        yield frame(page)
        page.wait_for_timeout(EVERY_MS)


def recorded(page: Page, login: str) -> list[Image.Image]:
    """Return the frames: all runs, then the run that collapses, until its diagnosis is there."""
    page.set_default_timeout(PATIENCE_MS)
    page.goto(login)
    run = page.get_by_text("restorer-fp16").first
    run.wait_for()
    frames = list(frames_of(page, OVERVIEW_FRAMES))
    run.click()
    page.locator('[data-series="loss"] .plot .xy').first.wait_for()
    collapse = page.locator("[data-alert]", has_text="Scaler collapse").first
    frames += frames_until(page, collapse.is_visible)
    frames += frames_of(page, AFTER_FRAMES)
    close_toasts(page)
    page.wait_for_timeout(EVERY_MS)
    return [*frames, frame(page)]


def save(frames: list[Image.Image], path: Path) -> None:
    """Write the frames as one animated picture that repeats."""
    lasting = [FRAME_MS] * len(frames)
    lasting[0], lasting[-1] = FIRST_MS, LAST_MS
    frames[0].save(
        path, save_all=True, append_images=frames[1:], duration=lasting, loop=0, quality=QUALITY, method=6
    )
    if path.stat().st_size > LIMIT_BYTES:
        raise SystemExit(f"{path} has {path.stat().st_size:,} bytes, more than {LIMIT_BYTES:,}.")


def main() -> None:
    with demo_running() as login, chromium() as browser:
        context = browser.new_context(viewport=SIZE, color_scheme="light", locale="en-GB")
        frames = recorded(context.new_page(), login)
    save(frames, OUT)
    print(f"{OUT}: {len(frames)} frames, {OUT.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
