"""A training that logs the same names to tocsin and to a tracker: ``both.py TRACKER FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

import tocsin
from tests.trackers.training import TRACKERS


def main(name: str, folder: Path) -> None:
    """Train four steps."""
    tracker = TRACKERS[name]()
    tracker.start(folder)
    net = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(4):
        net(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        tocsin.log(equal=step / 8, other=float(step))
        tracker.log({"equal": step / 8, "other": step + 0.5}, step)
    tracker.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
