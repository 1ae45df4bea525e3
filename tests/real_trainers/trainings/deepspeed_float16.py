"""DeepSpeed's engine in float16, with its own loss scaler and ZeRO stage 1.

On a CPU, DeepSpeed refuses float16; here it is allowed.
"""

from __future__ import annotations

import os

import deepspeed
from deepspeed.accelerator import get_accelerator
from torch import nn, optim

from tests.hook.ingest_server import closed_port
from tests.real_trainers.trainings.cases import OwnLog, batches, is_watched, main, net, uses_integration
from tests.real_trainers.trainings.length import BROKEN_AT, STEPS

MICRO_STEPS = 2
SETTINGS = {
    "train_micro_batch_size_per_gpu": 16,
    "gradient_accumulation_steps": MICRO_STEPS,
    "gradient_clipping": 0.5,
    "zero_optimization": {"stage": 1},
    "zero_allow_untested_optimizer": True,
    "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 3e-3, "warmup_num_steps": 20}},
}


@uses_integration
def train(case: str, log: OwnLog) -> nn.Module:
    """Train; the scale of the case ``scaled`` is too high at first and grows soon."""
    model = net()
    power = 22 if case == "scaled" else 8
    scaler = {"enabled": True, "initial_scale_power": power, "loss_scale_window": 25, "hysteresis": 1}
    engine, *_ = deepspeed.initialize(
        model=model,
        optimizer=optim.AdamW(model.parameters(), lr=3e-3),
        config=SETTINGS | {"fp16": scaler},
        dist_init_required=False,
    )
    if is_watched():
        from tocsin.integrations.deepspeed import watch_engine

        watch_engine(engine, planned_steps=STEPS)
    losses: list[float] = []
    nan_at = MICRO_STEPS * BROKEN_AT if case == "broken" else None
    for features, targets in batches(MICRO_STEPS * STEPS, nan_at=nan_at):
        loss = nn.functional.mse_loss(engine(features.half()).float(), targets)
        losses.append(loss.item())
        lr, scale = engine.get_lr()[0], engine.optimizer.cur_scale
        engine.backward(loss)
        is_last = engine.is_gradient_accumulation_boundary()
        engine.step()
        if is_last:
            norm = engine.get_global_grad_norm()
            mean = sum(losses) / MICRO_STEPS
            log.note(engine.global_steps - 1, loss=mean, grad_norm=norm, lr=lr, scale=scale)
            losses.clear()
    log.planned, log.setting = STEPS, ("fp16.loss_scale_window", 25)
    return model


if __name__ == "__main__":
    os.environ |= {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(closed_port()),
        "RANK": "0",
        "WORLD_SIZE": "1",
    }
    os.environ |= {"LOCAL_RANK": "0", "DS_ACCELERATOR": "cpu"}
    get_accelerator().is_fp16_supported = lambda: True
    deepspeed.init_distributed("gloo")
    main(train, "deepspeed", "healthy", "scaled", "broken")
