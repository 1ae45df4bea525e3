"""A sweep in one process: each training is a run, and the compare page shows them together.

Run `python examples/sweep.py`.
"""

import torch
from torch import nn

import tocsin

STEPS = 150
RATES = (3e-4, 3e-3, 3e-2)


def train(rate: float) -> float:
    """Train with one learning rate; return the last loss."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    for _ in range(STEPS):
        features = torch.randn(64, 16)
        targets = features[:, :4].sum(1, keepdim=True).sin()
        loss = nn.functional.mse_loss(model(features), targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return loss.item()


if __name__ == "__main__":
    for rate in RATES:
        # The block is one run. Without `with`, the next call of `watch` finishes the run before it.
        # `config` is what the compare page shows as the difference between runs; `tags` find them again.
        with tocsin.watch(
            "examples", name=f"sweep-{rate:g}", config={"lr": rate}, tags=["sweep"], planned_steps=STEPS
        ):
            print(f"lr {rate:g}: loss {train(rate):.4f}")
