"""Cost of the hook in the training thread, beside TensorBoard's four ``add_scalar`` in the same run.

The contestants take turns in one process, block by block, so that a slow moment of the
machine hits all of them. The server is another process on loopback. Ratios are to the
baseline named in the same table; the targets are those of the design.
"""

from __future__ import annotations

import contextlib
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import torch
from torch import nn
from torch.utils.tensorboard import SummaryWriter

import tocsin
from tocsin import protocol
from tocsin.outbox import Outbox
from tocsin.sender import Sender

ROUNDS = 20
LOGS = 400
"""Calls a block."""
STEPS = 100
"""Training steps a block."""
WARM = 20
"""Of them not counted: the first of each block."""
POINTS = 2_000_000
NAMES = ("loss", "grad_norm", "scale", "lr")
Times = dict[str, list[float]]
Clock = Callable[[], int]


@contextlib.contextmanager
def sink() -> Iterator[str]:
    """Address of a server that takes everything."""
    command = [sys.executable, str(Path(__file__).with_name("sink.py"))]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.stdin.close()
        process.wait()


def timed(
    times: list[float], count: int, call: Callable[[int], None], clock: Clock = time.perf_counter_ns
) -> None:
    """Appends the microseconds of each of ``count`` calls but the first."""
    for index in range(count):
        begun = clock()
        call(index)
        took = clock() - begun
        if index >= WARM:
            times.append(took / 1e3)


def log_costs(url: str, place: Path) -> Times:
    """Microseconds of reporting four values once."""
    times: Times = {
        "an empty call": [],
        "log, 4 floats": [],
        "log, 4 CPU tensors": [],
        "add_scalar x 4, floats": [],
    }
    tensors = {name: torch.tensor(0.5) for name in NAMES}
    floats = dict.fromkeys(NAMES, 0.5)
    board = SummaryWriter(str(place / "logs"))
    run = tocsin.watch("bench", name="log", url=url, spool_dir=place, patch=False)

    def add_scalars(step: int) -> None:
        for name, value in floats.items():
            board.add_scalar(name, value, step)

    for _ in range(ROUNDS):
        timed(times["an empty call"], LOGS, lambda step: None)
        timed(times["log, 4 floats"], LOGS, lambda step: run.log(step=step, **floats))
        timed(times["log, 4 CPU tensors"], LOGS, lambda step: run.log(step=step, **tensors))
        timed(times["add_scalar x 4, floats"], LOGS, add_scalars)
    run.finish()
    board.close()
    return times


class Training:
    """A small MLP with clipping, one step a call."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(
            nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1)
        )
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.batch = torch.randn(64, 256), torch.randn(64, 1)

    def step(self, index: int) -> None:
        """Forward, backward, clip, update."""
        self.measured()

    def measured(self) -> tuple[torch.Tensor, torch.Tensor]:
        """One step; its loss and gradient norm."""
        inputs, targets = self.batch
        loss = nn.functional.mse_loss(self.model(inputs), targets)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss, norm


def step_costs(url: str, place: Path, clock: Clock) -> Times:
    """Microseconds of a training step by ``clock``: alone, with the hook, with TensorBoard."""
    times: Times = {"no hook": [], "whole hook": [], "TensorBoard, 4 values": []}
    board = SummaryWriter(str(place / "steps"))
    training = Training()

    def with_board(index: int) -> None:
        loss, norm = training.measured()
        lr = training.optimizer.param_groups[0]["lr"]
        for name, value in zip(NAMES, (loss.item(), norm.item(), 1.0, lr), strict=True):
            board.add_scalar(name, value, index)

    for part in range(ROUNDS):
        timed(times["no hook"], STEPS, training.step, clock)
        with tocsin.watch("bench", name=f"mlp {part}", url=url, spool_dir=place):
            timed(times["whole hook"], STEPS, training.step, clock)
        timed(times["TensorBoard, 4 values"], STEPS, with_board, clock)
    board.close()
    return times


def points_per_s(url: str, place: Path) -> float:
    """Points a second from ``put`` to the ack, four a record, one process."""
    outbox = Outbox()
    writer = protocol.WriterId("bench", 0, "bench", 1, time.time_ns())

    def hello() -> protocol.Hello:
        return protocol.Hello(1, "", "bench", "points", "", writer, 1, "bench", time.time_ns())

    sender = Sender(outbox, hello, url=url, spool_dir=place, exit_timeout=60.0)
    begun = time.perf_counter()
    for step in range(POINTS // 4):
        while len(outbox) > 30_000:
            time.sleep(0.001)
        outbox.put((step, step, NAMES, 0.5, 0.5, 0.5, 0.5))
        if step == 0:
            sender.start()
    sender.close()
    assert sender.stats.acked_seq == POINTS // 4 - 1
    return POINTS / (time.perf_counter() - begun)


def show(title: str, times: Times, baseline: str) -> None:
    """Median, p99 and ratio of medians to the baseline of the same run."""
    print(f"{title} (us; ratio to {baseline!r})")
    reference = median(times[baseline])
    for name, values in times.items():
        p99 = sorted(values)[math.floor(0.99 * len(values))]
        middle = median(values)
        print(f"  {name:<24} median {middle:9.2f}   p99 {p99:9.2f}   ratio {middle / reference:7.4f}")


def added(times: Times, name: str) -> float:
    """Microseconds that ``name`` costs above no hook, block against the block beside it."""
    size = STEPS - WARM
    blocks = range(0, len(times[name]), size)
    costs = [median(times[name][at : at + size]) - median(times["no hook"][at : at + size]) for at in blocks]
    return median(costs)


def show_steps(title: str, times: Times) -> None:
    """The table, and what hook and TensorBoard add: the median of the rounds' differences."""
    show(title, times, "no hook")
    hook, board = (added(times, name) for name in ("whole hook", "TensorBoard, 4 values"))
    print(f"  the hook adds {hook:.1f} us a step, TensorBoard {board:.1f} us (ratio {hook / board:.3f})")


def main() -> None:
    """Prints the tables, each with its targets."""
    torch.set_num_threads(1)
    with sink() as url, tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        show("reporting four values", log_costs(url, place), "add_scalar x 4, floats")
        print("  target: floats median <= 1 and p99 <= 10, CPU tensors median <= 2")
        show_steps("a training step of an MLP, wall time", step_costs(url, place, time.perf_counter_ns))
        show_steps("the same, CPU time of the training thread", step_costs(url, place, time.thread_time_ns))
        print("  target: the whole hook adds <= 15")
        print(f"from put to ack, with spool: {points_per_s(url, place):,.0f} points/s")
        print("  target, end to end with the real server: >= 250,000")


if __name__ == "__main__":
    main()
