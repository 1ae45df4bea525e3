"""Trainings with different trackers, each in a separate process, that alternate: used by bench_hook.py.

Only one of them runs at a time. Each makes blocks of steps without and with its tracker, directly after each
other. The overhead is the difference of the two medians, and for a whole run the median of its rounds'
differences, so that a slow moment of the machine affects both sides of a difference.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from benchmarks.trackers import PACKAGES, Environment, environment, own_environment

ANSWER_S = 120.0
"""Seconds after which a training that does not respond is left out."""
SCRIPT = Path(__file__).with_name("tracked_loop.py")
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "GRADIO_ANALYTICS_ENABLED": "False",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "WANDB_MODE": "offline",
    "SWANLAB_MODE": "offline",
    "OMP_NUM_THREADS": "1",
}


class LeftOutError(Exception):
    """A contestant does not run here; the message says why."""


@dataclass
class Figures:
    """Microseconds of steps by wall clock and by the training thread's CPU time, one list per round."""

    plain: dict[str, list[list[float]]] = field(default_factory=lambda: {"wall": [], "cpu": []})
    tracked: dict[str, list[list[float]]] = field(default_factory=lambda: {"wall": [], "cpu": []})
    start_s: float = 0.0
    exit_s: float = 0.0
    rss: int = 0
    """Bytes of the process and what it started, at the end of its loop."""

    def add(self, answer: dict[str, Any]) -> None:
        """Add one turn."""
        for kind, mine in (("plain", self.plain), ("tracked", self.tracked)):
            for clock in mine:
                mine[clock].append(answer[kind][clock])

    def added(self, clock: str = "wall") -> float:
        """Return the overhead per step: the median of the rounds' differences of medians."""
        rounds = zip(self.plain[clock], self.tracked[clock], strict=True)
        return median(median(with_it) - median(without) for without, with_it in rounds)

    def added_p99(self, clock: str = "wall") -> float:
        """Return the difference of the 99th percentiles of all steps."""
        return percentile(self.tracked[clock], 0.99) - percentile(self.plain[clock], 0.99)

    def step(self) -> float:
        """Return the median of a step without the tracker."""
        return percentile(self.plain["wall"], 0.5)


def percentile(rounds: list[list[float]], share: float) -> float:
    """Return the quantile of all steps at ``share``."""
    values = sorted(value for one in rounds for value in one)
    return values[min(int(share * len(values)), len(values) - 1)]


class Contestant:
    """One training process and its results."""

    def __init__(self, tracker: str, loop: str, url: str, folder: Path) -> None:
        self.tracker = tracker
        self.figures = Figures()
        self.environment: Environment = _environment(tracker)
        home = folder / f"{loop}-{tracker}"
        home.mkdir(parents=True)
        environ = {"PATH": os.environ["PATH"], "HOME": str(home), "TRACKIO_DIR": str(home), **OFFLINE}
        self._errors = (home / "errors").open("w+")
        command = [self.environment.python, str(SCRIPT), tracker, loop, url]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=home,
            env=environ,
            start_new_session=True,
        )
        try:
            self.figures.start_s = self._answer()["start_s"]
        except LeftOutError:
            self.close()
            raise

    def turn(self, steps: int, plain_first: bool) -> None:
        """Run a block without and one with the tracker. Raise LeftOutError if the process died or hangs."""
        self._say(f"turn {steps} {int(plain_first)}")
        self.figures.add(self._answer())

    def end(self) -> None:
        """Measure its memory, and the time from the end of its loop to the end of its process."""
        self.figures.rss = _rss(self.process.pid)
        begun = time.perf_counter()
        self._say("end")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(ANSWER_S)
        self.figures.exit_s = time.perf_counter() - begun
        self.close()

    def close(self) -> None:
        """Kill the process and everything that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self._errors):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def _say(self, line: str) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(f"{line}\n".encode())
            self.process.stdin.flush()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], ANSWER_S)
        line = self.process.stdout.readline() if ready else b""
        if not line:
            self._errors.seek(0)
            reported = self._errors.read().strip().splitlines()
            raise LeftOutError(reported[-1][:200] if reported else f"no answer within {ANSWER_S:g} s")
        answer: dict[str, Any] = json.loads(line)
        return answer


def _environment(tracker: str) -> Environment:
    if tracker not in PACKAGES:
        return own_environment()
    try:
        return environment(tracker)
    except subprocess.CalledProcessError as error:
        lines = (error.stderr or "").strip().splitlines() or ["pip failed"]
        raise LeftOutError(f"does not install: {lines[-1][:200]}") from error
    except (subprocess.TimeoutExpired, OSError) as error:
        raise LeftOutError(f"does not install: {error}") from error


def _rss(pid: int) -> int:
    """Return the resident bytes of a process and of all its children."""
    process = psutil.Process(pid)
    total = 0
    for one in [process, *process.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            total += one.memory_info().rss
    return total


@contextlib.contextmanager
def contest(trackers: list[str], loop: str, url: str, folder: Path) -> Iterator[list[Contestant]]:
    """Start the processes one after another; leave out those that do not start, with a message."""
    running: list[Contestant] = []
    try:
        for tracker in trackers:
            try:
                running.append(Contestant(tracker, loop, url, folder))
            except LeftOutError as error:
                print(f"  {tracker}: left out: {error}")
        yield running
    finally:
        for one in running:
            one.close()


def measured(
    trackers: list[str], loop: str, url: str, folder: Path, *, rounds: int, steps: int
) -> list[Contestant]:
    """Run ``rounds`` turns of each and end them; the order of the two blocks alternates between rounds."""
    with contest(trackers, loop, url, folder) as running:
        for part in range(rounds):
            for one in tuple(running):
                try:
                    one.turn(steps, part % 2 == 0)
                except LeftOutError as error:
                    print(f"  {one.tracker}: left out: {error}")
                    one.close()
                    running.remove(one)
        for one in running:
            one.end()
        return list(running)
