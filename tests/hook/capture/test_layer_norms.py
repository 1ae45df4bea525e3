"""Gradient norms of single parameters: correct, sent when relevant, and bounded."""

from __future__ import annotations

import base64
import math
from array import array
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from tests.hook.captured import KeptOutbox, watched
from tocsin.capture.layer_norms import BEFORE, BURST, EVERY, FIRST

Spoil = Callable[[Tensor], Tensor]


def norms_of_event(event: dict[str, Any]) -> list[float]:
    assert event["norms"]["dtype"] == "f4"
    return array("f", base64.b64decode(event["norms"]["bdata"])).tolist()


class Net(nn.Module):
    """Two layers; ``spoil`` changes the gradient between them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(4, 5), nn.Linear(5, 1)
        self.spoil: Spoil | None = None

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        if self.spoil is not None:
            h.register_hook(self.spoil)
        out: Tensor = self.last(h.tanh())
        return out


NAMES = ["first.weight", "first.bias", "last.weight", "last.bias"]


def _train(
    steps: int, spoil: dict[int, Spoil], *, clip: bool = True, scaler: Any = None, **options: Any
) -> tuple[KeptOutbox, dict[int, list[float]]]:
    """Return what was sent, and the true norms before each clip."""
    net, truth = Net(), {}
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    with watched(model=net, **options) as (_, outbox):
        for step in range(steps):
            net.spoil = spoil.get(step)
            loss = net(torch.ones(3, 4)).pow(2).mean()
            (scaler.scale(loss) if scaler else loss).backward()
            if scaler and clip:
                scaler.unscale_(optimizer)
            truth[step] = [float(param.grad.norm()) for param in net.parameters() if param.grad is not None]
            if clip:
                clip_grad_norm_(net.parameters(), 1e9)
            if scaler:
                scaler.step(optimizer)
                scaler.update()
            else:
                optimizer.step()
            optimizer.zero_grad()
    return outbox, truth


@pytest.mark.parametrize("clip", [True, False])
def test_samples_carry_the_norm_of_every_parameter(clip: bool) -> None:
    """At one in 16 steps, whether or not the script clips; the names are sent once, before."""
    outbox, truth = _train(2 * EVERY + 1, {}, clip=clip)
    reported = outbox.events("layers")
    assert [one["step"] for one in reported] == [0, EVERY, 2 * EVERY]
    for one in reported:
        assert (one["why"], one["source"]) == ("sample", "clip" if clip else "own")
        assert norms_of_event(one) == pytest.approx(truth[one["step"]], rel=1e-6)
    (names,) = outbox.events("layer-names")
    assert (names["names"], names["parameters"]) == (NAMES, [1, 1, 1, 1])


def test_an_infinite_step_reports_its_layers_and_those_of_earlier_steps() -> None:
    """Infinities in the right places, and the preceding steps, sent before the record."""
    outbox, truth = _train(30, {25: lambda grad: grad * math.inf})
    reported = {one["step"]: one for one in outbox.events("layers")}
    assert [reported[step]["why"] for step in range(17, 26)] == ["before"] * BEFORE + ["nonfinite"]
    assert norms_of_event(reported[25])[:2] == pytest.approx(truth[25][:2], nan_ok=True)
    assert [math.isfinite(norm) for norm in norms_of_event(reported[25])] == [False, False, True, True]
    assert norms_of_event(reported[20]) == pytest.approx(truth[20], rel=1e-6)


@pytest.mark.parametrize("clip", [True, False])
def test_a_skipped_step_reports_its_layers_unscaled(clip: bool) -> None:
    """Also if no norm was computed: it is computed in this case only."""
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    outbox, truth = _train(8, {5: lambda grad: grad / 0}, clip=clip, scaler=scaler)
    (reported,) = [one for one in outbox.events("layers") if one["step"] == 5]
    assert [math.isfinite(norm) for norm in norms_of_event(reported)] == [False, False, True, True]
    finite = truth[5][2:] if clip else [norm / 2.0**10 for norm in truth[5][2:]]
    assert norms_of_event(reported)[2:] == pytest.approx(finite, rel=1e-6)


def test_an_outlier_step_reports_its_layers() -> None:
    """Above five times the previous level of the run."""
    outbox, truth = _train(40, {33: lambda grad: grad * 1e3})
    (reported,) = [one for one in outbox.events("layers") if one["why"] == "outlier"]
    assert reported["step"] == 33
    assert norms_of_event(reported) == pytest.approx(truth[33], rel=1e-6)


def test_the_bits_of_a_nan_survive() -> None:
    """Sign and payload of a NaN are those of the norm."""
    odd = torch.tensor([-0x00345678], dtype=torch.int32).view(torch.float32)
    net = nn.ParameterList([nn.Parameter(torch.zeros(1))])
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with watched(model=net) as (_, outbox):
        net[0].grad = odd.clone()
        norm = clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
    assert norm.isnan()
    sent = base64.b64decode(outbox.events("layers")[0]["norms"]["bdata"])
    assert sent == odd.norm().numpy().tobytes()


def test_endless_failures_are_reported_a_bounded_number_of_times() -> None:
    """A burst, then one every two seconds, however fast the loop runs."""
    outbox, _ = _train(200, dict.fromkeys(range(1, 200), lambda grad: grad * math.nan))
    assert FIRST <= len(outbox.events("layers")) <= BURST + 20
    assert len(outbox.events("layer-names")) == 1


def test_a_parameter_without_gradient_has_a_table_of_its_own() -> None:
    """Names stay correct if the set of parameters with a gradient changes."""
    nets = nn.ModuleDict({"a": nn.Linear(2, 1, bias=False), "b": nn.Linear(2, 1, bias=False)})
    optimizer = torch.optim.SGD(nets.parameters(), lr=0.1)
    with watched(model=nets, grad_norm=True) as (_, outbox):
        for used in ("a", "b"):
            optimizer.zero_grad()
            nets[used](torch.ones(2)).sum().backward()
            optimizer.step()
    assert [one["names"] for one in outbox.events("layer-names")] == [["a.weight"], ["b.weight"]]
    assert [one["table"] for one in outbox.events("layers")] == [0, 1]


def test_mixed_dtypes_keep_their_names() -> None:
    """torch puts norms of one dtype together; each still has its own parameter's name."""
    net = nn.ModuleList([nn.Linear(1, 1, bias=False) for _ in range(4)])
    net[1].double()
    net[3].double()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with watched(model=net) as (_, outbox):
        for k, param in enumerate(net.parameters()):
            param.grad = torch.full_like(param, k + 1.0)
        clip_grad_norm_(net.parameters(), 1e9)
        optimizer.step()
    (names,), (reported,) = outbox.events("layer-names"), outbox.events("layers")
    assert dict(zip(names["names"], norms_of_event(reported), strict=True)) == {
        f"{k}.weight": k + 1.0 for k in range(4)
    }


def test_other_ranks_report_failures_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their ordinary samples would repeat those of rank 0."""
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    outbox, _ = _train(40, {35: lambda grad: grad * math.inf})
    assert {one["why"] for one in outbox.events("layers")} == {"before", "nonfinite"}


def test_torch_is_left_as_it_was() -> None:
    """What is patched during a clip is restored after it, also after an exception."""
    plain = torch.linalg.vector_norm
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with watched():
        net(torch.full((3, 4), math.nan)).mean().backward()
        with pytest.raises(RuntimeError, match="non-finite"):
            clip_grad_norm_(net.parameters(), 1.0, error_if_nonfinite=True)
        assert torch.linalg.vector_norm is plain
        optimizer.step()
    assert torch.linalg.vector_norm is plain
