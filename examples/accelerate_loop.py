"""Accelerate: `watch` in the script that `accelerate launch` starts.

Run `pip install accelerate` and `accelerate launch examples/accelerate_loop.py`.
"""

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import tocsin

STEPS = 100
MICRO_STEPS = 2


def main() -> None:
    accelerator = Accelerator(gradient_accumulation_steps=MICRO_STEPS)
    # Every process calls `watch`. They appear as the ranks of one run.
    tocsin.watch("examples", name="accelerate", planned_steps=STEPS)

    torch.manual_seed(0)
    features = torch.randn(STEPS * MICRO_STEPS * 32 * accelerator.num_processes, 16)
    targets = features[:, :4].sum(1, keepdim=True).sin()
    loader = DataLoader(TensorDataset(features, targets), batch_size=32)
    model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

    for inputs, wanted in loader:
        with accelerator.accumulate(model):
            loss = nn.functional.mse_loss(model(inputs), wanted)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
    accelerator.end_training()


if __name__ == "__main__":
    main()
