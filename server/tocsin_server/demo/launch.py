"""``tocsin-server demo``: a server on SQLite and real trainings that report to it, until Ctrl-C."""

from __future__ import annotations

import importlib.util
import signal
import threading
import time
import urllib.error
import urllib.request
import webbrowser
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tocsin_server.app.serve import address, listening
from tocsin_server.core.errors import StartError
from tocsin_server.core.settings import Settings
from tocsin_server.demo.child import Child
from tocsin_server.http.auth.authentication import ADMIN, TRAINER
from tocsin_server.http.auth.login import login_address
from tocsin_server.store.ownership import sole_on_file

TRAININGS = ("transformer", "deblur", "wgan")
STORY = {
    "transformer": "a small language model in fp16; it stays healthy",
    "deblur": "its learning rate and an fp16-unsafe loss drive it into scaler collapse within a minute",
    "wgan": "its critic saturates at a clamp within a minute; both losses stay at 1000",
}
LONGEST_S = 3600.0
"""The trainings end after an hour if the demo is not stopped."""
START_S = 60.0
END_S = 8.0
SERVER_END_S = 20.0
"""Longer than the server gives its own connections (setting ``shutdown_s``)."""
CHECKPOINTS = "checkpoints"
MARKER = "made-by-tocsin-demo"

STOPPED, TRAINING_FAILED, SERVER_ENDED = 0, 1, 3
"""Exit statuses. If the demo cannot start at all, a StartError makes the command line exit with 2."""


def run_demo(
    settings: Settings,
    *,
    steps: int | None = None,
    open_browser: bool = False,
    keep: bool = False,
    trainings: Sequence[str] = TRAININGS,
) -> int:
    """Serve and train until Ctrl-C or SIGTERM; then end all processes. Return the exit status.

    Args:
        settings: The settings of the server.
        steps: Steps of each training; by default they continue for an hour.
        open_browser: Whether to open the pages in a browser.
        keep: Whether to keep the runs of the last demo.
        trainings: Names of the trainings.

    Raises:
        StartError: The demo cannot start. The text says what to do.
    """
    require_torch()
    port = port_for(settings)
    clear(settings.data_dir, keep=keep)
    base = address(settings, port)
    server = Child("server", serve_command(settings, port), lambda _name, _line: None)
    children = [
        Child(name, training_command(name, steps, settings.data_dir), print_line) for name in trainings
    ]
    with interruption() as interrupted:
        try:
            server.start({})
            wait_until_up(server, base, interrupted)
            greet(settings, base, trainings, open_browser=open_browser)
            for child in children:
                child.start(client_environment(settings, base))
            return follow(server, children, interrupted)
        finally:
            end_all(server, children)


def require_torch() -> None:
    """Raise StartError if PyTorch is not installed."""
    if importlib.util.find_spec("torch") is None:
        raise StartError("The demo trains real models and needs PyTorch. Run `pip install torch`.")


def clear(directory: Path, *, keep: bool) -> None:
    """Prepare ``directory``; delete the database of an earlier demo unless ``keep``.

    Only a directory that an earlier demo created is cleared. Raises StartError for any other.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    marker = directory / MARKER
    if not marker.exists() and any(directory.iterdir()):
        raise StartError(
            f"{directory}: expected an empty directory or that of an earlier demo, found other files. "
            "Choose another one with `--data-dir DIR`."
        )
    marker.touch()
    with sole_on_file(directory / "tocsin.db"):  # another demo may be running there
        if keep:
            return
        made = ("tocsin.db*", "spool/**/*", f"{CHECKPOINTS}/**/*")
        for path in [path for pattern in made for path in directory.glob(pattern)]:
            if path.is_file() and path.suffix != ".lock":
                path.unlink()


def port_for(settings: Settings) -> int:
    """Return the port to serve on, which is currently free. Raises StartError if it is in use."""
    with listening(settings) as listener:
        port: int = listener.getsockname()[1]
        return port


def serve_command(settings: Settings, port: int) -> list[str]:
    """Return the server's command line: these settings, with SQLite in their data directory."""
    database = f"sqlite:///{settings.data_dir.absolute() / 'tocsin.db'}"
    place = ["--host", settings.host, "--port", str(port), "--data-dir", str(settings.data_dir.absolute())]
    return ["tocsin_server", "serve", *place, "--database-url", database]


def training_command(name: str, steps: int | None, directory: Path) -> list[str]:
    """Return the command line of one training, limited by steps or to an hour."""
    bound = ["--seconds", str(LONGEST_S)] if steps is None else ["--steps", str(steps)]
    saved = ["--checkpoints", str(directory.absolute() / CHECKPOINTS / name)]
    return [f"tocsin_server.demo.trainings.{name}", *saved, *bound]


def client_environment(settings: Settings, base: str) -> dict[str, str]:
    """Return the environment variables that a user sets before a training, and one thread per training."""
    return {
        "TOCSIN_URL": base,
        "TOCSIN_TOKEN": TRAINER.secret(settings.data_dir),
        "TOCSIN_SPOOL_DIR": str(settings.data_dir.absolute() / "spool"),
        "OMP_NUM_THREADS": "1",
    }


@contextmanager
def interruption() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C and SIGTERM set instead of interrupting."""
    event = threading.Event()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before: Mapping[int, object] = {n: signal.signal(n, lambda _n, _f: event.set()) for n in numbers}
    try:
        yield event
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]


def wait_until_up(server: Child, base: str, interrupted: threading.Event) -> None:
    """Wait until the server responds. Raises StartError with the server's output if it does not."""
    deadline = time.monotonic() + START_S
    while not interrupted.is_set() and not answers(base):
        if server.status is not None or time.monotonic() > deadline:
            output = "\n".join(server.last_lines) or f"no answer at {base} within {START_S:.0f} s"
            raise StartError(f"The demo's server did not start: {output}")
        interrupted.wait(0.1)


def answers(base: str) -> bool:
    """Return whether the server at ``base`` is healthy."""
    try:
        with urllib.request.urlopen(f"{base}/api/v1/health", timeout=2) as answer:  # noqa: S310 - our own http
            return bool(answer.status == 200)
    except OSError:
        return False


def greet(settings: Settings, base: str, trainings: Sequence[str], *, open_browser: bool) -> None:
    """Print where to look and what will happen."""
    link = login_address(base, ADMIN.secret(settings.data_dir))
    stories = "\n".join(f"  {name:<12} {STORY[name]}" for name in trainings)
    print(
        f"\ntocsin demo at {base}\n\nOpen in a browser:\n  {link}\n\n{stories}\n\nCtrl-C ends it.\n",
        flush=True,
    )
    if open_browser:
        webbrowser.open(link)


def print_line(name: str, line: str) -> None:
    """Print one line of a training after its name; ignore a closed output."""
    with suppress(BrokenPipeError):
        print(f"{name:<12} {line}", flush=True)


def follow(server: Child, children: Sequence[Child], interrupted: threading.Event) -> int:
    """Wait for Ctrl-C, report how trainings ended, and return the exit status."""
    reported: set[str] = set()
    failed = False
    while not interrupted.wait(0.2):
        if server.status is not None:
            print("server ended:\n" + "\n".join(server.last_lines), flush=True)
            return SERVER_ENDED
        for child in children:
            if child.status is not None and child.name not in reported:
                reported.add(child.name)
                failed |= child.status != 0
                print_line(child.name, f"ended with status {child.status}; the pages stay until Ctrl-C")
    return TRAINING_FAILED if failed else STOPPED


def end_all(server: Child, children: Sequence[Child]) -> None:
    """End all trainings at once, so that they can still send their finish message; then the server."""
    for child in children:
        child.ask_to_end()
    for child in children:
        child.end(END_S)
    server.end(SERVER_END_S)
