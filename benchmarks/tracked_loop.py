"""A training in a separate process, alternately without and with a tracker: started by bench_hook.py.

``python tracked_loop.py TRACKER LOOP URL``, in a separate folder. It responds to each line on its input with
a line of JSON: ``turn STEPS PLAIN_FIRST`` returns microseconds of each step, plain and tracked; ``end``
closes the tracker. It runs in the tracker's environment, so it imports nothing but torch and the tracker.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Protocol

sys.path.insert(0, str(Path(__file__).parents[1] / "client_hook"))
sys.path.insert(0, str(Path(__file__).parents[1]))

import torch

from benchmarks.loops import LOOPS, Loop

SETTLE_S = 0.25
"""Pause between two blocks, so that remaining background work of a tracker falls into neither."""
WARM = 3
LONGEST_S = 3.0
"""Maximum seconds of a block, because some trackers take milliseconds per step."""
NAMES = ("loss", "grad_norm", "scale", "lr")
Row = dict[str, float]


class Tracker(Protocol):
    """The calls of a script."""

    def log(self, row: Row, step: int) -> None: ...

    def finish(self) -> None: ...


class Nothing:
    """No tracker: shows the noise of the machine, and the memory of a plain training."""

    def __init__(self, url: str) -> None:
        self.url = url

    def log(self, row: Row, step: int) -> None:
        """Log nothing."""

    def finish(self) -> None:
        """Do nothing."""


class Tocsin:
    """``tocsin.log`` of the four values, with the records of an explicit run."""

    def __init__(self, url: str) -> None:
        import tocsin

        self.run: Any = tocsin.watch("bench", url=url, spool_dir="spool", patch=False)

    def log(self, row: Row, step: int) -> None:
        """Log the values in one call."""
        self.run.log(row, step=step)

    def finish(self) -> None:
        """Deliver what is queued."""
        self.run.finish()


class Automatic(Tocsin):
    """The whole hook: nothing is called, everything is captured. In plain blocks it is detached."""

    def __init__(self, url: str, grad_norm: Any = "auto") -> None:
        import tocsin

        self.run = tocsin.watch("bench", url=url, spool_dir="spool", grad_norm=grad_norm)

    def attach(self, on: bool) -> None:
        """Attach as ``watch`` does, or restore torch as ``finish`` does."""
        from tocsin import capture

        (capture.attach if on else capture.detach)(self.run._ledger)


class Unsampled(Automatic):
    """Without the hook's own norms."""

    def __init__(self, url: str) -> None:
        super().__init__(url, grad_norm=False)


class TensorBoard:
    """``add_scalar`` for each value."""

    def __init__(self, url: str) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter("logs")

    def log(self, row: Row, step: int) -> None:
        """Log the values in four calls."""
        for name, value in row.items():
            self.writer.add_scalar(name, value, step)

    def finish(self) -> None:
        """Write what is queued."""
        self.writer.close()


class Module:
    """wandb, Trackio, SwanLab: ``init``, ``log``, ``finish`` of the module."""

    wanted: tuple[str, dict[str, Any]]
    """The module's name, and the arguments that keep its data on this machine."""

    def __init__(self, url: str) -> None:
        name, options = self.wanted
        self.module: Any = importlib.import_module(name)
        self.module.init(project="bench", **options)

    def log(self, row: Row, step: int) -> None:
        """Log the values in one call."""
        self.module.log(row, step=step)

    def finish(self) -> None:
        """Finish as a script does."""
        self.module.finish()


class Wandb(Module):
    """Offline, without a server."""

    wanted = ("wandb", {"mode": "offline"})


class Trackio(Module):
    """Into its local database."""

    wanted = ("trackio", {"embed": False})


class SwanLab(Module):
    """Into its local folder."""

    wanted = ("swanlab", {"mode": "offline", "logdir": "logs"})


class Aim:
    """``track`` for each value, into a local repository."""

    def __init__(self, url: str) -> None:
        aim: Any = importlib.import_module("aim")
        self.run: Any = aim.Run(repo=".", system_tracking_interval=None, capture_terminal_logs=False)

    def log(self, row: Row, step: int) -> None:
        """Log the values in four calls."""
        for name, value in row.items():
            self.run.track(value, name=name, step=step)

    def finish(self) -> None:
        """Finish as a script does."""
        self.run.close()


class Mlflow:
    """``log_metrics``, into a local SQLite database."""

    def __init__(self, url: str) -> None:
        self.mlflow: Any = importlib.import_module("mlflow")
        self.mlflow.set_tracking_uri("sqlite:///mlflow.db")
        self.mlflow.start_run()

    def log(self, row: Row, step: int) -> None:
        """Log the values in one call."""
        self.mlflow.log_metrics(row, step=step)

    def finish(self) -> None:
        """Finish as a script does."""
        self.mlflow.end_run()


TRACKERS: dict[str, Any] = {
    "nothing": Nothing,
    "tocsin": Automatic,
    "tocsin-unsampled": Unsampled,
    "tocsin-log": Tocsin,
    "tensorboard": TensorBoard,
    "trackio": Trackio,
    "aim": Aim,
    "mlflow": Mlflow,
    "wandb": Wandb,
    "swanlab": SwanLab,
}


class Turns:
    """Blocks of steps, without and with the tracker."""

    def __init__(self, tracker: Any, loop: Loop) -> None:
        self.tracker = tracker
        self.loop = loop
        self.count = 0
        self.attach(False)

    def attach(self, on: bool) -> None:
        """Attach or detach the hook, which captures automatically; the others are not called in plain
        blocks."""
        if isinstance(self.tracker, Automatic):
            self.tracker.attach(on)

    def turn(self, steps: int, plain_first: bool) -> dict[str, Any]:
        """Return the microseconds of each step by both clocks, plain and tracked."""
        found = {}
        for kind in ("plain", "tracked") if plain_first else ("tracked", "plain"):
            found[kind] = self.block(steps, kind == "tracked")
            time.sleep(SETTLE_S)
        return found

    def block(self, steps: int, tracked: bool) -> dict[str, Any]:
        """Run a block. The first WARM steps are not counted."""
        calls = tracked and not isinstance(self.tracker, (Automatic, Nothing))
        self.attach(tracked)
        wall: list[float] = []
        cpu: list[float] = []
        until = time.perf_counter() + LONGEST_S
        for index in range(steps + WARM):
            if len(wall) >= WARM and time.perf_counter() > until:
                break
            begun, begun_cpu = time.perf_counter_ns(), time.thread_time_ns()
            values = self.loop.step()
            if calls:
                self.log(values)
            took_cpu, took = time.thread_time_ns() - begun_cpu, time.perf_counter_ns() - begun
            if index >= WARM:
                wall.append(took / 1e3)
                cpu.append(took_cpu / 1e3)
        self.attach(False)
        return {"wall": wall, "cpu": cpu}

    def log(self, values: Any) -> None:
        """Log as a script does: numbers are read from the tensors."""
        loss, norm, scale, rate = values
        row = dict(zip(NAMES, (loss.item(), norm.item(), scale, rate), strict=True))
        self.tracker.log(row, self.count)
        self.count += 1


def main() -> None:
    """Respond to commands until ``end``."""
    name, loop, url = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # trackers print to stdout
    torch.set_num_threads(1)
    training: Loop = LOOPS[loop.removesuffix("-unclipped")](clip=not loop.endswith("-unclipped"))
    begun = time.perf_counter()
    turns = Turns(TRACKERS[name](url), training)
    answers.write(json.dumps({"start_s": time.perf_counter() - begun}) + "\n")
    for line in sys.stdin:
        word, *rest = line.split()
        if word == "end":
            break
        answers.write(json.dumps(turns.turn(int(rest[0]), rest[1] == "1")) + "\n")
    turns.tracker.finish()


if __name__ == "__main__":
    main()
