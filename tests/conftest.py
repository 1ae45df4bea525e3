"""Fixtures for all tests: isolation from the user's environment, cleanup, and a real server."""

from __future__ import annotations

import contextlib
import gc
import inspect
import json
import os
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import psutil
import pytest
from hypothesis import settings

from tests import fork_server
from tests.matrix import ALL
from tests.small_disk import NoSmallDiskError, small_disk

DEADLINE_S = 60.0
QUICK = {"TOCSIN_COMMIT_MS": "10", "TOCSIN_NOTIFY_POLL_S": "0.1"}
"""Settings of the tests' servers, which wait less for further records and for further alerts."""
LASTING = ("resource_tracker", "forkserver", "compile_worker")
"""Helpers of multiprocessing and of torch's compiler that end with the interpreter."""

# Without a deadline: a slow machine must not fail a test.
settings.register_profile("suite", deadline=None, max_examples=300 if ALL else 30)
settings.load_profile("suite")
# Nor must the 5 s that httpx waits by default.
_patience = inspect.signature(httpx.get).parameters["timeout"].default
_patience.connect = _patience.read = _patience.write = _patience.pool = DEADLINE_S


LONG_FIRST = (
    "browser/test_fleet.py", "browser/test_run_page.py", "browser/test_compare.py", "browser/", "examples/",
    "demo/", "hook/lifecycle/", "real_trainers/", "server/delivery/test_sender.py", "server/app/",
    "hook/capture/test_compiler.py", "server/runs/", "server/http/", "server/jobs/", "server/store/",
)  # fmt: skip
"""Beginnings of paths in tests/. A long file that starts last keeps one core busy while others idle."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect tests without garbage collection, which would search the imported modules over and over."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order files by LONG_FIRST; with the Makefile's options, pytest-xdist starts them in this order."""

    def place(item: pytest.Item) -> int:
        path = item.nodeid.removeprefix("tests/")
        return next((no for no, start in enumerate(LONG_FIRST) if path.startswith(start)), len(LONG_FIRST))

    items.sort(key=place)


@pytest.fixture(autouse=True, scope="module")
def nothing_old_is_searched() -> None:
    """Exclude what exists before a module's tests from garbage collection.

    Test modules and libraries live until the end of the session, and neither the collector nor a ``watch``
    that searches all objects for optimizers should visit them repeatedly.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def clean_surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Remove the user's ``TOCSIN_*`` variables and home directory; fail if a process is left at the end."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("TOCSIN_")]:
            patch.delenv(name)
        for name in ("XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
            patch.setenv(name, str(home / name.lower()))
        for name, value in {**QUICK, "OMP_NUM_THREADS": "1"}.items():
            patch.setenv(name, value)
        with fork_server.serving():
            yield
    left = [line for line in map(command_line, psutil.Process().children(recursive=True)) if line]
    assert not left, f"processes left behind: {left}"


def command_line(process: psutil.Process) -> str:
    """Return the command line of a process; empty if it has ended or is one of LASTING."""
    with contextlib.suppress(psutil.Error):
        line = " ".join(process.cmdline())
        return "" if any(name in line for name in LASTING) else line
    return ""


def wait_for(true: Callable[[], Any], what: str, deadline_s: float = DEADLINE_S) -> Any:
    """Return the first truthy result of ``true``; fail with ``what`` after the deadline.

    The pauses between two attempts grow: many of them ask a server, which has to work meanwhile.
    """
    ends, pause_s = time.monotonic() + deadline_s, 0.01
    while time.monotonic() < ends:
        if found := true():
            return found
        time.sleep(pause_s)
        pause_s = min(1.5 * pause_s, 0.1)
    raise AssertionError(f"waited {deadline_s:.0f} s for {what}")


class Tower:
    """A real ``tocsin-server serve`` on SQLite that can be killed and restarted on its data."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.log = directory / "server.log"
        self.port = 0
        self.command = fork_server.COMMAND
        self.options: tuple[str, ...] = ()
        """Further options of ``serve``."""
        self._process: fork_server.Process | None = None

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def token(self) -> str:
        """Return the token in the login link."""
        return (self.directory / "admin-token").read_text("utf-8").strip()

    @property
    def login(self) -> str:
        """Return the login link."""
        return f"{self.base}/login?{urlencode({'token': self.token})}"

    def start(self) -> None:
        """Start the server, on its previous port if it had one; return once it responds."""
        with self.log.open("ab") as log:
            place = ["--port", str(self.port), "--data-dir", str(self.directory)]
            arguments = ["serve", *place, *self.options]
            if self.command == fork_server.COMMAND:
                self._process = fork_server.start(*arguments, stderr=log.fileno())
            else:
                line = [*self.command, *arguments]
                self._process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=log)
        assert self._process.stdout is not None
        self.port = self.port or self._port_of(self._process.stdout)
        threading.Thread(target=self._process.stdout.read, daemon=True).start()
        wait_for(self._well, f"the server:\n{self.log.read_text('utf-8')}")

    def _port_of(self, printed: Any) -> int:
        for line in printed:
            if b" at http://" in line:
                return int(line.decode().rsplit(":", 1)[1])
        raise AssertionError(f"the server did not start:\n{self.log.read_text('utf-8')}")

    def _well(self) -> bool:
        try:
            return bool(self.get("/health"))
        except (urllib.error.URLError, OSError):
            return False

    def kill(self) -> None:
        """Kill the server with SIGKILL."""
        assert self._process is not None
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Stop the server gracefully. Does nothing if it has ended."""
        if self._process is not None:
            self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        self._process.send_signal(number)
        self._process.wait(DEADLINE_S)
        self._process.stdout.close()
        self._process = None

    def get(self, path: str, **query: Any) -> Any:
        """Return the JSON of a GET under /api/v1."""
        request = urllib.request.Request(f"{self.base}/api/v1{path}?{urlencode(query)}")
        request.add_header("authorization", f"Bearer {self.token}")
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
            return json.load(answer)

    def post(self, path: str, body: Any) -> Any:
        """Return the JSON of a POST under /api/v1 with the token in the login link."""
        request = urllib.request.Request(f"{self.base}/api/v1{path}", data=json.dumps(body).encode())
        request.add_header("authorization", f"Bearer {self.token}")
        request.add_header("content-type", "application/json")
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
            return json.load(answer)

    def run_named(self, name: str) -> dict[str, Any] | None:
        """Return the newest run with that name, or None before its handshake."""
        rows: list[dict[str, Any]] = [r for r in self.get("/runs")["items"] if r["name"] == name]
        return max(rows, key=lambda row: float(row["created_ms"]), default=None)

    def records(self, run: str) -> list[dict[str, Any]]:
        """Return all records of a run, in the order of the API."""
        items: list[dict[str, Any]] = []
        after = None
        while True:
            query: dict[str, Any] = {} if after is None else {"after": after}
            page = self.get(f"/runs/{run}/records", limit=5000, **query)
            items += page["items"]
            after = page["next"]
            if after is None:
                return items

    def alerts(self, run: str) -> list[dict[str, Any]]:
        """Return all alerts of a run, including resolved ones."""
        found: list[dict[str, Any]] = self.get("/alerts", run=run)["items"]
        return found

    @contextlib.contextmanager
    def training(self, *command: str) -> Iterator[fork_server.Process]:
        """Run ``python COMMAND`` with the hook's variables set and its output discarded; stop it after the
        block."""
        own = {
            "TOCSIN_URL": self.base,
            "TOCSIN_TOKEN": self.token,
            "TOCSIN_SPOOL_DIR": str(self.directory / "spool"),
        }
        with (
            Path(os.devnull).open("wb") as nowhere,
            fork_server.train(*command, env=os.environ | own, stdout=nowhere.fileno(), stderr=2) as process,
        ):
            try:
                yield process
            finally:
                process.kill()


@contextlib.contextmanager
def tower_in(directory: Path) -> Iterator[Tower]:
    tower = Tower(directory)
    tower.start()
    try:
        yield tower
    finally:
        tower.stop()


@pytest.fixture
def tower(tmp_path: Path) -> Iterator[Tower]:
    """A server for one test, which may kill it."""
    with tower_in(tmp_path) as running:
        yield running


@pytest.fixture(scope="module")
def tower_of_the_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tower]:
    """A server for the tests of one file."""
    with tower_in(tmp_path_factory.mktemp("tower")) as running:
        yield running


@pytest.fixture(scope="session")
def shared_tower(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tower]:
    """One server for all tests that only train and read. Each uses its own runs."""
    with tower_in(tmp_path_factory.mktemp("tower")) as running:
        yield running


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let SIGINT interrupt this process and its children, also if a shell has started the tests in the
    background, where it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(name="small_disk")
def a_small_disk() -> Iterator[Path]:
    """A file system of 32 MB that a test may fill."""
    with contextlib.ExitStack() as stack:
        try:
            folder = stack.enter_context(small_disk())
        except NoSmallDiskError as why:
            pytest.skip(f"{why}; test_pipeline.py limits SQLite's pages instead")
        yield folder


@pytest.fixture
def tower_on_small_disk(small_disk: Path) -> Iterator[Tower]:
    """A server whose data directory is on the small disk."""
    with tower_in(small_disk) as running:
        yield running


@pytest.fixture(scope="session")
def eventually_true() -> Callable[..., Any]:
    """``eventually_true(condition, "what")``: wait for a condition; fail after a minute."""
    return wait_for
