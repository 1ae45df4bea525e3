"""Train a small language model in fp16 that converges: the healthy run of the demo.

Its sequences add modulo a prime: each token is the sum of the two before it, and one in ten is random, so
that the loss settles above zero as with real text.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

import tocsin
from tocsin_server.demo.trainings import pace

TOKENS = 17
LENGTH = 32
BATCH = 8
REPORT_STEPS = 200
WIDTH = 32
PEAK_LR = 2e-3
FLOOR_LR = 2e-4
WARMUP_STEPS = 100
DECAY_STEPS = 20_000
MAX_GRAD_NORM = 2.0


def sentences(count: int, generator: torch.Generator) -> Tensor:
    """Return ``count`` sequences of LENGTH + 1 tokens, with one random token in ten."""
    tokens = torch.randint(TOKENS, (count, LENGTH + 1), generator=generator)
    slip = torch.rand(count, LENGTH + 1, generator=generator) < 0.1
    for at in range(2, LENGTH + 1):
        total = (tokens[:, at - 1] + tokens[:, at - 2]) % TOKENS
        tokens[:, at] = torch.where(slip[:, at], tokens[:, at], total)
    return tokens


class Block(nn.Module):
    """Causal attention and a feed-forward layer, each after a normalization."""

    def __init__(self, width: int, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def attend(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        split = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        out: Tensor = self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return out

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attend(self.before_attention(x))
        out: Tensor = x + self.mlp(self.before_mlp(x))
        return out


class LanguageModel(nn.Module):
    """A small transformer that predicts the next token."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(TOKENS, WIDTH)
        self.places = nn.Parameter(0.02 * torch.randn(LENGTH, WIDTH))
        self.blocks = nn.Sequential(Block(WIDTH), Block(WIDTH))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, TOKENS)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits [batch, LENGTH, TOKENS] of the next token at each position."""
        out: Tensor = self.head(self.norm(self.blocks(self.words(tokens) + self.places)))
        return out


def learning_rate(step: int) -> float:
    """Return a factor of PEAK_LR: linear warm-up, then a cosine from 1 to the floor."""
    if step < WARMUP_STEPS:
        return (step + 1) / WARMUP_STEPS
    floor = FLOOR_LR / PEAK_LR
    progress = min(1.0, (step - WARMUP_STEPS) / DECAY_STEPS)
    return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * progress))


def main() -> None:
    """Train the language model; nothing goes wrong."""
    options = pace.arguments("A small language model in fp16 that learns as it should.", seed=0)
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    generator = torch.Generator().manual_seed(options.seed)

    model = LanguageModel().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK_LR)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, learning_rate)
    scaler = torch.amp.GradScaler(device)
    config = {"peak_lr": PEAK_LR, "warmup_steps": WARMUP_STEPS, "batch": BATCH, **vars(options)}
    tocsin.watch(
        "modular-sums", name="transformer-fp16", config=config, planned_steps=pace.planned_steps(options)
    )

    pace.end_on_signal()
    for step in pace.steps(limit=options.steps, seconds=options.seconds, per_second=options.steps_per_s):
        tokens = sentences(BATCH, generator).to(device)
        optimizer.zero_grad()
        with torch.autocast(device, dtype=torch.float16):
            logits = model(tokens[:, :-1])
            loss = functional.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_GRAD_NORM)
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
        pace.save_checkpoint(options.checkpoints, step, {"model": model})
        if step % REPORT_STEPS == 0:
            print(
                f"step {step}: loss {loss:.4g}, grad norm {norm:.3g}, scale {scaler.get_scale():g}",
                flush=True,
            )


if __name__ == "__main__":
    main()
