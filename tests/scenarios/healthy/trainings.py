"""Healthy real trainings: ``python trainings.py NAME SEED STEPS > run.jsonl``; ``NAMES`` lists them.

Real torch on CPU, seeded, one thread. They record what the hook would: loss, norm before the clip, learning
rate, evaluations. None should raise an alert. What a script would declare about a run (a cyclic schedule) is
in ``DECLARED``.
"""

from __future__ import annotations

import functools
import json
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, gaussian_nll_loss, mse_loss, one_hot, softplus

Record = dict[str, float]
Training = Callable[[int], Iterator[Record]]
SIZE = 4096
"""Samples of a data set."""
LossOf = Callable[[int], Tensor]
"""The loss of the batch of a step."""

SCHEDULES = ("constant", "cosine", "warmup-cosine", "multistep", "linear", "onecycle", "wsd", "restarts")


def rate_of(schedule: str, step: int, steps: int) -> float:
    """Return the factor of the peak learning rate at ``step`` of ``steps``."""
    part, warm = step / steps, min(1.0, (step + 1) / (0.05 * steps))
    cosine = 0.5 * (1 + math.cos(math.pi * part))
    return {
        "constant": 1.0,
        "cosine": cosine,
        "warmup-cosine": warm * cosine,
        "multistep": 0.1 ** sum(part > edge for edge in (0.5, 0.75)),
        "linear": warm * (1.0 - part),
        "onecycle": min(part / 0.3, 1.0)
        if part < 0.3
        else 0.5 * (1 + math.cos(math.pi * (part - 0.3) / 0.7)),
        "wsd": warm * min(1.0, (1.0 - part) / 0.2),
        "restarts": 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * ((4 * part) % 1.0))),
    }[schedule]


@dataclass(frozen=True)
class Plan:
    """Length, learning rate and clipping of a training."""

    steps: int
    rate: float
    schedule: str = "constant"
    optimizer: str = "adamw"
    clip: float = 1.0
    evaluate_every: int = 500


def optimizer_of(plan: Plan, model: nn.Module) -> torch.optim.Optimizer:
    """Return the optimizer that the plan names, for the trainable parameters."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if plan.optimizer == "sgd":
        return torch.optim.SGD(parameters, plan.rate, momentum=0.9)
    return torch.optim.AdamW(parameters, plan.rate, weight_decay=0.01)


def train(
    plan: Plan, model: nn.Module, loss_of: LossOf, evaluate: Callable[[], Record] | None = None
) -> Iterator[Record]:
    """Yield one record per step, with ``val/...`` if there was an evaluation."""
    optimizer = optimizer_of(plan, model)
    for step in range(plan.steps):
        rate = plan.rate * rate_of(plan.schedule, step, plan.steps)
        for group in optimizer.param_groups:
            group["lr"] = rate
        loss = loss_of(step)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), plan.clip)
        optimizer.step()
        record = {"step": step, "loss": loss.item(), "grad_norm": float(norm), "lr": rate, "stepped": 1.0}
        if evaluate is not None and step % plan.evaluate_every == plan.evaluate_every - 1:
            with torch.no_grad():
                record |= evaluate()
        yield record


def mlp(steps: int, *, schedule: str, batch: int = 64, classes: int = 10, rate: float = 1e-3,
        optimizer: str = "adamw", mixup: bool = False) -> Iterator[Record]:  # fmt: skip
    """Noisy classification of 32 features by a perceptron; one label in ten is wrong."""
    teacher, held = nn.Linear(32, classes), torch.randn(1024, 32)
    truth = teacher(held).argmax(1)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, classes))

    def loss_of(_step: int) -> Tensor:
        inputs = torch.randn(batch, 32)
        wrong = torch.rand(batch) < 0.1
        y = torch.where(wrong, torch.randint(classes, (batch,)), teacher(inputs).argmax(1))
        target = one_hot(y, classes).float()
        if mixup:
            share, order = float(torch.distributions.Beta(0.4, 0.4).sample()), torch.randperm(batch)
            inputs = share * inputs + (1 - share) * inputs[order]
            target = share * target + (1 - share) * target[order]
        return cross_entropy(model(inputs), target)

    def evaluate() -> Record:
        model.eval()
        output = model(held)
        model.train()
        return {"val/loss": cross_entropy(output, truth).item(),
                "val/accuracy": (output.argmax(1) == truth).float().mean().item()}  # fmt: skip

    return train(Plan(steps, rate, schedule, optimizer), model, loss_of, evaluate)


def regression(steps: int, *, schedule: str, batch: int = 1, heavy: bool = False) -> Iterator[Record]:
    """A squared error of one or few samples: skewed, heavy-tailed losses."""
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))

    def loss_of(_step: int) -> Tensor:
        x = torch.randn(batch, 8)
        noise = torch.randn(batch, 1) * 0.3
        if heavy:
            noise = noise / torch.rand(batch, 1).sqrt().clamp_min(0.2)
        return mse_loss(model(x), torch.sin(x.sum(1, keepdim=True)) + noise)

    return train(Plan(steps, 1e-3, schedule), model, loss_of)


def conv(steps: int, *, schedule: str, norm: bool = True) -> Iterator[Record]:
    """Classify stripes of two directions in noise with a small convolutional net, batch norm and SGD."""
    stripes = torch.sin(torch.arange(8.0) * 1.5)

    def data(count: int) -> tuple[Tensor, Tensor]:
        y = torch.randint(2, (count,))
        images = torch.where(y[:, None, None].bool(), stripes[None, :, None], stripes[None, None, :])
        return (images + torch.randn(count, 8, 8))[:, None], y

    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8) if norm else nn.Identity(), nn.ReLU(),
        nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2),
    )  # fmt: skip

    def loss_of(_step: int) -> Tensor:
        x, y = data(32)
        return cross_entropy(model(x), y)

    return train(Plan(steps, 0.02, schedule, "sgd"), model, loss_of)


class Reader(nn.Module):
    """One block of causal attention over characters."""

    def __init__(self, words: int = 32, width: int = 32, length: int = 16) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Parameter(torch.zeros(length, width))
        self.block = nn.TransformerEncoderLayer(width, 2, 64, 0.0, batch_first=True, norm_first=True)
        self.head = nn.Linear(width, words)
        self.mask = nn.Transformer.generate_square_subsequent_mask(length)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.block(self.words(x) + self.places, src_mask=self.mask, is_causal=True))
        return out


def chains(count: int, table: Tensor, length: int = 17) -> Tensor:
    """Return ``count`` sequences of a Markov chain with transitions ``table`` [words, words]."""
    words = [torch.randint(len(table), (count,))]
    for _ in range(length - 1):
        words.append(torch.multinomial(table[words[-1]], 1).squeeze(1))
    return torch.stack(words, 1)


def transformer(steps: int, *, schedule: str, batch: int = 16, rate: float = 1e-3) -> Iterator[Record]:
    """Next-word prediction on a Markov chain."""
    table = torch.softmax(2 * torch.randn(32, 32), 1)
    text, held, model = chains(SIZE, table), chains(256, table), Reader()

    def loss_on(words: Tensor) -> Tensor:
        return cross_entropy(model(words[:, :-1]).flatten(0, 1), words[:, 1:].flatten())

    def loss_of(_step: int) -> Tensor:
        return loss_on(text[torch.randint(SIZE, (batch,))])

    return train(Plan(steps, rate, schedule), model, loss_of, lambda: {"val/loss": loss_on(held).item()})


class LowRank(nn.Module):
    """A frozen linear map with a learned correction of rank 4 (LoRA), which starts at 0."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(4, base.in_features) / 8)
        self.up = nn.Parameter(torch.zeros(base.out_features, 4))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.base(x) + x @ self.down.T @ self.up.T
        return out


def lora(steps: int, *, schedule: str) -> Iterator[Record]:
    """Fine-tuning of a model that is already nearly right: the loss falls little and is noisy."""
    teacher, shift = nn.Linear(32, 10), torch.randn(10, 32) * 0.1
    base = nn.Linear(32, 10)
    base.load_state_dict(teacher.state_dict())
    model = LowRank(base)

    def loss_of(_step: int) -> Tensor:
        x = torch.randn(8, 32)
        with torch.no_grad():
            y = torch.distributions.Categorical(logits=2 * (teacher(x) + x @ shift.T)).sample()
        return cross_entropy(model(x), y)

    return train(Plan(steps, 5e-4, schedule), model, loss_of)


def tasks(steps: int, *, schedule: str) -> Iterator[Record]:
    """Two alternating data sets with losses of different levels: bimodal on purpose."""
    trunk, heads = nn.Linear(16, 32), (nn.Linear(32, 4), nn.Linear(32, 1))
    model = nn.ModuleList([trunk, *heads])
    teacher = nn.Linear(16, 4)

    def loss_of(step: int) -> Tensor:
        x = torch.randn(32, 16)
        hidden = torch.relu(trunk(x))
        if step % 2:
            return cross_entropy(heads[0](hidden), teacher(x).argmax(1))
        return 5 * mse_loss(heads[1](hidden), x.pow(2).mean(1, keepdim=True) + torch.randn(32, 1))

    return train(Plan(steps, 1e-3, schedule), model, loss_of)


def likelihood(steps: int, *, schedule: str) -> Iterator[Record]:
    """A Gaussian's negative log-likelihood: it starts above 0, crosses 0 and stays below."""
    model = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))

    def loss_of(_step: int) -> Tensor:
        x = torch.randn(32, 4)
        y = x.sum(1) + 0.05 * torch.randn(32)
        mean, spread = model(x).unbind(1)
        return gaussian_nll_loss(mean, y, softplus(spread) + 1e-4)

    return train(Plan(steps, 1e-3, schedule), model, loss_of)


def gan(steps: int, *, critic: bool) -> Iterator[Record]:
    """Points on a circle, learned against a discriminator or (``critic``) a WGAN critic with spectral
    norm."""
    wrap = nn.utils.parametrizations.spectral_norm if critic else (lambda layer: layer)
    maker = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
    discriminator = nn.Sequential(wrap(nn.Linear(2, 32)), nn.LeakyReLU(0.2), wrap(nn.Linear(32, 1)))
    makes = torch.optim.Adam(maker.parameters(), 2e-4, betas=(0.5, 0.9))
    discriminator_optimizer = torch.optim.Adam(discriminator.parameters(), 2e-4, betas=(0.5, 0.9))
    for step in range(steps):
        angle = torch.rand(32) * 2 * math.pi
        real = torch.stack([angle.cos(), angle.sin()], 1) + 0.1 * torch.randn(32, 2)
        fake = maker(torch.randn(32, 8))
        good, bad = discriminator(real), discriminator(fake.detach())
        against = bad.mean() - good.mean() if critic else (softplus(-good) + softplus(bad)).mean()
        discriminator_optimizer.zero_grad()
        against.backward()
        discriminator_optimizer.step()
        output = discriminator(fake)
        loss = -output.mean() if critic else softplus(-output).mean()
        makes.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(maker.parameters(), 10.0)
        makes.step()
        yield {"step": step, "loss": loss.item(), "loss/D": against.item(), "grad_norm": float(norm),
               "lr": 2e-4, "lr/D": 2e-4, "stepped": 1.0, "stepped/D": 1.0}  # fmt: skip


TRAININGS: dict[str, Training] = {
    **{f"mlp-{schedule}": functools.partial(mlp, schedule=schedule) for schedule in SCHEDULES},
    "mlp-small-batch": functools.partial(mlp, schedule="cosine", batch=2),
    "mlp-mixup": functools.partial(mlp, schedule="cosine", mixup=True),
    "mlp-sgd": functools.partial(mlp, schedule="multistep", optimizer="sgd", rate=0.03),
    "regression-single": functools.partial(regression, schedule="constant"),
    "regression-heavy": functools.partial(regression, schedule="cosine", batch=4, heavy=True),
    "conv-multistep": functools.partial(conv, schedule="multistep"),
    "conv-plain": functools.partial(conv, schedule="cosine", norm=False),
    "transformer-cosine": functools.partial(transformer, schedule="warmup-cosine"),
    "transformer-wsd": functools.partial(transformer, schedule="wsd", batch=4),
    "lora": functools.partial(lora, schedule="linear"),
    "two-tasks": functools.partial(tasks, schedule="cosine"),
    "likelihood": functools.partial(likelihood, schedule="cosine"),
    "gan": functools.partial(gan, critic=False),
    "wgan": functools.partial(gan, critic=True),
}
NAMES = tuple(TRAININGS)
DECLARED: dict[str, list[dict[str, str]]] = {
    "mlp-restarts": [{"optimizer": "", "scheduler": "CosineAnnealingWarmRestarts"}]
}
"""The schedulers of each training, as a handshake reports them."""


def healthy(name: str, *, seed: int = 0, steps: int = 20_000) -> Iterator[Record]:
    """Return the records of one training. Raises KeyError for a name that is not in ``NAMES``."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    return TRAININGS[name](steps)


def main() -> None:
    """Write the records of one training as JSON lines."""
    name, seed, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    for record in healthy(name, seed=seed, steps=steps):
        sys.stdout.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
