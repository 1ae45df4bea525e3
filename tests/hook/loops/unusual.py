"""Loops that change the optimizer, the model or the order of steps while they train."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from tests.hook.truth import Params, Truth, batches, closure_step, model, norm_of, train, train_step


def accumulation_of_two(truth: Truth) -> nn.Module:
    """Four micro-steps of a generator and a critic, then a step of each."""
    one, two = model(0), model(1)
    opt_a = torch.optim.Adam(one.parameters(), lr=0.01)
    opt_b = torch.optim.Adam(two.parameters(), lr=0.02)
    losses: list[list[Tensor]] = [[], []]
    for k, batch in enumerate(batches(40)):
        for net, waiting in zip((one, two), losses, strict=True):
            waiting.append(net(batch).pow(2).mean())
            (waiting[-1] / 4).backward()
        if k % 4 == 3:
            for optimizer, net, waiting in zip((opt_a, opt_b), (one, two), losses, strict=True):
                norm = norm_of(net.parameters())
                clip_grad_norm_(net.parameters(), 0.5)
                optimizer.step()
                optimizer.zero_grad()
                parts = [loss / 4 for loss in waiting]
                first = optimizer is opt_a
                truth.note(
                    optimizer,
                    parts,
                    norm=norm,
                    divided=True,
                    suffix="" if first else "/opt2",
                    advance=first,
                )
            losses = [[], []]
    return nn.ModuleList([one, two])


def sharpness_aware_with_closure(truth: Truth) -> nn.Module:
    """SAM as ``step(closure)``: the first pass is outside of the step, the second one inside."""

    class Sam(torch.optim.Optimizer):
        def __init__(self, params: Any, lr: float) -> None:
            super().__init__(params, {"lr": lr})
            self.base = torch.optim.SGD(self.param_groups, lr=lr, momentum=0.9)
            self.param_groups = self.base.param_groups

        @torch.no_grad()
        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            params = self.param_groups[0]["params"]
            old = [param.clone() for param in params]
            scale = 0.05 / (norm_of(params) + 1e-12)
            for param in params:
                param.add_(param.grad * scale)
            self.zero_grad()
            with torch.enable_grad():
                closure()
            for param, before in zip(params, old, strict=True):
                param.copy_(before)
            self.base.step()

    net = model()
    optimizer = Sam(net.parameters(), lr=0.05)
    for batch in batches(20):
        second: list[Tensor] = []

        def closure(batch: Tensor = batch, second: list[Tensor] = second) -> Tensor:
            second.append(net(batch).pow(2).mean())
            second[-1].backward()
            return second[-1]

        net(batch).pow(2).mean().backward()
        before = truth.count
        optimizer.step(closure)
        norm = norm_of(net.parameters()) if before % 16 == 0 else None
        optimizer.zero_grad()
        truth.note(optimizer, second, norm=norm)
    return net


def schedule_free(truth: Truth) -> nn.Module:
    """A schedule-free optimizer: ``eval()`` and ``train()`` exchange the weights between steps."""

    class ScheduleFree(torch.optim.Optimizer):
        def __init__(self, params: Any, lr: float) -> None:
            super().__init__(params, {"lr": lr})
            self.k, self.trains = 0, True

        @torch.no_grad()
        def exchange(self, trains: bool) -> None:
            if trains is not self.trains:
                for param in self.param_groups[0]["params"]:
                    z = self.state[param].get("z")
                    if z is not None:
                        param.lerp_(z, 1 - 0.9 if trains else 1 - 1 / 0.9)
                self.trains = trains

        @torch.no_grad()
        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            self.k += 1
            for param in self.param_groups[0]["params"]:
                z = self.state[param].setdefault("z", param.clone())
                param.lerp_(z, 1 / self.k)
                param.add_(param.grad, alpha=self.param_groups[0]["lr"] * (0.9 * (1 - 1 / self.k) - 1))
                z.sub_(param.grad, alpha=self.param_groups[0]["lr"])

    net = model()
    optimizer = ScheduleFree(net.parameters(), lr=0.05)
    for k, batch in enumerate(batches(20)):
        train_step(truth, optimizer, net, batch, clip=0.5)
        if k % 5 == 4:
            optimizer.exchange(trains=False)
            net.eval()
            with torch.no_grad():
                net(batch)
            net.train()
            optimizer.exchange(trains=True)
    return net


def averaged(truth: Truth) -> nn.Module:
    """An exponential moving average of the weights that is swapped in for each evaluation."""
    net = model()
    average = copy.deepcopy(net).requires_grad_(False)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    for k, batch in enumerate(batches(20)):
        train_step(truth, optimizer, net, batch, clip=0.5)
        with torch.no_grad():
            for mean, param in zip(average.parameters(), net.parameters(), strict=True):
                mean.lerp_(param, 0.1)
        if k % 5 == 4:
            kept = copy.deepcopy(net.state_dict())
            net.load_state_dict(average.state_dict())
            with torch.no_grad():
                net(batch)
            net.load_state_dict(kept)
    return net


def stochastic_weight_averaging(truth: Truth) -> nn.Module:
    """``swa_utils``: an averaged model and its schedule in the second half."""
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    average = torch.optim.swa_utils.AveragedModel(net)
    schedule = torch.optim.swa_utils.SWALR(optimizer, swa_lr=0.01, anneal_epochs=4)
    for k, batch in enumerate(batches(20)):
        train_step(truth, optimizer, net, batch, clip=0.5)
        if k >= 10:
            average.update_parameters(net)
            schedule.step()
    torch.optim.swa_utils.update_bn([next(batches(1))], average)
    return net


def recreated_every_epoch(truth: Truth) -> nn.Module:
    """A new optimizer for each epoch, while the old one is garbage: the step count continues."""
    net = model()
    for epoch in range(4):
        optimizer = torch.optim.Adam(net.parameters(), lr=0.01 / (epoch + 1))
        for batch in batches(5):
            train_step(truth, optimizer, net, batch, clip=0.5)
    return net


def unfrozen_with_a_new_optimizer(truth: Truth) -> nn.Module:
    """Fine-tuning: the head alone at first, then everything with an optimizer of all parameters."""
    net = model()
    head: Params = list(net[-1].parameters())
    for param in net[0].parameters():
        param.requires_grad_(False)
    optimizer = torch.optim.SGD(head, lr=0.1)
    train(truth, optimizer, net, 10, clip=0.5)
    for param in net[0].parameters():
        param.requires_grad_(True)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    return train(truth, optimizer, net, 10, clip=0.5)


def unfrozen_with_a_new_group(truth: Truth) -> nn.Module:
    """The body joins the same optimizer by ``add_param_group``."""
    net = model()
    for param in net[0].parameters():
        param.requires_grad_(False)
    optimizer = torch.optim.SGD(net[-1].parameters(), lr=0.1)
    for k, batch in enumerate(batches(20)):
        if k == 10:
            for param in net[0].parameters():
                param.requires_grad_(True)
            optimizer.add_param_group({"params": list(net[0].parameters()), "lr": 0.01})
        train_step(truth, optimizer, net, batch, clip=0.5)
    return net


def compiled_step(truth: Truth) -> nn.Module:
    """``torch.compile`` of a function that calls ``optimizer.step``."""
    net = model()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01, foreach=True)

    @torch.compile(backend="eager", fullgraph=False)
    def step() -> None:
        optimizer.step()

    with warnings.catch_warnings():  # torch's own compiler uses a deprecated function
        warnings.simplefilter("ignore", DeprecationWarning)
        return train(truth, optimizer, net, clip=0.5, step=step)


def models_in_turn(truth: Truth) -> nn.Module:
    """Two models that are trained in alternation, an epoch of 20 steps each."""
    one, two = model(0), model(1)
    opt_a = torch.optim.SGD(one.parameters(), lr=0.1)
    opt_b = torch.optim.SGD(two.parameters(), lr=0.2)
    for _ in range(2):
        for optimizer, net, suffix in ((opt_a, one, ""), (opt_b, two, "/opt2")):
            for batch in batches(20):
                train_step(truth, optimizer, net, batch, clip=0.5, suffix=suffix)
    return nn.ModuleList([one, two])


def two_kinds_of_weights(truth: Truth) -> nn.Module:
    """One optimizer for matrices and one for biases, as with Muon: one loss for both."""
    net = model()
    matrices = [param for param in net.parameters() if param.ndim == 2]
    vectors = [param for param in net.parameters() if param.ndim < 2]
    opt_a = torch.optim.SGD(matrices, lr=0.1, foreach=True)
    opt_b = torch.optim.AdamW(vectors, lr=0.01, foreach=False)
    for batch in batches(20):
        loss = net(batch).pow(2).mean()
        loss.backward()
        norms = [truth.sampled(matrices), truth.sampled(vectors)]
        opt_a.step()
        truth.note(opt_a, [loss], norm=norms[0])
        opt_b.step()
        truth.note(opt_b, [loss], norm=norms[1], suffix="/opt2", advance=False)
        opt_a.zero_grad()
        opt_b.zero_grad()
    return net


def adam_then_lbfgs(truth: Truth) -> nn.Module:
    """Adam for a while, then LBFGS on the same weights, as physics-informed networks are trained."""
    net = model()
    optimizer: torch.optim.Optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    train(truth, optimizer, net, 12)
    newton = torch.optim.LBFGS(net.parameters(), lr=0.1, max_iter=3)
    for batch in batches(6):
        closure_step(truth, newton, net, batch)
    return net


def critic_five_times(truth: Truth) -> nn.Module:
    """WGAN-GP: a gradient penalty with ``create_graph``, and one generator step after five of the critic."""
    critic, generator = model(0), nn.Sequential(model(1), nn.Linear(1, 8))
    opt_c = torch.optim.Adam(critic.parameters(), lr=0.01)
    opt_g = torch.optim.Adam(generator.parameters(), lr=0.02)
    for k, batch in enumerate(batches(25)):
        fake = generator(batch).detach().requires_grad_()
        out = critic(fake)
        (slope,) = torch.autograd.grad(out.sum(), fake, create_graph=True)
        loss = out.mean() - critic(batch).mean() + 10 * (slope.norm(dim=1) - 1).pow(2).mean()
        opt_c.zero_grad()
        loss.backward()
        norm = norm_of(critic.parameters())
        clip_grad_norm_(critic.parameters(), 10.0)
        opt_c.step()
        truth.note(opt_c, [loss], norm=norm)
        if k % 5 == 4:
            opt_g.zero_grad()
            loss = -critic(generator(batch)).mean()
            loss.backward()
            norm = norm_of(generator.parameters())
            clip_grad_norm_(generator.parameters(), 10.0)
            opt_g.step()
            truth.note(opt_g, [loss], norm=norm, suffix="/opt2", advance=False)
    return nn.ModuleList([critic, generator])


def backward_that_raises(truth: Truth) -> nn.Module:
    """A backward runs out of memory halfway; the script clears the gradients and halves the batch."""

    class Fragile(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, value: Tensor, fails: bool) -> Tensor:
            context.fails = fails
            return value.clone()

        @staticmethod
        def backward(context: Any, grad: Tensor) -> Any:
            if context.fails:
                raise RuntimeError("out of memory")
            return grad, None

    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for k, batch in enumerate(batches(20)):
        optimizer.zero_grad()
        if k % 7 == 3:
            hidden = Fragile.apply(net[0](batch), True)  # type: ignore[no-untyped-call]
            with pytest.raises(RuntimeError, match="out of memory"):
                net[2](net[1](hidden)).pow(2).mean().backward()
            batch = batch[:2]
        train_step(truth, optimizer, net, batch, clip=0.5)
    return net


def meta_learning(truth: Truth) -> nn.Module:
    """MAML: an inner update by ``autograd.grad``, then one step of the outer optimizer."""
    net = model()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for batch in batches(20):
        params: dict[str, Tensor] = dict(net.named_parameters())
        inner = torch.func.functional_call(net, params, batch[:2]).pow(2).mean()
        grads = torch.autograd.grad(inner, list(params.values()), create_graph=True)
        fast = {name: param - 0.1 * grad for (name, param), grad in zip(params.items(), grads, strict=True)}
        optimizer.zero_grad()
        loss = torch.func.functional_call(net, fast, batch[2:]).pow(2).mean()
        loss.backward()
        norm = truth.sampled(net.parameters())
        optimizer.step()
        truth.note(optimizer, [loss], norm=norm)
    return net
