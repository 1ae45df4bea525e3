"""A training that logs the same names to two trackers, or to tocsin and one: ``both.py FOLDER NAME...``."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

import tocsin
from tests.trackers.training import TRACKERS


def main(folder: Path, *names: str) -> None:
    """Train four steps."""
    trackers = [TRACKERS[name]() for name in names]
    for tracker in trackers:
        tracker.start(folder)
    net = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(4):
        net(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        if len(trackers) == 1:
            tocsin.log(equal=step / 8, other=float(step))
        for place, tracker in enumerate(trackers):
            tracker.log({"equal": step / 8, "other": step + 0.5 + place}, step)
    for tracker in trackers:
        tracker.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
