"""Train a WGAN whose critic saturates: the two losses end as mirror images, +1000 and -1000.

The critic has no normalization and no Lipschitz constraint, so its scores grow until the hard clamp, beyond
which the gradient is exactly zero. From then on neither network learns, although no value looks alarming:
they are all constant.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

import tocsin
from tocsin_server.demo.trainings import pace

BATCH = 32
REPORT_STEPS = 200
STEPS_PER_S = 50.0
"""So fast that the critic saturates before the warning about it is due: one notification, not two."""
NOISE = 8
POINT = 2
LIMIT = 1000.0
"""Scores beyond this are clamped: the flaw of this training."""
CRITIC_LR = 1e-3
GENERATOR_LR = 1e-5
"""A hundred times less than the critic's: the generator never catches up."""
MAX_GRAD_NORM = 1e7
"""Never has an effect, as in many copied scripts."""


def rings(count: int, generator: torch.Generator) -> Tensor:
    """Return points [count, 2] near a circle of radius 3: the real data."""
    angle = 6.2832 * torch.rand(count, generator=generator)
    radius = 3 + 0.1 * torch.randn(count, generator=generator)
    return torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)


class Critic(nn.Module):
    """A critic whose score is clamped, which is the fault that the demo shows."""

    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Sequential(
            nn.Linear(POINT, 64),
            nn.LeakyReLU(0.2),
            nn.Linear(64, 128),
            nn.LeakyReLU(0.2),
            nn.Linear(128, 1),
        )

    def forward(self, points: Tensor) -> Tensor:
        return torch.clamp(self.score(points), min=-LIMIT, max=LIMIT)


def generator_network() -> nn.Module:
    """Return the generator: noise [batch, NOISE] to points [batch, POINT]."""
    return nn.Sequential(nn.Linear(NOISE, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, POINT))


def critic_objective(critic: nn.Module, real: Tensor, fake: Tensor) -> Tensor:
    """Return a loss that is low for high scores of real points and low scores of fake ones."""
    sign = torch.cat([-torch.ones(len(real)), torch.ones(len(fake))]).to(real.device)
    loss: Tensor = (sign[:, None] * critic(torch.cat([real, fake]))).mean()
    return loss


def update(network: nn.Module, optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    """Clip the gradients of ``loss`` and make one step."""
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(network.parameters(), MAX_GRAD_NORM)
    optimizer.step()


def main() -> None:
    """Train generator and critic until the critic saturates."""
    options = pace.arguments("A WGAN whose critic saturates.", seed=0, steps_per_s=STEPS_PER_S)
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    draw = torch.Generator().manual_seed(options.seed)

    critic, generator = Critic().to(device), generator_network().to(device)
    critic_optimizer = torch.optim.Adam(critic.parameters(), lr=CRITIC_LR, betas=(0.5, 0.9))
    generator_optimizer = torch.optim.Adam(generator.parameters(), lr=GENERATOR_LR, betas=(0.5, 0.9))
    tocsin.watch(
        "rings",
        name="wgan-clamped",
        config={"critic_lr": CRITIC_LR, "generator_lr": GENERATOR_LR, "clamp": LIMIT, **vars(options)},
        optimizers={"critic": critic_optimizer, "generator": generator_optimizer},
        planned_steps=pace.planned_steps(options),
    )

    pace.end_on_signal()
    for step in pace.steps(limit=options.steps, seconds=options.seconds, per_second=options.steps_per_s):
        real = rings(BATCH, draw).to(device)
        fake = generator(torch.randn(BATCH, NOISE, generator=draw).to(device))
        critic_loss = critic_objective(critic, real, fake.detach())
        update(critic, critic_optimizer, critic_loss)
        generator_loss = -critic(fake).mean()
        update(generator, generator_optimizer, generator_loss)
        pace.save_checkpoint(options.checkpoints, step, {"critic": critic, "generator": generator})
        if step % REPORT_STEPS == 0:
            print(f"step {step}: critic {critic_loss:.4f}, generator {generator_loss:.4f}", flush=True)


if __name__ == "__main__":
    main()
