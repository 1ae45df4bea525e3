"""A training on several ranks, started by test_launchers.py: ``launched.py NAME [spawn] [late]``.

``spawn``: the script starts its two ranks itself. ``late``: ``watch`` is called before the process group
exists.
"""

from __future__ import annotations

import os
import socket
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

import tocsin

EXIT_S = 60.0
"""A rank trains for milliseconds: on a busy machine the default of 3 s can pass before it has connected."""


def train(rank: int, name: str, port: int, late: bool) -> None:
    """Train as one rank; ``port`` 0: the launcher has set the rendezvous."""
    if late:
        tocsin.watch("launched", name=name, exit_timeout=EXIT_S)
    if port:
        dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    else:
        dist.init_process_group("gloo")
    if not late:
        tocsin.watch("launched", name=name, exit_timeout=EXIT_S)
    torch.manual_seed(0)
    net = DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(3):
        net(torch.randn(8, 4)).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


def free_port() -> int:
    """Return a loopback port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    name, late = sys.argv[1], "late" in sys.argv
    if "spawn" in sys.argv:
        mp.spawn(train, args=(name, free_port(), late), nprocs=2)  # type: ignore[attr-defined,no-untyped-call]
    else:
        train(int(os.environ.get("RANK", "0")), name, 0, late)
