"""Plain PyTorch with automatic mixed precision: one line is added to an ordinary training loop.

Run `python examples/pytorch_amp.py`. With `--lr 100` the loss scale collapses, and alerts fire.
"""

import argparse

import torch
from torch import nn

import tocsin

STEPS = 300


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=3e-3)
    options = parser.parse_args()

    # This line is all that tocsin needs. It records loss, gradient norm, loss scale and learning rate at
    # every step from here on. The address and the token come from TOCSIN_URL and TOCSIN_TOKEN.
    tocsin.watch("examples", name="pytorch-amp", config=vars(options), planned_steps=STEPS)

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 1)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    scaler = torch.amp.GradScaler(device)

    for _ in range(STEPS):
        features = torch.randn(64, 16, device=device)
        targets = features[:, :4].sum(1, keepdim=True).sin()

        with torch.autocast(device, torch.float16):
            predictions = model(features)
            loss = nn.functional.mse_loss(predictions.float(), targets)

        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)  # skips the step if a gradient is Inf or NaN
        scaler.update()
        optimizer.zero_grad()
        schedule.step()

        # Optional: further numbers of this step. A tensor is read later, without waiting for the GPU.
        tocsin.log(mean_error=(predictions - targets).abs().mean())


if __name__ == "__main__":
    main()
