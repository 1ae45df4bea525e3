"""Measure how long the sender's thread keeps the GIL from the training thread.

The main thread reads the clock in a loop without pause. It only stops when another thread takes the GIL, so
each gap between two readings is one stretch in which the sender held it, or a moment at which the system ran
something else on this core. The same loop without a run gives the gaps of the system alone.

Goal: the longest stretch of an undisturbed run is at most 0.2 ms.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import tocsin
from benchmarks.bench_hook import sink
from benchmarks.figures import figure
from tocsin.api.run import Run

SECONDS = 5.0
ROUNDS = 3
SHORTEST_NS = 20_000
"""Shorter gaps are the loop itself and interrupts."""
ROW = {f"value{no}": 0.1 * no for no in range(5)}


def gaps(run: Run | None, rate: float) -> list[int]:
    """Log ``rate`` records per second to a run, if there is one.

    Returns:
        The gaps between two readings of the clock, in nanoseconds, the longest last.
    """
    clock = time.perf_counter_ns
    begun = last = clock()
    period, step, found = int(1e9 / rate), 0, list[int]()
    while last - begun < SECONDS * 1e9:
        now = clock()
        if now - last > SHORTEST_NS:
            found.append(now - last)
        if now - begun > step * period:
            step += 1
            if run is not None:
                run.log(ROW, step=step)
            now = clock()
        last = now
    return sorted(found)


def measured(url: str | None, folder: Path, rate: float) -> list[int]:
    """Return the gaps of the quietest of some rounds: the one whose longest gap is shortest."""
    rounds = list[list[int]]()
    for _ in range(ROUNDS):
        run: Any = None
        if url is not None:
            run = tocsin.watch("bench", name="gil", url=url, spool_dir=folder, patch=False, quiet=True)
            run.log(ROW, step=0)
            time.sleep(1)  # connected
        rounds.append(gaps(run, rate))
        if run is not None:
            run.finish()
    return min(rounds, key=lambda found: found[-1] if found else 0)


def shown(found: list[int]) -> str:
    """Return how many gaps there are, and the median, p99 and longest in microseconds."""
    if not found:
        return "no gap"
    half, most, longest = (found[index] / 1e3 for index in (len(found) // 2, int(len(found) * 0.99), -1))
    return f"{len(found)} gaps, p50 {half:.0f} us, p99 {most:.0f} us, longest {longest:.0f} us"


def main() -> None:
    """Print the gaps without a run, and with a run at three rates."""
    with sink() as url, tempfile.TemporaryDirectory() as place:
        print(f"no run: {shown(measured(None, Path(place), 1000))}")
        for rate in (50, 1000, 20_000):
            found = measured(url, Path(place), rate)
            print(f"{rate} records/s: {shown(found)}")
            if rate == 1000:
                figure("sender, longest hold of the GIL", found[-1] / 1e6 if found else 0.0, "ms")


if __name__ == "__main__":
    main()
