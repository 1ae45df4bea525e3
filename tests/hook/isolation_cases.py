"""Trainings that together reach every callback of the hook. Each returns the model that it has trained."""

from __future__ import annotations

import contextlib
import math
import tempfile
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_, clip_grad_value_
from torch.utils.data import DataLoader, TensorDataset

import tocsin
from tests.hook.loops.framework import Delegating
from tests.hook.truth import batches, half_loss, model
from tocsin.protocol import Alert, Request

ALERT = Alert(id="1", rule="nonfinite", severity="critical", state="firing", summary="NaN")


def _sgd(net: nn.Module, lr: float = 1e-3) -> torch.optim.SGD:
    return torch.optim.SGD(net.parameters(), lr=lr)


def plain(run: Any) -> nn.Module:
    """One optimizer, created during the watch. The script uses all calls, and the server sends messages."""
    net = model()
    optimizer = _sgd(net, 0.1)
    torch.optim.lr_scheduler.StepLR(optimizer, 100)
    run.load_state_dict({"step": 0})
    run.on_alert(_failing)
    run.on_request("checkpoint")(lambda request: None)
    for k, batch in enumerate(batches(6)):
        net.zero_grad()
        run.batch(f"shard {k}")
        loss = net(batch).pow(2).mean()
        run.log({1: loss}, extra=loss, host=1.0, odd="text")
        run.check(batch={"x": [batch]}, losses={"part": loss})
        loss.backward(retain_graph=k == 0)
        run.scale_losses(1.0)
        if k != 2:
            optimizer.step()
        deliver_messages(run, Request(id=str(k), action="checkpoint", alert=str(k)))
        deliver_messages(run, ALERT)
        run.evaluate(psnr=1.0, goal="max")
        if hasattr(run, "_reporter"):
            with contextlib.suppress(RuntimeError):
                run._reporter.add_reading({"system/cpu": 1.0}, [])
    assert run.requested in ("", "checkpoint")
    run.config.update({"depth": 2})
    run.summary["best"] = 1.0
    run.alert("slow", "10 s")
    run.log({"picture": tocsin.Image(torch.rand(4, 4)), "shards": [tocsin.Text("a")]})
    run.event("checkpoint", path="a.pt")
    run.expect("lr-restart", steps=3)
    return net


def _failing(alert: Any) -> None:
    raise RuntimeError("the script's own")


def deliver_messages(run: Any, message: Any) -> None:
    """Deliver a message as the sender's thread does, which has its own guard."""
    if hasattr(run, "_reporter"):
        with contextlib.suppress(RuntimeError):
            run._reporter.queue_message(message)


def scaled(run: Any) -> nn.Module:
    """Two optimizers and a scaler that overflows, skips, backs off and grows; a clip, and a second watch."""
    nets = nn.ModuleList([model(0), model(1)])
    pair = [_sgd(net) for net in nets]
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14, growth_interval=2)
    for k, batch in enumerate(batches(12, hot=(3,))):
        run.batch(f"shard {k}")
        run.check(batch=batch, losses={"part": batch.mean()})
        for net, optimizer in zip(nets, pair, strict=True):
            optimizer.zero_grad()
            loss = scaler.scale(half_loss(net, batch))
            (loss * 1.0 if k % 3 else loss).backward()
            scaler.unscale_(optimizer)
            if k % 2:
                clip_grad_norm_(net.parameters(), 1.0)
            scaler.step(optimizer)
        scaler.update()
    return nets


def long(run: Any) -> nn.Module:
    """Long enough for the overhead meter and the check of the weights; clips, then micro-steps, NaN at the
    end."""
    net = nn.Linear(2, 1)
    nn.init.constant_(net.weight, 0.5)
    nn.init.constant_(net.bias, 0.5)
    optimizer = _sgd(net)
    for k in range(265):
        optimizer.zero_grad()
        for _ in range(2 if k > 200 else 1):
            net(torch.ones(2)).pow(2).sum().backward()
        if k < 60:
            clip_grad_norm_(net.parameters(), 1e-3 if k % 2 else 1e3)
        optimizer.step()
        if k == 100:
            net.eval()
    return net


def strange(run: Any) -> nn.Module:
    """Unassigned losses, abandoned attempts, manual clipping, weights changed between steps, steps in a
    backward."""
    net = model(3)
    optimizer, alone = _sgd(net), nn.Parameter(torch.ones(2))
    for _ in range(40):
        alone.sum().backward()
    for k, batch in enumerate(batches(8)):
        alone.sum().backward()
        net(batch).pow(2).mean().backward()
        clip_grad_norm_(net.parameters(), 1.0)
        if k % 2:
            optimizer.step()
        elif k % 4:
            with torch.no_grad():
                next(net.parameters()).add_(1e-3)
        optimizer.zero_grad()
    return nn.ModuleList([net, _inside()])


def _inside() -> nn.Module:
    net: nn.Module = model(4)
    each = {param: torch.optim.SGD([param], lr=1e-3 * (k + 1)) for k, param in enumerate(net.parameters())}

    def step(param: Tensor) -> None:
        each[param].step()  # type: ignore[index]
        each[param].zero_grad()  # type: ignore[index]

    for param in net.parameters():
        after = getattr(param, "register_post_accumulate_grad_hook", None)
        if after is not None:  # not in torch 2.0
            after(step)
    for batch in batches(3):
        net(batch).pow(2).mean().backward()
    each.clear()  # torch keeps the hook and everything that it refers to
    return net


def framework(run: Any) -> nn.Module:
    """An optimizer in a wrapper, two beside one of all parameters; losses divided by the number of micro-
    steps."""
    net = model(6)
    halves = [_sgd(net[0]), _sgd(net[2])]
    wrapped, whole = Delegating(halves[0]), _sgd(net)
    for k, batch in enumerate(batches(12)):
        (net(batch).pow(2).sum() / 16).backward()
        if k % 2:
            clip_grad_norm_(net.parameters(), 1.0)
            wrapped.step()
            halves[1].step()
            whole.zero_grad()
    return net


def graphed(run: Any) -> nn.Module:
    """The script reports its steps itself."""
    net = model()
    for batch in batches(3):
        run.check(batch={"x": batch * math.nan}, weights=net)
        run.step(loss=net(batch).pow(2).mean(), host=1.0)
        deliver_messages(run, ALERT)
    return net


def loaded(run: Any) -> nn.Module:
    """Batches from a DataLoader, weights from a checkpoint; one parameter is frozen, one occurs twice."""
    net = model(5)
    net[2].weight.requires_grad_(False)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    optimizer.load_state_dict(_restored())
    for (batch,) in DataLoader(TensorDataset(torch.cat(list(batches(24)))), batch_size=4):
        optimizer.zero_grad()
        net(batch).clamp(min=0.1).pow(2).mean().backward()
        clip_grad_value_(net.parameters(), 1e-3)
        optimizer.step()
    return net


def measured(run: Any) -> nn.Module:
    """Gradients scaled manually to one norm, which torch's clip only measures, so that no rule can check
    it."""
    net = nn.Linear(2, 1)
    nn.init.constant_(net.weight, 0.5)
    nn.init.constant_(net.bias, 0.5)
    optimizer = _sgd(net)
    for _ in range(52):
        optimizer.zero_grad()
        net(torch.ones(2)).pow(2).sum().backward()
        norm = math.hypot(*(float(param.grad.norm()) for param in net.parameters() if param.grad is not None))
        for param in net.parameters():
            if param.grad is not None:
                param.grad.mul_(1e-3 / norm)
        clip_grad_norm_(net.parameters(), math.inf)
        optimizer.step()
    return net


class OwnOptimizer:
    """An optimizer of a library, not a torch optimizer."""

    def __init__(self, param: Tensor) -> None:
        self.param_groups = [{"params": [param], "lr": 0.1}]

    def step(self) -> None: ...

    def zero_grad(self) -> None: ...


def by_hand(run: Any) -> nn.Module:
    """No optimizer: new leaf tensors, then weights updated in place, micro-steps and unused gradients."""
    alone, net = torch.ones(2, requires_grad=True), model(8)
    own = OwnOptimizer(alone)
    for _ in range(2):
        alone.pow(2).sum().backward()
        assert alone.grad is not None
        alone = (alone - 0.1 * alone.grad).detach().requires_grad_()
    for k, batch in enumerate(batches(24)):
        net(batch).pow(2).mean().backward()
        if k % 5 == 4:
            continue
        clip_grad_norm_(net.parameters(), 1.0)
        with torch.no_grad():
            for param in net.parameters():
                param.sub_(1e-2 * (param.grad if param.grad is not None and k % 7 != 6 else 0))
        net.zero_grad()
    own.step()
    return net


def late(run: Any) -> nn.Module:
    """A second optimizer that starts after ten steps, and steps inside every second backward."""
    nets = nn.ModuleList([model(0), model(1)])
    first, second = (_sgd(net) for net in nets)
    steps_inside = False

    def step(param: Tensor) -> None:
        if steps_inside:
            second.step()

    hook = next(nets[1].parameters()).register_post_accumulate_grad_hook(step)
    for k, batch in enumerate(batches(16)):
        first.zero_grad()
        nets[0](batch).pow(2).mean().backward()
        first.step()
        if k >= 10:
            second.zero_grad()
            steps_inside = False
            nets[1](batch).pow(2).mean().backward()
            steps_inside = True
            nets[1](batch).pow(2).mean().backward()
    hook.remove()  # torch's reference to it would keep the optimizer alive, and the next run would find it
    return nets


def saving(run: Any) -> nn.Module:
    """Checkpoints: overwritten, on another thread, by the script; and a file that is none."""
    net = model(9)
    optimizer = _sgd(net)
    with tempfile.TemporaryDirectory() as folder:
        for batch in batches(3):
            optimizer.zero_grad()
            net(batch).pow(2).mean().backward()
            optimizer.step()
            state = {"all": [net.state_dict(), optimizer.state_dict()]}
            torch.save(state, f"{folder}/last.pt")
            thread = threading.Thread(target=torch.save, args=(state, f"{folder}/thread.pt"))
            thread.start()
            thread.join()
        torch.save(torch.zeros(2), f"{folder}/batch.pt")
        run.checkpoint(f"{folder}/last.pt", step=2)
        assert torch.load(f"{folder}/last.pt").keys() == state.keys()
    return net


def _restored() -> dict[str, Any]:
    net = model(5)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    net(torch.ones(8)).sum().backward()
    optimizer.step()
    return optimizer.state_dict()


class Container(torch.optim.Optimizer):
    """Holds another optimizer; its parameter groups have no learning rate."""

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        self.inner = inner
        super().__init__(inner.param_groups[0]["params"], {})

    def step(self, closure: Any = None) -> Any:
        return self.inner.step(closure)


def contained(run: Any) -> nn.Module:
    """An optimizer inside another one."""
    net = model()
    container = Container(_sgd(net))
    for batch in batches(3):
        container.zero_grad()
        net(batch).pow(2).mean().backward()
        container.step()
    return net


LOOPS: dict[str, Callable[[Any], nn.Module]] = {
    loop.__name__: loop
    for loop in (
        plain,
        scaled,
        long,
        strange,
        framework,
        graphed,
        loaded,
        measured,
        by_hand,
        late,
        saving,
        contained,
    )
}


def train(loop: str, run: Any) -> list[Tensor]:
    """Return the final weights of this loop under ``run``."""
    return [param.detach() for param in LOOPS[loop](run).parameters()]
