"""What the hook costs a training on a CUDA device, beside TensorBoard, in one interleaved run.

``python bench_cuda.py [--rounds 10]``. Needs a CUDA device. A block is a number of steps between two
synchronisations; blocks without and with the tracker take turns, and what a tracker adds to a step is the
median over the rounds of the difference. "nothing" is a training without a tracker measured like the
others: what it adds is the noise. The loss of every step is compared with that of an unwatched training,
bit by bit.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "client_hook"))
sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.benchmarks.bench_hook import sink
from tests.benchmarks.loops import Gpt, Loop, Mlp, Transformer
from tests.benchmarks.tracked_loop import Automatic, Nothing, TensorBoard, Tocsin, Tracker

NAMES = ("loss", "grad_norm", "scale", "lr")
WARM = 20
SETTLE_S = 0.1
LOOPS: dict[str, tuple[Callable[[], Loop], int]] = {
    "MLP, fp32, SGD": (lambda: Mlp(device="cuda"), 300),
    "MLP, fp32, SGD, no clip": (lambda: Mlp(clip=False, device="cuda"), 300),
    "small transformer, fp16, AdamW": (lambda: Transformer(device="cuda"), 100),
    "small transformer, fp16, AdamW fused": (lambda: Transformer(device="cuda", fused=True), 100),
    "124 M parameters, fp16, AdamW": (lambda: Gpt(), 10),
    "124 M parameters, fp16, AdamW fused": (lambda: Gpt(fused=True), 10),
}
"""Each training, and its steps a block: from launch-bound to a device that is always busy."""


class Tensors(Tocsin):
    """``log`` of the tensors as they are: nothing is read on the training thread."""


TRACKERS: dict[str, Callable[[str], Tracker]] = {
    "nothing": Nothing,
    "tocsin, whole hook": Automatic,
    "tocsin, log of four values": Tensors,
    "tensorboard, add_scalar x 4": TensorBoard,
}


@dataclass
class Contestant:
    """Microseconds a step, a block each, without and with the tracker."""

    loop: Loop
    tracker: Tracker
    plain: list[float] = field(default_factory=list)
    tracked: list[float] = field(default_factory=list)
    host_plain: list[float] = field(default_factory=list)
    host_tracked: list[float] = field(default_factory=list)
    losses: list[Any] = field(default_factory=list)
    count: int = 0

    def block(self, steps: int, tracked: bool) -> None:
        """Steps between two synchronisations, by the wall clock and the training thread's CPU time."""
        _attach(self.tracker, tracked)
        torch.cuda.synchronize()
        begun, begun_cpu = time.perf_counter(), time.thread_time()
        for _ in range(steps):
            self._step(tracked)
        cpu = time.thread_time() - begun_cpu
        torch.cuda.synchronize()
        took = time.perf_counter() - begun
        _attach(self.tracker, False)
        wall, host = (self.tracked, self.host_tracked) if tracked else (self.plain, self.host_plain)
        wall.append(took / steps * 1e6)
        host.append(cpu / steps * 1e6)

    def _step(self, tracked: bool) -> None:
        loss, norm, scale, rate = self.loop.step()
        self.losses.append(loss.detach())
        if tracked and not isinstance(self.tracker, (Automatic, Nothing)):
            row: Any = dict(zip(NAMES, (loss, norm, scale, rate), strict=True))
            if not isinstance(self.tracker, Tensors):
                row.update(loss=loss.item(), grad_norm=norm.item())
            self.tracker.log(row, self.count)
            self.count += 1

    def added(self) -> tuple[float, float]:
        """Medians of the rounds' differences: wall and host."""
        walls = [with_it - without for with_it, without in zip(self.tracked, self.plain, strict=True)]
        hosts = [one - other for one, other in zip(self.host_tracked, self.host_plain, strict=True)]
        return median(walls), median(hosts)


def _attach(tracker: Tracker, on: bool) -> None:
    if isinstance(tracker, Automatic):
        tracker.attach(on)


def contest(make: Callable[[], Loop], steps: int, rounds: int, url: str) -> dict[str, Contestant]:
    """All trackers on this training, a block each in turn."""
    found = {}
    for name, tracker in TRACKERS.items():
        one = found[name] = Contestant(make(), tracker(url))
        _attach(one.tracker, False)
        for _ in range(WARM):
            one._step(False)
    for part in range(rounds + 1):
        for one in found.values():
            for tracked in (False, True) if part % 2 else (True, False):
                one.block(steps, tracked)
                time.sleep(SETTLE_S)
            if part == 0:  # memory, ring and kernels are there afterwards
                for times in (one.plain, one.tracked, one.host_plain, one.host_tracked):
                    times.clear()
    for one in found.values():
        one.tracker.finish()
    return found


def show(name: str, found: dict[str, Contestant]) -> None:
    """A Markdown table, and whether the losses are the same."""
    plain = median(found["nothing"].plain)
    print(f"\n{name} ({plain:,.0f} us a step)\n")
    print("| | added to a step | of it | CPU of the training thread |")
    print("|---|---|---|---|")
    for tracker, one in found.items():
        wall, host = one.added()
        print(f"| {tracker} | {wall:+.1f} us | {100 * wall / plain:+.2f} % | {host:+.1f} us |")
    truth = torch.stack(found["nothing"].losses)
    for tracker, one in found.items():
        same = torch.equal(torch.stack(one.losses), truth)
        print(f"  {tracker}: {len(truth)} losses {'equal, bit by bit' if same else 'DIFFER'}")


def main() -> None:
    """Prints a table a training."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--loops", default="", help="only those whose names hold this")
    chosen = parser.parse_args()
    if not torch.cuda.is_available():
        print("bench_cuda: needs a CUDA device, and there is none here: left out")
        return
    print(
        f"{torch.cuda.get_device_name()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.2f}; "
        f"Python {sys.version.split()[0]}, torch {torch.__version__}"
    )
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    with sink() as url, tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        for name, (make, steps) in LOOPS.items():
            if chosen.loops in name:
                show(name, contest(make, steps, chosen.rounds, url))
                torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
