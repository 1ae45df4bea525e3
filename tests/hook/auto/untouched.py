"""A training that does not mention tocsin: it prints its last loss and the sum of its weights, exits with 3.

``untouched.py --lr 0.1 [spawn PORT]``; ``spawn``: two ranks, which the script starts itself.
"""

from __future__ import annotations

import argparse
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

STEPS = 5


def train(rank: int, lr: float, port: int) -> None:
    """Train in fp16 as one rank; ``port`` 0: alone."""
    if port:
        dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    torch.manual_seed(0)
    net = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    for _ in range(STEPS):
        loss = net(torch.randn(8, 4)).pow(2).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    if port:
        dist.destroy_process_group()
    else:
        print(loss.item(), sum(param.double().sum().item() for param in net.parameters()))


def main() -> None:
    """Parse the arguments as a script does, and train."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float)
    parser.add_argument("--spawn", type=int, default=0)
    args = parser.parse_args()
    if args.spawn:
        mp.spawn(train, args=(args.lr, args.spawn), nprocs=2)  # type: ignore[attr-defined,no-untyped-call]
    else:
        train(0, args.lr, 0)
    sys.exit(3)


if __name__ == "__main__":
    main()
