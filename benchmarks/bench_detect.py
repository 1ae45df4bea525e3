"""Measure the cost of evaluation: all rules over fp16 records of six series, singly and in batches of 50.

Measured for a healthy run; runs whose alert never ends are given as multiples of it.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.figures import figure
from tocsin_server.core.models import Column, RecordBatch, Writer
from tocsin_server.detect.engine.engine import Engine
from tocsin_server.detect.interface.context import RunContext

RECORDS = 20_000
LIMITS_US = {1: 12.0, 50: 4.0}
"""Batch size -> maximum microseconds per record."""
FIRING = 1.5
"""Most that a record may cost while an alert fires, as a multiple of a healthy one."""
Series = dict[str, np.ndarray]


def healthy(count: int) -> Series:
    """Return six series f64[count] of a healthy run: a noisy falling loss, heavy-tailed norms, a sawtooth
    scale."""
    draw = random.Random(7)
    steps = np.arange(count)
    noise = np.array([draw.gauss(0.0, 0.05) for _ in range(count)])
    norms = np.array([draw.lognormvariate(0.0, 0.4) for _ in range(count)])
    return {
        "loss": 2.0 / (1.0 + steps / 4000.0) * (1.0 + noise),
        "grad_norm": norms,
        "scale": np.where(steps % 2100 < 100, 131072.0, 65536.0),
        "lr": 1e-3 * (0.5 + 0.5 * np.cos(np.pi * steps / (2.0 * count))),
        "skipped": (steps % 2100 == 99).astype(np.float64),
        "stepped": (steps % 2100 != 99).astype(np.float64),
    }


def diverging(count: int) -> Series:
    """Return a loss that increases indefinitely."""
    return {**healthy(count), "loss": 1.0 + 0.5 * np.arange(count)}


def broken(count: int) -> Series:
    """Return a loss and a norm that are always NaN."""
    nothing = np.where(np.arange(count) < count // 10, 1.0, np.nan)
    columns = healthy(count)
    return {**columns, "loss": columns["loss"] * nothing, "grad_norm": columns["grad_norm"] * nothing}


def batches(size: int, kind: Callable[[int], Series] = healthy) -> list[RecordBatch]:
    """Return the records of a run of ``kind`` in batches of ``size``."""
    columns, writer = kind(RECORDS), Writer("bench", 1, 1, 0)
    steps = np.arange(RECORDS, dtype=np.int64)
    return [
        RecordBatch(
            writer=writer,
            arrival=start // size,
            seq=start,
            n=size,
            step=steps[start : start + size],
            time_ns=steps[start : start + size] * 10**8,
            columns={name: Column(values[start : start + size]) for name, values in columns.items()},
        )
        for start in range(0, RECORDS, size)
    ]


def cost_us(size: int, kind: Callable[[int], Series] = healthy) -> float:
    """Return the microseconds per record, the best of three passes."""
    work, best = batches(size, kind), float("inf")
    for _ in range(3):
        engine = Engine(RunContext(planned_steps=2 * RECORDS))
        begun = time.process_time()
        for batch in work:
            engine.observe(batch)
        best = min(best, time.process_time() - begun)
    return best / RECORDS * 1e6


def main() -> None:
    """Print the cost with its limit, and their ratio."""
    for size, limit in LIMITS_US.items():
        cost = cost_us(size)
        print(f"rules, batches of {size:>2}: {cost:6.2f} us a record, limit {limit:g}: {cost / limit:.2f}")
        batched = "one by one" if size == 1 else f"batches of {size}"
        figure(f"rules, {batched}", cost, "us a record")
        for kind in (diverging, broken):
            times = cost_us(size, kind) / cost
            print(f"    {kind.__name__}: {times:.2f} times that, limit {FIRING:g}: {times / FIRING:.2f}")
            figure(f"rules, {kind.__name__} run, {batched}", times, ratio=True)


if __name__ == "__main__":
    main()
