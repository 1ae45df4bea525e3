"""Measure the overhead of the hook, compared with trackers that pip can install, in one interleaved run.

``python bench_hook.py`` prints everything; ``--parts`` and ``--trackers`` select. Ratios and differences
refer to the same table, and "nothing" is a training without any tracker, measured like the others: its
overhead is the noise of the machine. The targets are those of the design.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import torch
from torch.utils.tensorboard import SummaryWriter

sys.path.insert(0, str(Path(__file__).parents[1]))

import tocsin
from benchmarks.contest import Contestant, Figures, measured, percentile
from benchmarks.figures import figure
from benchmarks.loops import Mlp
from benchmarks.trackers import PACKAGES
from tocsin import protocol
from tocsin.transport.outbox import Outbox
from tocsin.transport.sender import Sender

ROUNDS = 20
LOGS = 400
"""Calls a block."""
WARM = 20
"""First steps of each block, which are not counted."""
WITHIN = 4000
"""Steps of the training in which `log` is measured."""
POINTS = 2_000_000
NAMES = ("loss", "grad_norm", "scale", "lr")
STEPS = {"mlp": 200, "transformer": 40, "mlp-unclipped": 160, "transformer-unclipped": 48}
"""Steps a block."""
Times = dict[str, list[float]]


@contextlib.contextmanager
def sink() -> Iterator[str]:
    """Run a server that accepts everything; yield its address."""
    command = [sys.executable, str(Path(__file__).with_name("sink.py"))]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.stdin.close()
        process.wait()


def timed(times: list[float], call: Callable[[int], None]) -> None:
    """Append the microseconds of each of LOGS calls but the first."""
    clock = time.perf_counter_ns
    for index in range(LOGS):
        begun = clock()
        call(index)
        took = clock() - begun
        if index >= WARM:
            times.append(took / 1e3)


def log_costs(url: str, place: Path) -> Times:
    """Return the microseconds of reporting four values once, as a script does it."""
    loss, norm, scale, lr = 0.5, 1.25, 65536.0, 1e-4
    tensors = tuple(torch.tensor(value) for value in (loss, norm, scale, lr))
    board = SummaryWriter(str(place / "logs"))
    run = tocsin.watch("bench", name="log", url=url, spool_dir=place, patch=False)

    def floats(step: int) -> None:
        run.log(step=step, loss=loss, grad_norm=norm, scale=scale, lr=lr)

    def of_tensors(step: int) -> None:
        run.log(step=step, loss=tensors[0], grad_norm=tensors[1], scale=tensors[2], lr=tensors[3])

    def add_scalars(step: int) -> None:
        for name, value in zip(NAMES, (loss, norm, scale, lr), strict=True):
            board.add_scalar(name, value, step)

    calls: dict[str, Callable[[int], None]] = {
        "an empty call": lambda step: None,
        "log, 4 floats": floats,
        "log, 4 CPU tensors": of_tensors,
        "add_scalar x 4, floats": add_scalars,
    }
    times: Times = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            timed(times[name], call)
    run.finish()
    board.close()
    return times


def within_training(url: str, place: Path) -> list[float]:
    """Return the microseconds of `log` of four floats after each step of the MLP, whose caches are cold."""
    loop, clock = Mlp(), time.perf_counter_ns
    run = tocsin.watch("bench", name="within", url=url, spool_dir=place / "within", patch=False)
    costs = []
    for step in range(WITHIN):
        loss, norm, scale, lr = loop.step()
        first, second, third, fourth = loss.item(), norm.item(), scale, lr
        begun = clock()
        read = clock() - begun
        begun = clock()
        run.log(step=step, loss=first, grad_norm=second, scale=third, lr=fourth)
        took = clock() - begun
        if step >= WARM:
            costs.append((took - read) / 1e3)
    run.finish()
    return costs


def show_within(costs: list[float]) -> None:
    """Print median and p99 of `log` within a training."""
    middle, p99 = median(costs), percentile([costs], 0.99)
    print(f"log, 4 floats, after a step of the MLP: median {middle:.2f} us, p99 {p99:.2f} us (target <= 8)")
    figure("log, 4 floats, within a training", middle, "us")


def show_log(times: Times) -> None:
    """Print median and p99 of a call, also of the empty call, and the ratio to TensorBoard's."""
    print("reporting four values (us)")
    reference = median(times["add_scalar x 4, floats"])
    for name, values in times.items():
        p99, middle = percentile([values], 0.99), median(values)
        print(f"  {name:<24} median {middle:9.2f}   p99 {p99:9.2f}   ratio {middle / reference:7.4f}")
    print("  target: floats median <= 1 and p99 <= 10, CPU tensors median <= 2")
    floats, tensors = times["log, 4 floats"], times["log, 4 CPU tensors"]
    board = ("tensorboard", reference)
    figure("log, 4 floats, median", median(floats), "us", peer=board)
    figure("log, 4 floats, p99", percentile([floats], 0.99), "us")
    figure("log, 4 CPU tensors, median", median(tensors), "us", peer=board)


def points_per_s(url: str, place: Path) -> float:
    """Return the points per second from ``put`` to the ack, four per record, in one process."""
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


def show_steps(loop: str, found: list[Contestant]) -> None:
    """Print a Markdown row for each contestant."""
    if not found:
        return
    bare = next((one.figures.rss for one in found if one.tracker == "nothing"), 0)
    plain = median(one.figures.step() for one in found)
    print(f"\na step of the {loop} ({plain:,.0f} us without a tracker)\n")
    print("| | added, median | added, p99 | CPU of the training thread | start | exit | memory | brings |")
    print("|---|---|---|---|---|---|---|---|")
    for one in found:
        figures, brought = one.figures, one.environment
        own = one.tracker == "nothing"
        size = "" if own else f"{brought.packages} packages, {brought.size / 1e6:.1f} MB"
        name = one.tracker if own else f"{one.tracker} {brought.version}"
        print(
            f"| {name} | {figures.added():.1f} us | {figures.added_p99():.0f} us "
            f"| {figures.added('cpu'):.1f} us | {figures.start_s:.2f} s | {figures.exit_s:.2f} s "
            f"| {(figures.rss - bare) / 1e6:+.0f} MB | {size} |"
        )
    report_steps(loop, {one.tracker: one.figures for one in found}, plain)


def report_steps(loop: str, found: dict[str, Figures], plain: float) -> None:
    """Report what the hook and `log` add to a step beside Trackio, and their memory."""
    name = {"mlp": "MLP", "transformer": "transformer"}[loop]
    trackio = found.get("trackio")
    peer = ("trackio", trackio.added("cpu")) if trackio else None
    figure(f"step of the {name} on the CPU", plain, "us")
    for tracker, what in (("tocsin", "hook"), ("tocsin-log", "log of 4 values")):
        if tracker in found:
            figure(f"{what}, {name} on the CPU", found[tracker].added("cpu"), "us", peer=peer)
    if "nothing" in found:
        figure(f"noise, {name} on the CPU", found["nothing"].added("cpu"), "us")
        if "tocsin" in found and loop == "mlp":
            figure("hook, memory", (found["tocsin"].rss - found["nothing"].rss) / 1e6, "MB")


def show_samples(loop: str, found: list[Contestant]) -> None:
    """Print the hook without and with its own norms, for a script that computes none."""
    print(f"\na step of the {loop}, where the script computes no gradient norm")
    for one in found:
        plain, tracked = one.figures.plain["wall"], one.figures.tracked["wall"]
        low, high = (percentile(tracked, q) - percentile(plain, q) for q in (0.5, 0.99))
        mean = _mean(tracked) - _mean(plain)
        print(f"  {one.tracker:<18} adds median {low:8.1f}   p99 {high:8.1f}   mean {mean:8.1f} us")
        norm = "without its own norm" if one.tracker == "tocsin-unsampled" else "with its own norm"
        figure(f"hook, {loop.removesuffix('-unclipped')} on the CPU, {norm}, mean", mean, "us")


def _mean(rounds: list[list[float]]) -> float:
    """Return the mean of all steps but the slowest 1 %, which are caused by the machine."""
    values = sorted(value for one in rounds for value in one)
    kept = values[: max(1, len(values) * 99 // 100)]
    return sum(kept) / len(kept)


def show_machine() -> None:
    """Print date, processors and load, which are needed to interpret the results."""
    name = next(
        (line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), "?"
    )
    load = " ".join(f"{value:.2f}" for value in os.getloadavg())
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    python = ".".join(map(str, sys.version_info[:3]))
    print(f"{now}; {os.cpu_count()} CPUs ({name}), load {load}; Python {python}, torch {torch.__version__}")


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--parts", default="log,mlp,transformer,samples,points", help="comma between them")
    parser.add_argument("--trackers", default=",".join(PACKAGES), help="of other makers; 'none' for none")
    parser.add_argument("--rounds", type=int, default=8)
    return parser.parse_args()


def main() -> None:
    """Print the tables, each with its targets."""
    chosen = _arguments()
    parts = chosen.parts.split(",")
    others = [name for name in chosen.trackers.split(",") if name in PACKAGES]
    torch.set_num_threads(1)
    show_machine()
    with sink() as url, tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        if "log" in parts:
            show_log(log_costs(url, place))
            show_within(within_training(url, place))
        for loop in ("mlp", "transformer"):
            if loop in parts:
                trackers = ["nothing", "tocsin", "tocsin-log", *others]
                show_steps(
                    loop, measured(trackers, loop, url, place, rounds=chosen.rounds, steps=STEPS[loop])
                )
                print("\n  target: the whole hook adds <= 15 us")
            bare = f"{loop}-unclipped"
            if "samples" in parts:
                own = ["tocsin-unsampled", "tocsin"]
                show_samples(loop, measured(own, bare, url, place, rounds=chosen.rounds, steps=STEPS[bare]))
        if "points" in parts:
            rate = points_per_s(url, place)
            print(f"\nfrom put to ack, with spool: {rate:,.0f} points/s")
            figure("put to ack, 1 process", rate, "points/s", higher_is_better=True)
            print("  target, end to end with the real server: >= 250,000")
    show_machine()


if __name__ == "__main__":
    main()
