"""DeepSpeed: `watch_engine` reads each step from the engine, also its own loss scale.

Run `pip install deepspeed` and `deepspeed examples/deepspeed_engine.py`.
"""

import deepspeed
import torch
from torch import nn

from tocsin.integrations.deepspeed import watch_engine

STEPS = 100
MICRO_STEPS = 2
SETTINGS = {
    "train_micro_batch_size_per_gpu": 32,
    "gradient_accumulation_steps": MICRO_STEPS,
    "gradient_clipping": 1.0,
    "zero_optimization": {"stage": 1},
    "zero_allow_untested_optimizer": True,
    "fp16": {"enabled": torch.cuda.is_available(), "initial_scale_power": 8},
}


def main() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=SETTINGS)

    watch_engine(engine, project="examples", name="deepspeed", planned_steps=STEPS)
    weight = next(engine.parameters())
    for _ in range(STEPS * MICRO_STEPS):
        features = torch.randn(32, 16, dtype=weight.dtype, device=weight.device)
        targets = features[:, :4].sum(1, keepdim=True).sin()
        engine.backward(nn.functional.mse_loss(engine(features), targets))
        engine.step()


if __name__ == "__main__":
    main()
