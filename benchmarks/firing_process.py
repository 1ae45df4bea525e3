"""A process with runs of the real hook whose loss becomes NaN, one run after the other.

``python firing_process.py URL TOKEN RUNS FOLDER``: prints ``ready``, waits for a line, and for each run
prints ``NAME SECONDS``, the wall clock just before the call of ``log`` with the NaN. Random pauses between
the alerts make them occur at any time relative to flush and commit.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "client_hook"))

import tocsin
from tocsin.api.run import Run

CONNECTED_S = 60.0
PAUSE_S = (0.2, 0.7)
SETTLED_S = 5.0
"""Time that the runs continue after the last alert, because the end of a run is notified too."""


def connected(run: Run) -> None:
    """Return once the run's first step is acknowledged, so that the handshake is not measured."""
    run.log(step=0, loss=1.0)
    ends = time.monotonic() + CONNECTED_S
    while run._reporter.sender.stats.acked_seq < 0:  # type: ignore[attr-defined]
        if time.monotonic() > ends:
            raise SystemExit(f"no acknowledgement within {CONNECTED_S:g} s")
        time.sleep(0.02)


def main() -> None:
    """Make the loss of every run NaN, one after the other."""
    url, token, count, folder = sys.argv[1:]
    draw = random.Random(7)
    print("ready", flush=True)
    sys.stdin.readline()
    runs = []
    for no in range(int(count)):
        name = f"run-{no}"
        place = Path(folder) / name
        run = tocsin.watch("delivery", name=name, url=url, token=token, patch=False, spool_dir=place)
        connected(run)  # type: ignore[arg-type]
        time.sleep(draw.uniform(*PAUSE_S))
        print(name, time.time(), flush=True)
        run.log(step=1, loss=float("nan"))
        runs.append(run)
    time.sleep(SETTLED_S)
    for run in runs:
        run.finish()


if __name__ == "__main__":
    main()
