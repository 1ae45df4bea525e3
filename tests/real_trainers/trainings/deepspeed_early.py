"""DeepSpeed's engine in float16 without ZeRO, which steps once to allocate the state of its optimizer."""

from __future__ import annotations

import json
import os
from typing import Any

import deepspeed
import torch
from deepspeed.accelerator import get_accelerator

import tocsin
from tests.hook.ingest_server import closed_port
from tests.real_trainers.trainings.cases import batches, net
from tocsin.integrations.deepspeed import watch_engine

STEPS = 3
SETTINGS: dict[str, Any] = {"train_micro_batch_size_per_gpu": 16, "gradient_accumulation_steps": 1}
SETTINGS["fp16"] = {"enabled": True, "initial_scale_power": 8}


def main() -> None:
    """Train, and print the name of the run."""
    run = tocsin.watch("real-trainers", name="deepspeed-early")
    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    engine, *_ = deepspeed.initialize(
        model=model, optimizer=optimizer, config=SETTINGS, dist_init_required=False
    )
    watch_engine(engine)
    for features, targets in batches(STEPS):
        engine.backward(torch.nn.functional.mse_loss(engine(features.half()).float(), targets))
        engine.step()
    run.finish()
    print(json.dumps({"name": run.name, "steps": STEPS}))


if __name__ == "__main__":
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(closed_port()), "RANK": "0"}
    os.environ |= {"WORLD_SIZE": "1", "LOCAL_RANK": "0", "DS_ACCELERATOR": "cpu"}
    get_accelerator().is_fp16_supported = lambda: True
    deepspeed.init_distributed("gloo")
    main()
