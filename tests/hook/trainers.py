"""Training scripts as real processes, and what arrived of what they logged.

A script prints each step once ``log`` has returned for it, and flushes. However the process ends, the parent
therefore knows which steps must be on the server.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.hook.ingest_server import Kept
from tocsin import protocol
from tocsin.cli.sync import sync
from tocsin.spool import log_file
from tocsin.spool.segments import FORMAT, Header, Spool
from tocsin.transport.backlog import Backlog
from tocsin.transport.outbox import Outbox

TOKEN = "tk_good"

HEAD = """
import os, signal, sys, time
import tocsin

url, spool = sys.argv[1], sys.argv[2]
step = 0

def watch(**options):
    options.setdefault("exit_timeout", 5.0)
    token = os.environ.get("TOCSIN_TOKEN", "tk")
    return tocsin.watch("p", name="n", url=url, token=token, spool_dir=spool, **{"patch": False, **options})

def train(run, steps):
    global step
    for _ in range(steps):
        run.log(step=step, loss=float(step), lr=0.1)
        os.write(1, b"%d\\n" % step)
        step += 1
"""


class Script:
    """One training process."""

    def __init__(
        self,
        body: str,
        url: str,
        spool: Path,
        *,
        python: str = sys.executable,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed by end()
        folder = tempfile.mkdtemp()  # its own, because Python searches the folder of a script for modules
        self._remove = weakref.finalize(self, shutil.rmtree, folder)
        script = Path(folder, f"{Path(folder).name}.py")
        script.write_text(HEAD + body)
        self._out = b""
        self.process = subprocess.Popen(
            [python, str(script), url, str(spool)],
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env={**os.environ, **(environ or {})},
        )

    def until(self, step: int) -> None:
        """Return once the script has printed that ``log`` returned for ``step``."""
        while self.last < step:
            assert self._read(), f"the script ended before step {step}: {self.errors}"

    def wait_for(self, word: bytes) -> None:
        """Return once the script has printed ``word``."""
        while word not in self._out:
            assert self._read(), f"the script ended before it printed {word!r}: {self.errors}"

    def for_seconds(self, seconds: float) -> None:
        """Let it train for ``seconds``."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert self._read(), self.errors

    def end(self, timeout_s: float = 60.0) -> int:
        """Wait for the end of the process; return its exit status."""
        while self._read():
            pass
        status = self.process.wait(timeout_s)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._remove()
        self._stderr.seek(0)
        self.complaints = self._stderr.read().decode()
        self._stderr.close()
        return status

    @property
    def errors(self) -> str:
        """Return its standard error so far."""
        self._stderr.seek(0)
        return self._stderr.read().decode()

    @property
    def out(self) -> str:
        """Return its standard output."""
        return self._out.decode()

    @property
    def last(self) -> int:
        """Return the last step for which ``log`` returned; -1 before the first."""
        steps = [int(line) for line in self._out.split(b"\n")[:-1] if line.isdigit()]
        return max(steps, default=-1)

    def _read(self) -> bool:
        assert self.process.stdout is not None
        data = os.read(self.process.stdout.fileno(), 65536)
        self._out += data
        return bool(data)


STARTS_S = 5.0
IN_USE = "still being written"


def run_script(body: str, url: str, spool: Path, **options: object) -> tuple[int, Script]:
    """Run a script to its end; return exit status and script."""
    script = Script(body, url, spool, **options)  # type: ignore[arg-type]
    return script.end(), script


def bring_in(spool: Path, url: str, token: str = "tk") -> None:
    """Run ``tocsin sync``: deliver everything in ``spool``.

    A killed process may have been starting ``git``, which holds its files until it has started.
    """
    ends = time.monotonic() + STARTS_S
    outcomes = list(sync(spool, url=url, token=token, timeout_s=20.0))
    while any(IN_USE in outcome.text for outcome in outcomes) and time.monotonic() < ends:
        time.sleep(0.02)
        outcomes = list(sync(spool, url=url, token=token, timeout_s=20.0))
    assert all(outcome.delivered for outcome in outcomes), outcomes


def assert_whole(kept: Kept, steps: int, at_most: int | None = None) -> None:
    """Check that the steps from 0 are stored exactly once, in order, with their values; ``at_most``: upper
    limit."""
    assert kept.seqs == kept.steps == list(range(len(kept.steps)))
    assert kept.columns["loss"] == [float(step) for step in kept.steps]
    assert steps <= len(kept.steps) <= (steps if at_most is None else at_most)


def logs_of(spool: Path) -> list[Path]:
    """Return the logs in shared memory that belong to spools in ``spool``."""
    found = []
    for path in (log_file.SHM / f"tocsin-{os.getuid()}").glob("*.log"):
        with suppress(FileNotFoundError), path.open("rb") as file:  # other tests delete theirs meanwhile
            found += [path] if str(spool).encode() in file.read(2048) else []
    return found


@contextmanager
def small_disk(place: Path, size: str = "1m") -> Iterator[bool]:
    """Mount a tmpfs of ``size`` at ``place``; yield False if that is not possible."""
    place.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        yield False
        return
    try:
        yield True
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def leave_behind(spool: Path, url: str, rank: int, numbers: range = range(100)) -> protocol.WriterId:
    """Leave the records with these numbers, as a killed process does; return its writer."""
    writer = protocol.WriterId("launch", rank, "boot", 1, 1)
    hello = protocol.Hello(1, TOKEN, "deblur", "night", "r_1", writer, 2, "h", 0)
    outbox = Outbox()
    outbox.tail.commit += numbers.start
    for number in numbers:
        outbox.put((number, number, ("loss",), float(number)))
    left = Spool(spool, lambda: Header(FORMAT, url, hello))
    assert Backlog(outbox, left).save()
    left.close()
    return writer
