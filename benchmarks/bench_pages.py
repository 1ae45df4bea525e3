"""Measure how fast the pages of many runs and of a very long run respond, in a real Chromium.

``bench_pages.py fleet compare zoom`` measures these only. Each time is measured by the page's own clock, from
the click or the start of the navigation to the first frame with the result; the median of several counts.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright
from sqlalchemy import make_url

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.bench_fleet import ended, started
from benchmarks.bench_store import BATCH, Bench, vitals
from benchmarks.figures import figure
from tests.browser import crowd
from tests.conftest import Tower, tower_in
from tocsin_server.core.models import WriteBatch

LIVE_RUNS, PROCESSES = 2000, 2
STEPS_PER_S = 0.5
"""Of each live run: 1,000 steps per second in all."""
COMPARED = (100, 500)
HUGE_STEPS = 10_000_000
ROUNDS = 5
QUIET_MS = 3000
"""A comparison is complete once it has not changed for so long."""
PATIENCE_MS = 120_000
FIRST_ROW = "() => document.querySelector('[data-run] .name a') && performance.now()"
FILTERED = """async (text) => {
    const field = document.querySelector("[aria-label='Filter runs']");
    const shown = () => [...document.querySelectorAll("[data-run] .name a")].map((each) => each.textContent);
    const began = performance.now();
    field.value = text;
    field.dispatchEvent(new Event("input", { bubbles: true }));
    do await new Promise(requestAnimationFrame);
    while (!shown().length || !shown().every((name) => name.includes(text)));
    return performance.now() - began;
}"""
SORTED = """async () => {
    const first = () => document.querySelector("[data-run] .name a")?.textContent;
    const before = first(), began = performance.now();
    document.querySelector("[data-sort=name]").click();
    do await new Promise(requestAnimationFrame); while (!first() || first() === before);
    return performance.now() - began;
}"""
COMPLETE = """async ([runs, quiet]) => {
    const state = () => {
        const rows = [...document.querySelectorAll("tr[data-run]")];
        const value = (row) => row.querySelector("td.value")?.textContent ?? "";
        const known = rows.filter((row) => /\\d/.test(value(row))).length;
        const data = document.querySelector("[data-series=loss] .plot")?.data ?? [];
        return [known, data.reduce((sum, each) => sum + (each.x?.length ?? 0), 0)];
    };
    let last = "", first = 0, changed = 0;
    while (!changed || performance.now() - changed < quiet || JSON.parse(last)[0] < runs) {
        const now = JSON.stringify(state());
        if (now !== last) [last, changed] = [now, performance.now()];
        if (!first && JSON.parse(now)[1]) first = changed;
        await new Promise((resolve) => setTimeout(resolve, 30));
    }
    return [first, changed];
}"""
"""When the chart got its first values, and when table and chart changed last."""
POINTS = """() => {
    const plot = document.querySelector("[data-series=loss] .plot");
    const [from, to] = plot.layout.xaxis.range.map(Number);
    return Math.max(...plot.data.map((each) =>
        Array.from(each.x ?? []).filter((x) => x >= from && x <= to).length));
}"""
SHARPENED = f"""async (enough) => {{
    const points = {POINTS};
    await new Promise((resolve) => addEventListener("mouseup", resolve, {{ once: true, capture: true }}));
    const began = performance.now();
    do await new Promise(requestAnimationFrame); while (points() < enough);
    return performance.now() - began;
}}"""
SHARP = 500
"""Points in the window; before the zoom it has fewer."""


def fleet(page: Page, tower: Tower) -> None:
    """Measure the fleet page of many live runs: its first rows, a filter and a sort."""
    with contextlib.ExitStack() as stack:
        each = LIVE_RUNS // PROCESSES
        words = [(str(no * each), str(each), str(STEPS_PER_S)) for no in range(PROCESSES)]
        loads = [started(stack, "fleet_trainers.py", tower.base, tower.token, *one) for one in words]
        rows, filters, sorts = [], [], []
        for no in range(ROUNDS + 1):
            page.goto(tower.base)
            rows.append(float(page.wait_for_function(FIRST_ROW).json_value()) / 1e3)
            page.get_by_label("Group by").select_option("none")
            page.wait_for_timeout(1000)
            page.locator("[data-sort=name]").click()
            page.wait_for_timeout(1000)
            sorts.append(float(page.evaluate(SORTED)))
            filters.append(float(page.evaluate(FILTERED, f"{no + 1}9")))
        for load in loads:
            ended(load)
    print(
        f"{LIVE_RUNS:,} live runs: first rows {median(rows[1:]):.2f} s (first visit {rows[0]:.2f} s), ",
        end="",
    )
    print(f"filter {median(filters):.0f} ms, sort {median(sorts):.0f} ms (targets 1 s, 100 ms, 100 ms)")
    figure("fleet of 2,000 live runs, first rows", median(rows[1:]), "s")
    figure("fleet of 2,000 live runs, filter", median(filters), "ms")
    figure("fleet of 2,000 live runs, sort", median(sorts), "ms")


def compare(page: Page, tower: Tower) -> None:
    """Measure a comparison of many runs, from the navigation until all of them are drawn and listed."""
    for runs in COMPARED:
        picked = "&".join(f"run=c_{no:04}" for no in range(runs))
        times = []
        for _ in range(3):
            page.goto(f"{tower.base}/compare?{picked}")
            times.append(page.evaluate(COMPLETE, [runs, QUIET_MS]))
        first, last = (median(each) / 1e3 for each in zip(*times, strict=True))
        print(f"comparison of {runs} runs: first line {first:.2f} s, all {last:.2f} s")
        figure(f"compare {runs} runs, first line", first, "s")
        figure(f"compare {runs} runs", last, "s")


def zoom(page: Page, tower: Tower) -> None:
    """Measure the time from the end of a drag in the loss of a very long run to its finer values."""
    times = []
    for no in range(ROUNDS):
        page.goto(f"{tower.base}/runs/huge")
        area = page.locator('[data-series="loss"] .nsewdrag').first
        area.wait_for()
        page.wait_for_timeout(1000)
        box: Any = area.bounding_box()
        page.mouse.move(box["x"] + 200 + 60 * no, box["y"] + 40)
        page.mouse.down()
        page.mouse.move(box["x"] + 240 + 60 * no, box["y"] + 40, steps=5)
        assert page.evaluate(POINTS) > SHARP
        page.evaluate(f"() => {{ globalThis.sharpened = ({SHARPENED})({SHARP}); }}")
        page.mouse.up()
        times.append(float(page.evaluate("() => sharpened")))
    print(f"zoom into {HUGE_STEPS:,} steps: {median(times):.0f} ms (target 150 ms)")
    figure("zoom into a run of 10 M steps", median(times), "ms")


def make_huge(directory: Path) -> None:
    """Store a run of ten million steps that has ended."""
    bench = Bench(make_url(f"sqlite:///{directory / 'tocsin.db'}"))
    writer = bench.writer("huge")
    bench.grow(writer, bench.batches(writer, 0, HUGE_STEPS, vitals, 20 * BATCH))
    bench.store.submit(WriteBatch(writer.run_id, changes={"state": "finished"}))
    bench.close()


def make_crowd(directory: Path) -> None:
    """Store many ended runs."""
    crowd.store(directory / "tocsin.db", max(COMPARED))


MEASURES: dict[str, tuple[Callable[[Page, Tower], None], Callable[[Path], None] | None]] = {
    "compare": (compare, make_crowd),
    "zoom": (zoom, make_huge),
    "fleet": (fleet, None),
}
"""Each measurement, and what it needs in the database before the server starts."""


def measure(browser: Browser, name: str) -> None:
    """Run one measurement with a separate server and browser profile."""
    take, prepare = MEASURES[name]
    with tempfile.TemporaryDirectory() as place, tower_in(Path(place)) as tower:
        if prepare is not None:
            tower.stop()
            prepare(Path(place))
            tower.start()
        context = browser.new_context(viewport={"width": 1440, "height": 1200}, locale="en-GB")
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        context.request.get(tower.login)
        take(page, tower)
        context.close()


def main() -> None:
    """Run the chosen measurements, by default all."""
    path = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for name in sys.argv[1:] or MEASURES:
            measure(browser, name)
        browser.close()


if __name__ == "__main__":
    main()
