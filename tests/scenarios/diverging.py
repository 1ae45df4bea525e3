"""A training that saves checkpoints and breaks: a learning rate that is far too high makes its weights NaN.

The model is linear with a curvature of 2, so that it diverges from a rate of 1 on, on every machine.

Usage: ``python diverging.py NAME FOLDER LEARNING_RATE [CHECKPOINT RUN]``. Resumed from a checkpoint, it
continues the run at its step, with the learning rate given.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

import tocsin

STEPS, EVERY, BROKEN_AT = 360, 50, 297
USUAL = 0.05


def main(name: str, folder: Path, rate: float, checkpoint: str = "", run_id: str = "") -> None:
    """Train; from ``BROKEN_AT`` on with ``rate``."""
    torch.manual_seed(0)
    net = torch.nn.Linear(8, 1, bias=False)
    optimizer = torch.optim.SGD(net.parameters(), lr=USUAL)
    first = 0
    if checkpoint:
        state = torch.load(checkpoint)
        net.load_state_dict(state["net"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"] + 1
    run = tocsin.watch("resume", name=name, resume=run_id or None, start_step=first, quiet=True)
    draw = torch.Generator().manual_seed(first)
    inputs = torch.eye(8).repeat(4, 1) * 8**0.5
    for step in range(first, STEPS):
        if step == BROKEN_AT:
            optimizer.param_groups[0]["lr"] = rate
        noise = torch.randn(32, 1, generator=draw)
        optimizer.zero_grad()
        (net(inputs) - inputs.sum(1, keepdim=True) - noise).pow(2).mean().backward()
        optimizer.step()
        if step % EVERY == 0:
            saved = {"net": net.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            torch.save(saved, folder / "writing.tmp")
            (folder / "writing.tmp").rename(folder / f"ckpt_{step}.pt")
    run.finish()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]), *sys.argv[4:])
