"""DeepSpeed's engine with ZeRO, which steps its optimizer once for each of two parameter groups."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import deepspeed
import torch

import tocsin
from tests.hook.ingest_server import closed_port
from tests.real_trainers.trainings.cases import batches, net

STEPS, RATES = 6, (3e-3, 1e-3)


def settings(stage: int) -> dict[str, Any]:
    """Return a configuration with this stage of ZeRO."""
    zero = {"zero_optimization": {"stage": stage}, "zero_allow_untested_optimizer": True}
    return {"train_micro_batch_size_per_gpu": 16, "gradient_clipping": 0.5} | zero


def main() -> None:
    """Train, and print the name of the run, the losses and the norms."""
    run = tocsin.watch("real-trainers", name=f"deepspeed-groups-{sys.argv[1]}")
    model = net()
    parts = [[p for p in model.parameters() if (p.ndim > 1) is is_matrix] for is_matrix in (True, False)]
    groups = [{"params": part, "lr": rate} for part, rate in zip(parts, RATES, strict=True)]
    engine, *_ = deepspeed.initialize(
        model=model,
        optimizer=torch.optim.AdamW(groups),
        config=settings(int(sys.argv[1])),
        dist_init_required=False,
    )
    losses, norms = [], []
    for features, targets in batches(STEPS):
        loss = torch.nn.functional.mse_loss(engine(features), targets)
        losses.append(loss.item())
        engine.backward(loss)
        engine.step()
        norms.append(float(engine.get_global_grad_norm()))
    run.finish()
    print(json.dumps({"name": run.name, "loss": losses, "grad_norm": norms}))


if __name__ == "__main__":
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(closed_port()), "RANK": "0"}
    os.environ |= {"WORLD_SIZE": "1", "LOCAL_RANK": "0", "DS_ACCELERATOR": "cpu"}
    deepspeed.init_distributed("gloo")
    main()
