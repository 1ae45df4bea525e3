"""Measure the overhead of the hook for a training on a CUDA device, compared with TensorBoard.

``python bench_cuda.py [--rounds 20]``. Needs a CUDA device. Short blocks of steps without and with the
tracker alternate, each between two synchronizations. The overhead per step is the median over the rounds of
the difference. For a launch-bound training, a block's value is the median of its steps; for one that keeps
the device busy, its total time. "nothing" is a training without a tracker, measured like the others: its
overhead is the noise. The loss of every step is compared with that of an unwatched training, bit by bit.

Launches are the kernels and copies per step that the profiler counts, less those of the same steps without
the tracker; so are the calls in which the host waits for the device. The figures of both are those of the
training with most of them. Host time is the CPU time that the tracker adds to the training thread.
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

sys.path.insert(0, str(Path(__file__).parents[1] / "client_hook"))
sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.bench_hook import sink
from benchmarks.figures import figure
from benchmarks.loops import Gpt, Loop, Mlp, Transformer
from benchmarks.tracked_loop import Automatic, Nothing, TensorBoard, Tocsin, Tracker

NAMES = ("loss", "grad_norm", "scale", "lr")
WARM = 20
PROFILED = 64
LAUNCHES = {
    "cudaLaunchKernel",
    "cudaLaunchKernelExC",
    "cuLaunchKernel",
    "cuLaunchKernelEx",
    "cudaMemcpyAsync",
}
WAITS = {"cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize"}
LOOPS: dict[str, tuple[Callable[[], Loop], int, bool]] = {
    "MLP, fp32, SGD": (lambda: Mlp(device="cuda"), 60, False),
    "MLP, fp32, SGD, no clip": (lambda: Mlp(clip=False, device="cuda"), 60, False),
    "small transformer, fp16, AdamW": (lambda: Transformer(device="cuda"), 20, False),
    "small transformer, fp16, AdamW fused": (lambda: Transformer(device="cuda", fused=True), 20, False),
    "124 M parameters, fp16, AdamW": (lambda: Gpt(), 6, True),
    "124 M parameters, fp16, AdamW fused": (lambda: Gpt(fused=True), 6, True),
}
"""Each training, its steps a block, and whether the device is always busy."""


class Tensors(Tocsin):
    """``log`` of the tensors themselves: nothing is read on the training thread."""


TRACKERS: dict[str, Callable[[str], Tracker]] = {
    "nothing": Nothing,
    "tocsin, whole hook": Automatic,
    "tocsin, log of four values": Tensors,
    "tensorboard, add_scalar x 4": TensorBoard,
}


@dataclass
class Contestant:
    """Microseconds per step, one value per block, without and with the tracker: wall clock and CPU time."""

    loop: Loop
    tracker: Tracker
    busy: bool
    plain: list[tuple[float, float]] = field(default_factory=list)
    tracked: list[tuple[float, float]] = field(default_factory=list)
    losses: list[Any] = field(default_factory=list)
    count: int = 0
    launched: float = 0.0
    waited: float = 0.0

    def block(self, steps: int, tracked: bool) -> None:
        """Measure steps between two synchronizations: wall clock, and CPU time of the training thread."""
        _attach(self.tracker, tracked)
        walls, cpus = [], []
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for _ in range(steps):
            at, cpu = time.perf_counter(), time.thread_time()
            self.step(tracked)
            cpus.append(time.thread_time() - cpu)
            walls.append(time.perf_counter() - at)
        torch.cuda.synchronize()
        took = (time.perf_counter() - begun) / steps if self.busy else median(walls)
        _attach(self.tracker, False)
        (self.tracked if tracked else self.plain).append((took * 1e6, median(cpus) * 1e6))

    def step(self, tracked: bool) -> None:
        """Make one step and log it as a script would."""
        loss, norm, scale, rate = self.loop.step()
        self.losses.append(loss.detach())
        if tracked and not isinstance(self.tracker, (Automatic, Nothing)):
            row: Any = dict(zip(NAMES, (loss, norm, scale, rate), strict=True))
            if not isinstance(self.tracker, Tensors):
                row.update(loss=loss.item(), grad_norm=norm.item())
            self.tracker.log(row, self.count)
            self.count += 1

    def count_calls(self) -> None:
        """Count the launches and waits per step that the tracker adds, in blocks that are not timed."""
        launches, waits = [], []
        for tracked in (False, True):
            _attach(self.tracker, tracked)
            for _ in range(WARM):
                self.step(tracked)
            torch.cuda.synchronize()
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
                for _ in range(PROFILED):
                    self.step(tracked)
            torch.cuda.synchronize()
            _attach(self.tracker, False)
            names = [one.name for one in profile.events() or []]
            launches.append(sum(name in LAUNCHES for name in names))
            waits.append(sum(name in WAITS for name in names))
        self.launched = (launches[1] - launches[0]) / PROFILED
        self.waited = (waits[1] - waits[0]) / PROFILED

    def added(self) -> tuple[float, float]:
        """Return the medians of the rounds' differences: wall clock and CPU time."""
        rounds = list(zip(self.tracked, self.plain, strict=True))
        return median(one[0] - other[0] for one, other in rounds), median(
            one[1] - other[1] for one, other in rounds
        )


def _attach(tracker: Tracker, on: bool) -> None:
    if isinstance(tracker, Automatic):
        tracker.attach(on)


def measured(
    make: Callable[[], Loop], steps: int, busy: bool, rounds: int, url: str
) -> dict[str, Contestant]:
    """Measure one tracker after the other, so that no thread of one runs while another is measured."""
    found = {}
    for name, tracker in TRACKERS.items():
        one = found[name] = Contestant(make(), tracker(url), busy)
        _attach(one.tracker, False)
        for _ in range(WARM):
            one.step(False)
        for part in range(rounds + 1):
            for tracked in (False, True) if part % 2 else (True, False):
                one.block(steps, tracked)
        del one.plain[0], one.tracked[0]  # includes allocation of memory, ring buffer and kernels
        one.count_calls()
        one.tracker.finish()
    return found


def show(name: str, found: dict[str, Contestant]) -> None:
    """Print a Markdown table, and whether the losses are the same."""
    plain = median(wall for wall, _ in found["nothing"].plain)
    print(f"\n{name} ({plain:,.0f} us a step)\n")
    print("| | added to a step | of it | host time | launches | waits |")
    print("|---|---|---|---|---|---|")
    for tracker, one in found.items():
        wall, host = one.added()
        share = 100 * wall / plain
        counts = f"{one.launched:+.2f} | {one.waited:+.2f}"
        print(f"| {tracker} | {wall:+.1f} us | {share:+.2f} % | {host:+.1f} us | {counts} |")
    report(name, found, plain)
    truth = torch.stack(found["nothing"].losses)
    for tracker, one in found.items():
        same = torch.equal(torch.stack(one.losses), truth)
        print(f"  {tracker}: {len(truth)} losses {'equal, bit by bit' if same else 'DIFFER'}")


def report(name: str, found: dict[str, Contestant], plain: float) -> None:
    """Report what the hook and `log` add beside TensorBoard, and the hook's share of the transformer."""
    figure(f"step, {name} on CUDA", plain, "us")
    peer = ("tensorboard", found["tensorboard, add_scalar x 4"].added()[0])
    hook = found["tocsin, whole hook"].added()
    figure(f"hook, {name} on CUDA", hook[0], "us", peer=peer)
    figure(
        f"log of 4 values, {name} on CUDA", found["tocsin, log of four values"].added()[0], "us", peer=peer
    )
    if name == "MLP, fp32, SGD":
        figure("hook, MLP on CUDA", hook[1], "us")
    if name == "small transformer, fp16, AdamW":
        figure("hook, transformer on CUDA, share of a step", 100 * hook[0] / plain, "%")


def main() -> None:
    """Print one table for each training."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--loops", default="", help="only trainings whose names contain this")
    chosen = parser.parse_args()
    if not torch.cuda.is_available():
        print("bench_cuda: skipped, because there is no CUDA device")
        return
    print(
        f"{torch.cuda.get_device_name()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.2f}; "
        f"Python {sys.version.split()[0]}, torch {torch.__version__}"
    )
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    torch.use_deterministic_algorithms(True)  # warn_only=True leaves attention's backward unchanged
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    with sink() as url, tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        hooks = []
        for name, (make, steps, busy) in LOOPS.items():
            if chosen.loops in name:
                found = measured(make, steps, busy, chosen.rounds, url)
                show(name, found)
                hooks.append(found["tocsin, whole hook"])
                torch.cuda.empty_cache()
    figure("hook on CUDA, launches per step", max(one.launched for one in hooks))
    figure("hook on CUDA, synchronizations", max(one.waited for one in hooks))


if __name__ == "__main__":
    main()
