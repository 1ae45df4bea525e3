"""Healthy real trainings of less usual kinds: ``python unusual.py NAME SEED STEPS > run.jsonl``.

Real torch on CPU, seeded, one thread, like ``trainings.py``. They were written after the rules: losses that
jump because the target is replaced, that rise because a weight is increased, that are a hundred times their
median because a batch has one sample. None should raise an alert, and nothing is declared.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import sys
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.distributions import Categorical
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, mse_loss, normalize

Record = dict[str, float]
Training = Callable[[int], Iterator[Record]]
LossOf = Callable[[int], Tensor]
RateOf = Callable[[int], float]


def perceptron(*widths: int) -> nn.Sequential:
    """Return linear layers of these widths with ReLU between them."""
    layers: list[nn.Module] = []
    for i, j in itertools.pairwise(widths):
        layers += [nn.Linear(i, j), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def constant(rate: float) -> RateOf:
    """Return a schedule with the same rate at every step."""
    return lambda _step: rate


def cosine(rate: float, steps: int) -> RateOf:
    """Return a schedule of half a cosine down to 0."""
    return lambda step: rate * 0.5 * (1 + math.cos(math.pi * step / steps))


def train(
    steps: int, model: nn.Module, loss_of: LossOf, rate_of: RateOf, *, clip: float = 1.0, micro: int = 1,
    optimizer: str = "adam",
) -> Iterator[Record]:  # fmt: skip
    """Yield one record per update; ``micro`` batches are accumulated for each."""
    weights = list(model.parameters())
    kinds: dict[str, Callable[..., torch.optim.Optimizer]] = {
        "adam": torch.optim.Adam,
        "sgd": functools.partial(torch.optim.SGD, momentum=0.9),
        "rmsprop": torch.optim.RMSprop,
    }
    chosen = kinds[optimizer](weights, lr=rate_of(0))
    for step in range(steps):
        rate = rate_of(step)
        for group in chosen.param_groups:
            group["lr"] = rate
        chosen.zero_grad(set_to_none=True)
        total = 0.0
        for part in range(micro):
            loss = loss_of(step * micro + part) / micro
            loss.backward()
            total += loss.item()
        norm = float(nn.utils.clip_grad_norm_(weights, clip))
        chosen.step()
        yield {"step": step, "loss": total, "grad_norm": norm, "lr": rate, "stepped": 1.0}


def classes(batch: int, *, width: int = 16, count: int = 4, wrong: float = 0.0) -> LossOf:
    """Return the cross-entropy of a small classifier on points labeled by a fixed linear map."""
    model, teacher = perceptron(width, 32, count), nn.Linear(width, count)

    def loss_of(_step: int) -> Tensor:
        x = torch.randn(batch, width)
        y = teacher(x).argmax(1)
        noisy = torch.rand(batch) < wrong
        return cross_entropy(model(x), torch.where(noisy, torch.randint(count, (batch,)), y))

    loss_of.model = model  # type: ignore[attr-defined]
    return loss_of


def model_of(loss_of: LossOf) -> nn.Module:
    """Return the network that a loss uses."""
    model: nn.Module = loss_of.model  # type: ignore[attr-defined]
    return model


class Line:
    """A walk on ten places; the right end has reward 1 and ends the game, a step has none."""

    def __init__(self, count: int = 32) -> None:
        self.at = torch.randint(0, 9, (count,))

    def move(self, right: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the place before, the reward, the place after, and whether the game ended."""
        before = self.at
        slip = torch.rand(len(before)) < 0.1
        after = (before + torch.where(right ^ slip, 1, -1)).clamp(0, 9)
        ended = after == 9
        self.at = torch.where(ended, torch.randint(0, 9, before.shape), after)
        return before, ended.float(), after, ended


def q_learning(steps: int, *, every: int, soft: float = 0.0, discount: float = 0.95) -> Iterator[Record]:
    """Temporal differences with a target network that is replaced at once, or (``soft``) slowly."""
    online, target = perceptron(10, 32, 2), perceptron(10, 32, 2)
    target.load_state_dict(online.state_dict())
    game, eye = Line(), torch.eye(10)
    memory: list[tuple[Tensor, Tensor, Tensor, Tensor, Tensor]] = []

    def renew(step: int) -> None:
        if soft:
            for new, old in zip(online.parameters(), target.parameters(), strict=True):
                old.data.lerp_(new.data, soft)
        elif step % every == 0:
            target.load_state_dict(online.state_dict())

    def loss_of(step: int) -> Tensor:
        with torch.no_grad():
            renew(step)
            greedy = online(eye[game.at]).argmax(1).bool()
            action = torch.where(torch.rand(32) < 0.2, torch.rand(32) < 0.5, greedy)
            before, paid, after, ended = game.move(action)
            memory.append((before, action.long(), paid, after, ended.float()))
            del memory[:-200]
            before, taken, paid, after, last = memory[int(torch.randint(len(memory), ()))]
            wanted = paid + discount * (1 - last) * target(eye[after]).amax(1)
        output = online(eye[before]).gather(1, taken[:, None]).squeeze(1)
        return mse_loss(output, wanted)

    return train(steps, online, loss_of, constant(1e-3), clip=10.0)


def policy_gradient(steps: int, *, critic: bool) -> Iterator[Record]:
    """REINFORCE with centered advantages, or actor and critic in one loss."""
    model, game, eye = perceptron(10, 32, 3), Line(64), torch.eye(10)

    def loss_of(_step: int) -> Tensor:
        losses = []
        for _ in range(4):
            place = game.at
            out = model(eye[place])
            chosen = Categorical(logits=out[:, :2])
            action = chosen.sample()
            _, paid, after, ended = game.move(action.bool())
            with torch.no_grad():
                wanted = paid + 0.95 * (1 - ended.float()) * model(eye[after])[:, 2]
            gain = (wanted - out[:, 2]).detach()
            gain = gain if critic else (gain - gain.mean()) / (gain.std() + 1e-6)
            value = mse_loss(out[:, 2], wanted)
            losses.append(
                -(chosen.log_prob(action) * gain).mean() + 0.5 * value - 0.01 * chosen.entropy().mean()
            )
        return torch.stack(losses).mean()

    return train(steps, model, loss_of, constant(7e-4), clip=0.5, optimizer="rmsprop")


def contrastive(steps: int, *, batch: int = 32) -> Iterator[Record]:
    """InfoNCE of two noisy views: it starts at ln(batch)."""
    model = perceptron(16, 32, 16)

    def loss_of(_step: int) -> Tensor:
        x = torch.randn(batch, 16)
        views = [normalize(model(x + 0.3 * torch.randn(batch, 16)), dim=1) for _ in range(2)]
        return cross_entropy(views[0] @ views[1].T / 0.1, torch.arange(batch))

    return train(steps, model, loss_of, cosine(1e-3, steps))


def diffusion(steps: int, *, weighted: bool = False) -> Iterator[Record]:
    """Predict the noise in points on a circle; ``weighted`` by the signal-to-noise ratio, heavy-tailed."""
    model = perceptron(3, 64, 64, 2)

    def loss_of(_step: int) -> Tensor:
        angle, t = torch.rand(16) * 2 * math.pi, torch.rand(16) * 0.98 + 0.01
        clean, noise = torch.stack([angle.cos(), angle.sin()], 1), torch.randn(16, 2)
        keep = torch.cos(t * math.pi / 2) ** 2
        noisy = keep.sqrt()[:, None] * clean + (1 - keep).sqrt()[:, None] * noise
        off = (model(torch.cat([noisy, t[:, None]], 1)) - noise).pow(2).mean(1)
        share = (keep / (1 - keep)).clamp(max=50.0) if weighted else torch.ones(16)
        loss: Tensor = (off * share).mean()
        return loss

    return train(steps, model, loss_of, constant(1e-3))


def autoencoder(steps: int, *, warm: float, cycles: int = 1, weight: float = 1.0) -> Iterator[Record]:
    """A VAE whose KL term is increased over ``warm`` of the run, ``cycles`` times."""
    encode, decode = perceptron(16, 32, 8), perceptron(4, 32, 16)
    mix, model = torch.randn(4, 16), nn.ModuleList([encode, decode])

    def loss_of(step: int) -> Tensor:
        x = torch.tanh(torch.randn(32, 4) @ mix) + 0.1 * torch.randn(32, 16)
        mean, log_var = encode(x).chunk(2, 1)
        log_var = log_var.clamp(-8, 4)
        code = mean + torch.exp(0.5 * log_var) * torch.randn_like(mean)
        divergence = 0.5 * (mean.pow(2) + log_var.exp() - 1 - log_var).sum(1).mean()
        part = (step * cycles / steps) % 1.0
        loss: Tensor = (decode(code) - x).pow(2).sum(1).mean() + weight * min(1.0, part / warm) * divergence
        return loss

    return train(steps, model, loss_of, constant(1e-3))


def curriculum(steps: int, *, stages: int) -> Iterator[Record]:
    """Copying from longer and longer memories: each stage is harder than the previous one."""
    model, head = nn.GRU(8, 24, batch_first=True), nn.Linear(24, 8)
    both = nn.ModuleList([model, head])

    def loss_of(step: int) -> Tensor:
        length = 2 + step * stages // steps
        words = torch.randint(8, (16, length))
        out, _ = model(torch.nn.functional.one_hot(words, 8).float())
        return cross_entropy(head(out[:, -1]), words[:, 0])

    return train(steps, both, loss_of, constant(1e-3))


def triangular(rate: float, period: int) -> RateOf:
    """Return a rate that alternately rises and falls (CyclicLR)."""
    return lambda step: rate * (0.1 + 0.9 * abs(1 - 2 * ((step / period) % 1.0)))


def of_classes(steps: int, *, batch: int, rate: RateOf | None = None, micro: int = 1, wrong: float = 0.1,
               optimizer: str = "adam") -> Iterator[Record]:  # fmt: skip
    """A classifier with other schedules, batches and labels."""
    loss_of = classes(batch, wrong=wrong)
    chosen = rate or cosine(1e-3, steps)
    return train(steps, model_of(loss_of), loss_of, chosen, micro=micro, optimizer=optimizer)


def separable(steps: int, *, batch: int) -> Iterator[Record]:
    """Clean labels and small batches: most losses approach 0, some are a hundred times the median."""
    loss_of = classes(batch, wrong=0.0)
    return train(steps, model_of(loss_of), loss_of, constant(1e-3))


def rare_samples(steps: int) -> Iterator[Record]:
    """Two classes, one of them rare: a batch has none, one or two samples of it."""
    model, direction = perceptron(8, 16, 1), torch.randn(8)

    def loss_of(_step: int) -> Tensor:
        x = torch.randn(16, 8)
        y = ((x @ direction + torch.randn(16)) > 2.2 * direction.norm()).float()
        return binary_cross_entropy_with_logits(model(x).squeeze(1), y, pos_weight=torch.tensor(20.0))

    return train(steps, model, loss_of, constant(5e-4))


def distillation(steps: int) -> Iterator[Record]:
    """A student follows a moving average of itself (as in BYOL): the loss may rise while it learns."""
    online, head = perceptron(16, 32, 16), perceptron(16, 32, 16)
    slow = perceptron(16, 32, 16)
    slow.load_state_dict(online.state_dict())
    both = nn.ModuleList([online, head])

    def loss_of(_step: int) -> Tensor:
        x = torch.randn(32, 16)
        with torch.no_grad():
            for new, old in zip(online.parameters(), slow.parameters(), strict=True):
                old.data.lerp_(new.data, 0.01)
            wanted = normalize(slow(x + 0.3 * torch.randn_like(x)), dim=1)
        output = normalize(head(online(x + 0.3 * torch.randn_like(x))), dim=1)
        return 2 - 2 * (output * wanted).sum(1).mean()

    return train(steps, both, loss_of, cosine(5e-4, steps))


def epochs(steps: int, *, samples: int = 640, batch: int = 8) -> Iterator[Record]:
    """The same few samples repeatedly: the loss falls in steps towards 0 (memorization)."""
    model = perceptron(16, 64, 4)
    x, y = torch.randn(samples, 16), torch.randint(4, (samples,))

    def loss_of(step: int) -> Tensor:
        at = (step * batch) % samples
        if at == 0:
            order[:] = torch.randperm(samples)
        picked = order[at : at + batch]
        return cross_entropy(model(x[picked]), y[picked])

    order = torch.arange(samples)
    return train(steps, model, loss_of, constant(3e-4))


def sequences(steps: int) -> Iterator[Record]:
    """Batches of one length each, the loss summed over it: the level depends on the length."""
    words, model, head = nn.Embedding(16, 16), nn.GRU(16, 24, batch_first=True), nn.Linear(24, 16)
    whole, table = nn.ModuleList([words, model, head]), torch.softmax(2 * torch.randn(16, 16), 1)

    def loss_of(_step: int) -> Tensor:
        length = int(torch.randint(2, 24, ()))
        text = [torch.randint(16, (8,))]
        for _ in range(length):
            text.append(torch.multinomial(table[text[-1]], 1).squeeze(1))
        x = torch.stack(text, 1)
        out = head(model(words(x[:, :-1]))[0])
        return cross_entropy(out.flatten(0, 1), x[:, 1:].flatten(), reduction="sum") / 8

    return train(steps, whole, loss_of, constant(1e-3), clip=5.0)


def fp16(steps: int, *, interval: int, init: float = 65536.0) -> Iterator[Record]:
    """Half precision with a real ``GradScaler``; the loss is scaled so that overflows occur."""
    model, teacher = perceptron(16, 32, 4), nn.Linear(16, 4)
    chosen = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=init, growth_interval=interval)
    for step in range(steps):
        x = torch.randn(32, 16)
        y = teacher(x).argmax(1)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = cross_entropy(model(x).float(), y)
        chosen.zero_grad(set_to_none=True)
        before = scaler.get_scale()
        scaler.scale(loss).backward()
        scaler.unscale_(chosen)
        norm = float(nn.utils.clip_grad_norm_(model.parameters(), 1.0))
        scaler.step(chosen)
        scaler.update()
        skipped = float(scaler.get_scale() < before)
        yield {"step": step, "loss": loss.item(), "grad_norm": norm, "lr": 0.05, "scale": before,
               "skipped": skipped, "stepped": 1.0 - skipped}  # fmt: skip


UNUSUAL: dict[str, Training] = {
    "q-hard-100": functools.partial(q_learning, every=100),
    "q-hard-500": functools.partial(q_learning, every=500),
    "q-hard-2000": functools.partial(q_learning, every=2000, discount=0.99),
    "q-soft": functools.partial(q_learning, every=1, soft=0.005),
    "reinforce": functools.partial(policy_gradient, critic=False),
    "actor-critic": functools.partial(policy_gradient, critic=True),
    "contrastive": contrastive,
    "diffusion": diffusion,
    "diffusion-weighted": functools.partial(diffusion, weighted=True),
    "vae-warm": functools.partial(autoencoder, warm=0.3),
    "vae-slow-warm": functools.partial(autoencoder, warm=0.8, weight=4.0),
    "vae-cyclic": functools.partial(autoencoder, warm=0.5, cycles=4),
    "curriculum": functools.partial(curriculum, stages=8),
    "cyclic": lambda steps: of_classes(steps, batch=32, rate=triangular(3e-3, 2000)),
    "accumulation": functools.partial(of_classes, batch=4, micro=4),
    "label-noise": functools.partial(of_classes, batch=32, wrong=0.4),
    "sgd-plain": functools.partial(of_classes, batch=16, optimizer="sgd"),
    "single-sample": functools.partial(separable, batch=1),
    "two-samples": functools.partial(separable, batch=2),
    "four-samples": functools.partial(separable, batch=4),
    "rare-class": rare_samples,
    "self-distillation": distillation,
    "memorise": epochs,
    "summed-lengths": sequences,
    "fp16-200": functools.partial(fp16, interval=200),
    "fp16-2000": functools.partial(fp16, interval=2000),
    "fp16-50": functools.partial(fp16, interval=50, init=2.0**24),
}
NAMES = tuple(UNUSUAL)


def healthy(name: str, *, seed: int = 0, steps: int = 20_000) -> Iterator[Record]:
    """Return the records of one training. Raises KeyError for a name that is not in ``NAMES``."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    return UNUSUAL[name](steps)


def main() -> None:
    """Write the records of one training as JSON lines."""
    name, seed, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    for record in healthy(name, seed=seed, steps=steps):
        sys.stdout.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
