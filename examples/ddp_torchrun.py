"""DistributedDataParallel started by torchrun: all processes report to one run.

Run `torchrun --nproc_per_node=2 examples/ddp_torchrun.py`.
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import tocsin

STEPS = 100


def main() -> None:
    # Every process calls `watch`. They find their run by the launcher's variables and exchange no messages.
    # A restart by torchrun (`--max-restarts`) continues the run as its next attempt.
    tocsin.watch("examples", name="ddp", planned_steps=STEPS)

    has_gpus = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
    dist.init_process_group("nccl" if has_gpus else "gloo")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if has_gpus else torch.device("cpu")

    torch.manual_seed(0)  # the same weights on every rank
    model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 1)).to(device)
    parallel = DistributedDataParallel(model, device_ids=[device.index] if has_gpus else None)
    optimizer = torch.optim.AdamW(parallel.parameters(), lr=3e-3)

    torch.manual_seed(dist.get_rank())  # other data on every rank
    for _ in range(STEPS):
        features = torch.randn(32, 16, device=device)
        targets = features[:, :4].sum(1, keepdim=True).sin()
        # The page shows the loss of each rank; rules such as `straggler` and `rank-divergence` compare them.
        loss = nn.functional.mse_loss(parallel(features), targets)
        loss.backward()
        nn.utils.clip_grad_norm_(parallel.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    dist.destroy_process_group()


if __name__ == "__main__":
    main()
