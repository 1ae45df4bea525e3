"""A process that calls ``watch`` and trains only in its children: ``parent.py NAME METHOD PORT [trains]``.

``trains``: it trains before its children do.
"""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import tocsin

STEPS = 5


def train(index: int, port: int) -> None:
    """Train in a child; ``port``: of a process group, 0 for none."""
    if port:
        dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=index, world_size=2)
    torch.manual_seed(0)
    net: torch.nn.Module = torch.nn.Linear(4, 1)
    if port:
        net = torch.nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(STEPS):
        net(torch.randn(8, 4)).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        tocsin.log({"own": float(step)})
    if port:
        dist.destroy_process_group()


def main() -> None:
    """Watch, start two children, and wait for them."""
    name, method, port, *more = sys.argv[1:]
    os.environ.pop("TOCSIN_TOKEN")  # passed in the call only: children do not find it in their environment
    tocsin.watch("children", name=name, token=TOKEN, config={"depth": 3})
    if more:
        train(0, 0)
    mp.start_processes(  # type: ignore[attr-defined,no-untyped-call]
        train, args=(int(port),), nprocs=2, start_method=method
    )


if __name__ == "__main__":
    TOKEN = os.environ["TOCSIN_TOKEN"]
    main()
