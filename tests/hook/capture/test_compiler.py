"""torch.compile of a model and of a whole step: no more graphs and breaks than without the hook."""

from __future__ import annotations

import contextlib
import functools
import shutil
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from tests.hook.captured import KeptOutbox, watched
from tests.hook.truth import batches, model, norm_of
from tests.matrix import LONG, represented
from tocsin.capture import compiler

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*lr_scheduler.step.*"),
    pytest.mark.filterwarnings("ignore::UserWarning"),  # of torch's compiler about its own modules
]

STEPS = 5
BACKENDS = ["eager", "aot_eager"]
Counters = dict[str, Any]


class Trained(NamedTuple):
    weights: list[Tensor]
    breaks: int
    graphs: dict[str, int]
    """What dynamo counted: frames tried, graphs made, calls in them."""
    losses: list[float]
    outbox: KeptOutbox | None


def _whole_step(backend: str, *, clips: bool = True, scaled: bool = False) -> Callable[[Any], Any]:
    def build(net: nn.Module) -> Callable[[Tensor], Tensor]:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=64.0, enabled=scaled)

        def step(batch: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss: Tensor = net(batch).pow(2).mean()
            scaler.scale(loss).backward()
            if clips:
                clip_grad_norm_(net.parameters(), 0.05)
            scaler.step(optimizer)
            scaler.update()
            return loss

        return torch.compile(step, backend=backend)

    return build


def _model(backend: str) -> Callable[[Any], Any]:
    def build(net: nn.Module) -> Callable[[Tensor], Tensor]:
        compiled: Any = torch.compile(net, backend=backend)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

        def step(batch: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss: Tensor = compiled(batch).pow(2).mean()
            loss.backward()
            clip_grad_norm_(net.parameters(), 0.05)
            optimizer.step()
            return loss

        return step

    return build


def _optimizer_step(backend: str) -> Callable[[Any], Any]:
    def build(net: nn.Module) -> Callable[[Tensor], Tensor]:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        compiled = torch.compile(optimizer.step, backend=backend)

        def step(batch: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss: Tensor = net(batch).pow(2).mean()
            loss.backward()
            compiled()
            return loss

        return step

    return build


def _train(build: Callable[[Any], Any], *, watching: bool) -> Trained:
    torch._dynamo.reset()
    counters: Any = torch._dynamo.utils.counters
    counters.clear()
    net = model()
    step = build(net)
    with watched() if watching else contextlib.nullcontext((None, None)) as (_, outbox):
        losses = [float(step(batch).detach()) for batch in batches(STEPS)]
    weights = [param.detach().clone() for param in net.parameters()]
    breaks = sum(counters["graph_break"].values())
    return Trained(weights, breaks, dict(counters["stats"]), losses, outbox)


@functools.cache
def _trained(style: str, watching: bool) -> Trained:
    return _train(STYLES[style], watching=watching)


STYLES: dict[str, Callable[[Any], Any]] = {
    **{f"model, {backend}": _model(backend) for backend in BACKENDS},
    **{f"step, {backend}": _whole_step(backend) for backend in BACKENDS},
    "step without a clip": _whole_step("eager", clips=False),
    "step with a scaler": _whole_step("eager", scaled=True),
    "optimizer.step": _optimizer_step("eager"),
}


@pytest.mark.parametrize("style", represented(STYLES, "model, eager", "step with a scaler", "optimizer.step"))
def test_no_graph_break_no_graph_and_no_bit_is_added(style: str) -> None:
    """Dynamo counts the same graphs and no more breaks with the watch, and the weights are the same."""
    plain, seen = (_trained(style, watching) for watching in (False, True))
    assert seen.breaks <= plain.breaks
    assert seen.graphs == plain.graphs
    assert all(torch.equal(one, two) for one, two in zip(plain.weights, seen.weights, strict=True))


@pytest.mark.parametrize("style", represented(STYLES, "model, eager", "step with a scaler", "optimizer.step"))
def test_losses_are_those_that_the_step_returned(style: str) -> None:
    """Every step is one record with its loss, also where the whole step is compiled."""
    trained = _trained(style, True)
    assert trained.outbox is not None
    reported = trained.outbox.series("loss")
    assert [step for step, _ in reported] == list(range(STEPS))
    assert [value for _, value in reported] == pytest.approx(trained.losses)
    assert len(trained.outbox.records) == STEPS


def test_a_norm_that_is_compiled_away_is_missing_and_never_wrong(caplog: pytest.LogCaptureFixture) -> None:
    """After a compiled clip the gradients are clipped: no norm is reported, and the event says why."""
    trained = _train(_whole_step("eager"), watching=True)
    assert trained.outbox is not None
    assert trained.outbox.series("grad_norm") == []
    assert caplog.text.count("clipped inside a compiled function") == 1


def test_without_a_clip_the_own_norm_is_sampled() -> None:
    """A whole compiled step has its gradients' norm at the sampled step."""
    net = model()
    net(next(batches(1))).pow(2).mean().backward()
    trained = _train(_whole_step("eager", clips=False), watching=True)
    assert trained.outbox is not None
    ((step, norm),) = trained.outbox.series("grad_norm")
    assert step == 0
    assert norm == pytest.approx(norm_of(net.parameters()))


def test_a_run_that_begins_and_ends_recompiles_nothing() -> None:
    """Of a step that was compiled before, during and after a watch, each part is compiled once."""
    torch._dynamo.reset()
    net = model()
    step = _whole_step("eager", clips=False)(net)
    every = iter(batches(9))

    def compiled() -> int:
        return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])

    torch._dynamo.utils.counters.clear()
    with watched():
        for _ in range(3):
            step(next(every))
    first = compiled()
    for _ in range(2):
        with watched():
            step(next(every))
        step(next(every))
    assert compiled() == first > 0


def test_a_clip_inside_a_full_graph_stays_there() -> None:
    """``fullgraph=True`` around a clip compiles with the watch as without."""

    @torch.compile(backend="eager", fullgraph=True)
    def clip(params: list[Tensor]) -> Tensor:
        return clip_grad_norm_(params, 0.5)

    with watched():
        net = model()
        net(next(batches(1))).pow(2).mean().backward()
        true = norm_of(net.parameters())
        assert float(clip(list(net.parameters()))) == pytest.approx(true)


@LONG
@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler")
def test_inductor_too() -> None:
    """Compiled to machine code, weights and graphs are those of a training without the watch."""
    plain, seen = (_train(_model("inductor"), watching=watching) for watching in (False, True))
    assert (seen.breaks, seen.graphs) == (plain.breaks, plain.graphs)
    assert all(torch.equal(one, two) for one, two in zip(plain.weights, seen.weights, strict=True))
    assert seen.outbox is not None
    assert [value for _, value in seen.outbox.series("loss")] == pytest.approx(plain.losses)


def test_a_torch_without_the_switch_has_one_that_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler's private switch may be missing: then the hook works without it."""
    monkeypatch.setattr("importlib.import_module", lambda name: None)
    assert compiler._set_eval_frame()(None) is None
    compiler.keep_out(norm_of)
