"""Measure the pages in a real Chromium: size, first chart of a long run, updates, memory.

Everything is real: the server, its socket, and records sent as clients send them. Times depend on the other
load of the machine; the tasks' own time is the CPU time of the page's main thread.
``bench_browser.py updates memory`` measures these only.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import numpy as np
from playwright.sync_api import Browser, CDPSession, Page, sync_playwright
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import tocsin  # noqa: E402
from benchmarks.bench_fleet import PROCESSES, TRAINERS, ended, started  # noqa: E402
from benchmarks.figures import figure  # noqa: E402
from tests.conftest import Tower, tower_in  # noqa: E402
from tocsin import protocol  # noqa: E402

LONG_RUN = 1_000_000
BATCH = 2_000
RUNS, RATE, SERIES = 4, 10, ("act/a", "act/b", "act/c", "act/d")
WATCHED_S = 20
OPENED = 5
"""How often a page is opened; the median counts."""
HOUR_STEPS = 36_000
"""An hour at ten steps a second."""
PATIENCE_MS = 300_000
LONG_TASKS = """() => {
    globalThis.tasks = [];
    const note = (list) => tasks.push(...list.getEntries().map((each) => each.duration));
    new PerformanceObserver(note).observe({ type: "longtask", buffered: false });
}"""
WEIGHT = """() => ["resource", "navigation"].flatMap((kind) => performance.getEntriesByType(kind))
    .filter(({ name }) => !name.includes("plotly"))
    .reduce(([sent, plain, files], each) =>
        [sent + each.transferSize, plain + each.decodedBodySize, files + 1], [0, 0, 0])"""
DRAWN = """() => {
    globalThis.drawn = [];
    let newest = 0;
    const look = () => {
        const values = document.querySelector('[data-series=sent] .js-plotly-plot').data[0].y;
        const now = Date.now() / 1000, before = newest;
        for (const value of values) {
            if (value > before) drawn.push(now - value);
            newest = Math.max(newest, value);
        }
        requestAnimationFrame(look);
    };
    look();
    drawn.length = 0;
}"""
"""Notes how old each value of the series `sent`, a wall clock in seconds, is at the first frame with it."""
FIRST_CHART = """() => document.querySelector('[data-series=loss] .plot :is(.sketch path, .xy)')
    ?.checkVisibility({ visibilityProperty: true }) && performance.now()"""


class Reporter:
    """A simple client: it sends a handshake and whole batches."""

    def __init__(self, tower: Tower, run: str) -> None:
        url = tower.base.replace("http", "ws", 1) + protocol.PATH
        self.socket = connect(url, compression=None, max_size=None).__enter__()
        writer = protocol.WriterId("first", 0, "boot", 100, 1)
        reported = {"project": "bench", "name": run, "run": run, "host": "bench", "world_size": 1}
        hello = protocol.Hello(
            version=1,
            token=tower.token,
            writer=writer,
            time_ns=time.time_ns(),
            **reported,  # type: ignore[arg-type]
        )
        self.socket.send(protocol.encode(hello))
        self.sent = self.acked = 0
        threading.Thread(target=self._hear, daemon=True).start()

    def _hear(self) -> None:
        with contextlib.suppress(ConnectionClosed):
            for frame in self.socket:
                message = protocol.decode_server(frame)  # type: ignore[arg-type]
                if isinstance(message, protocol.Ack):
                    self.acked = message.seq + 1

    def report(self, count: int, extra: Sequence[str] = ()) -> None:
        """Send the next ``count`` steps, with four vital signs and ``extra`` series."""
        steps = np.arange(self.sent, self.sent + count)
        noise = np.random.default_rng(self.sent).normal(0, 0.02, count)
        columns = {"loss": 1 / (1 + steps / 1e4) + noise, "grad_norm": 1 + np.abs(noise)}
        columns |= {"scale": np.full(count, 65536.0), "lr": np.full(count, 1e-3)}
        columns |= dict.fromkeys(extra, noise)
        packed: dict[str, protocol.Column] = {k: v.astype("<f8").tobytes() for k, v in columns.items()}
        times = time.time_ns() + np.arange(count) * 1000
        self.socket.send(
            protocol.encode(
                protocol.Records(
                    self.sent, count, steps.astype("<i8").tobytes(), times.astype("<i8").tobytes(), packed
                )
            )
        )
        self.sent += count

    def settle(self, behind: int = 0) -> None:
        """Wait until all but ``behind`` records are durable."""
        while self.acked < self.sent - behind:
            time.sleep(0.01)


@contextmanager
def steadily(reporters: list[Reporter], per_second: int) -> Iterator[None]:
    """Make all of them report in the background."""
    over = threading.Event()

    def go() -> None:
        while not over.wait(1 / per_second):
            for reporter in reporters:
                reporter.report(1, SERIES)

    thread = threading.Thread(target=go)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def metric(session: CDPSession, name: str) -> float:
    """Return one of Chromium's metrics of the page."""
    return next(
        float(each["value"])
        for each in session.send("Performance.getMetrics")["metrics"]
        if each["name"] == name
    )


def heap_mb(session: CDPSession) -> float:
    """Return the JavaScript heap size in MB after a garbage collection."""
    session.send("HeapProfiler.collectGarbage")
    return metric(session, "JSHeapUsedSize") / 1e6


def watched(page: Page) -> CDPSession:
    """Return a Chromium session that measures a page; durations are CPU time of its main thread."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    return session


def weight(page: Page, tower: Tower, _run: str) -> None:
    """Measure the bytes of the first visit, without plotly.js."""
    for name, address, there in (
        ("fleet", "/", "[data-run]"),
        ("run", "/runs/long", '[data-series="loss"] .xy'),
    ):
        page.goto(tower.base + address)
        page.locator(there).first.wait_for()
        sent, plain, files = page.evaluate(WEIGHT)
        size = f"{sent / 1e3:.0f} kB sent, {plain / 1e3:.0f} kB unpacked, {files} files"
        print(f"{name} page besides plotly.js: {size}")
        figure(f"page weight, {name} page", sent / 1e3, "kB", ratio=True)


def first_chart(page: Page, tower: Tower, _run: str) -> None:
    """Measure the time to the first chart of a run of a million steps, with an empty and a full cache."""
    browser = page.context.browser
    assert browser is not None
    cold, warm = list[float](), list[float]()
    for _ in range(OPENED):
        context = browser.new_context(viewport={"width": 1440, "height": 1200}, locale="en-GB")
        context.request.get(tower.login)
        fresh = context.new_page()
        for times in (cold, warm):
            fresh.goto(f"{tower.base}/runs/long")
            times.append(float(fresh.wait_for_function(FIRST_CHART).json_value()) / 1e3)
        context.close()
    print(f"first chart of a run of {LONG_RUN:,} steps, median of {OPENED}: ", end="")
    print(f"cold {median(cold):.2f} s, warm {median(warm):.2f} s (targets 0.8 and 0.3)")
    figure("first chart of a run of 1 M steps, cold cache", median(cold), "s")
    figure("first chart of a run of 1 M steps, warm cache", median(warm), "s")


def traced(page: Page, seconds: float) -> float:
    """Return the CPU time in ms of the page's longest task within ``seconds``.

    Wall time is not used, because it includes waiting for other processes of the machine.
    """
    browser = page.context.browser
    assert browser is not None
    browser.start_tracing(page=page, categories=["toplevel", "devtools.timeline"])
    page.wait_for_timeout(seconds * 1000)
    events = json.loads(browser.stop_tracing())["traceEvents"]
    ours = Counter((one["pid"], one["tid"]) for one in events if one["name"] == "FunctionCall")
    (thread, _calls), *_ = ours.most_common(1)
    tasks = [one for one in events if one["name"].endswith("RunTask") and (one["pid"], one["tid"]) == thread]
    return max(float(one.get("tdur", 0)) for one in tasks) / 1000


def updates(page: Page, tower: Tower, _run: str) -> None:
    """Measure eight panels of four runs, fed ten steps per second each, drawn at most four times per
    second."""
    reporters = [Reporter(tower, f"live{i}") for i in range(RUNS)]
    for reporter in reporters:
        reporter.report(2_000, SERIES)
        reporter.settle()
    picked = "&".join(
        itertools.chain((f"run=live{i}" for i in range(RUNS)), (f"series={name}" for name in SERIES))
    )
    page.set_viewport_size({"width": 1600, "height": 1900})
    session = watched(page)
    with steadily(reporters, RATE):
        page.goto(f"{tower.base}/compare?{picked}")
        page.wait_for_function("() => document.querySelectorAll('.plot .plot-container').length === 8")
        page.wait_for_timeout(2_000)
        page.evaluate(LONG_TASKS)
        began, busy = time.monotonic(), metric(session, "TaskDuration")
        longest_cpu = traced(page, WATCHED_S)
        spent, took = metric(session, "TaskDuration") - busy, time.monotonic() - began
    tasks = page.evaluate("() => tasks")
    share, longest = 100 * spent / took, max(tasks, default=0)
    print(f"8 panels x {RUNS} runs, {RATE} steps/s each, {took:.0f} s: ", end="")
    print(f"{share:.0f} % CPU of the main thread, ", end="")
    print(
        f"longest task {longest_cpu:.0f} ms of CPU (target: none above 50 ms), {longest:.0f} ms by the clock"
    )
    figure("longest task of 8 panels x 4 runs", longest_cpu, "ms")
    figure("page's main thread, 8 panels x 4 runs", share, "% of a core")


def memory(page: Page, tower: Tower, _run: str) -> None:
    """Measure the memory that an hour of updates leaves on the run page, sent as fast as the server accepts
    it."""
    reporter = Reporter(tower, "hour")
    reporter.report(100, SERIES)
    reporter.settle()
    page.goto(f"{tower.base}/runs/hour")
    page.locator('[data-series="loss"] .xy').first.wait_for()
    session = watched(page)
    page.wait_for_timeout(3_000)
    before = heap_mb(session)
    for _ in range(HOUR_STEPS // 100):
        reporter.report(100, SERIES)
        reporter.settle(behind=1_000)
    reporter.settle()
    page.wait_for_timeout(3_000)
    after = heap_mb(session)
    print(f"JavaScript heap of the run page: {before:.1f} MB, after {HOUR_STEPS:,} steps {after:.1f} MB")
    figure("JavaScript heap after an hour", after, "MB")


def screen(page: Page, tower: Tower, _run: str) -> None:
    """Measure the time from ``run.log`` in the real hook until the value is drawn, with 200 other clients."""
    with contextlib.ExitStack() as stack:
        each = TRAINERS // PROCESSES
        words = [(str(no * each), str(each)) for no in range(PROCESSES)]
        loads = [started(stack, "fleet_trainers.py", tower.base, tower.token, *one) for one in words]
        place = stack.enter_context(tempfile.TemporaryDirectory())
        run = tocsin.watch(
            "bench",
            name="screen",
            url=tower.base,
            token=tower.token,
            spool_dir=place,
            patch=False,
            quiet=True,
        )
        over = threading.Event()

        def log() -> None:
            step = 0
            while not over.wait(1 / RATE):
                run.log(step=step, loss=1.0, sent=time.time())
                step += 1

        thread = threading.Thread(target=log)
        thread.start()
        page.goto(f"{tower.base}/runs/{run.id}")
        page.locator('[data-series="sent"] .xy').first.wait_for()
        page.locator('[data-series="sent"]').scroll_into_view_if_needed()
        page.wait_for_timeout(3_000)
        page.evaluate(DRAWN)
        page.wait_for_timeout(WATCHED_S * 1000)
        delays = sorted(page.evaluate("() => drawn"))
        over.set()
        thread.join()
        run.finish()
        for load in loads:
            ended(load)
    p50, p99 = delays[len(delays) // 2], delays[len(delays) * 99 // 100]
    print(f"log to screen with {TRAINERS} trainers: p50 {p50:.3f} s, p99 {p99:.3f} s ({len(delays)} values)")
    figure("log to screen, p50", p50, "s")
    figure("log to screen, p99", p99, "s")


MEASURES: tuple[Callable[[Page, Tower, str], None], ...] = (weight, first_chart, updates, screen, memory)


def make_long_run(tower: Tower) -> None:
    """Send a million steps of four vital signs."""
    reporter = Reporter(tower, "long")
    while reporter.sent < LONG_RUN:
        reporter.report(BATCH)
        reporter.settle(behind=20 * BATCH)
    reporter.settle()


def measure(browser: Browser, tower: Tower) -> None:
    """Run each measurement in a separate browser profile, logged in and with an empty cache."""
    for one in [one for one in MEASURES if one.__name__ in sys.argv[1:] or not sys.argv[1:]]:
        context = browser.new_context(viewport={"width": 1440, "height": 1200}, locale="en-GB")
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.context.request.get(tower.login)
        one(page, tower, "long")
        context.close()


def main() -> None:
    path = shutil.which("chromium") or shutil.which("google-chrome")
    with (
        tempfile.TemporaryDirectory() as directory,
        tower_in(Path(directory)) as tower,
        sync_playwright() as playwright,
    ):
        make_long_run(tower)
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--enable-precise-memory-info"]
        )
        measure(browser, tower)
        browser.close()


if __name__ == "__main__":
    main()
