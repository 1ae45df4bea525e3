"""The source of a gradient norm, and its report."""

from __future__ import annotations

import functools
import math
import sys
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.nn.utils import clip_grad_norm_

from tests.hook.captured import watched
from tests.hook.truth import norm_of, torch_is_before
from tocsin import capture
from tocsin.capture import gradients
from tocsin.capture.gradients import _norms


@pytest.fixture
def net() -> torch.nn.Linear:
    torch.manual_seed(0)
    return torch.nn.Linear(3, 2)


@pytest.fixture
def optimizer(net: torch.nn.Linear) -> torch.optim.Optimizer:
    return torch.optim.SGD(net.parameters(), lr=0.1)


def _step(net: Any, optimizer: Any, clip: Any = None) -> None:
    optimizer.zero_grad()
    net(torch.ones(3)).pow(2).sum().backward()
    if clip is not None:
        clip(net)
    optimizer.step()


@pytest.mark.parametrize(
    ("every", "steps"),
    [("auto", [0, 16, 32]), (10, [0, 10, 20, 30]), (True, list(range(34))), (False, []), (0, [])],
)
def test_our_own_norm_is_sampled_by_step(net: Any, optimizer: Any, every: Any, steps: list[int]) -> None:
    """If the script never clips, a norm is computed at every so many steps and absent otherwise."""
    with watched(grad_norm=every) as (_, outbox):
        for _ in range(34):
            _step(net, optimizer)
    assert [step for step, _ in outbox.series("grad_norm")] == steps
    sources = [(one["source"], one["clip"]) for one in outbox.events("grad-norm-source")]
    assert sources == ([("own", None)] if steps else [])


def test_the_scripts_clip_ends_our_own(net: Any, optimizer: Any) -> None:
    """From the first clip on its value is used, and each change of source is an event."""

    def clip(threshold: float) -> Any:
        return lambda net: clip_grad_norm_(net.parameters(), threshold)

    with watched() as (_, outbox):
        for each in (None, None, clip(1.0), clip(1.0), clip(0.5), None):
            _step(net, optimizer, each)
    assert [step for step, _ in outbox.series("grad_norm")] == [0, 2, 3, 4]
    events = [(one["step"], one["source"], one["clip"]) for one in outbox.events("grad-norm-source")]
    assert events == [(0, "own", None), (2, "clip", 1.0), (4, "clip", 0.5)]


def test_an_adaptive_clip_is_no_flood_of_events(net: Any, optimizer: Any) -> None:
    """A threshold that changes at every step is reported a few times only."""
    with watched() as (_, outbox):
        for k in range(50):
            _step(net, optimizer, lambda net, k=k: clip_grad_norm_(net.parameters(), 1.0 + k))
    assert len(outbox.events("grad-norm-source")) == 9
    assert len(outbox.series("grad_norm")) == 50


@pytest.mark.skipif(not hasattr(torch.amp, "GradScaler"), reason="torch before 2.3 scales on CUDA only")
def test_a_clip_of_scaled_gradients_is_unscaled_and_reported(net: Any, optimizer: Any) -> None:
    """Forgetting ``unscale_`` before the clip is seen: the norm is divided by the scale."""
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    with watched() as (_, outbox):
        scaler.scale(net(torch.ones(3)).pow(2).sum()).backward()
        total = clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
    assert outbox.records[0]["grad_norm"] == pytest.approx(float(total) / 1024.0)
    assert outbox.events("grad-norm-source")[0]["scaled"] is True


@pytest.mark.skipif(torch_is_before(2, 6), reason="torch before 2.6 has no such function")
def test_the_public_function_on_a_given_norm_counts(net: Any, optimizer: Any) -> None:
    """``torch.nn.utils.clip_grads_with_norm_`` is a clip too, also on an iterator, which is not used up."""
    utils: Any = torch.nn.utils
    with watched() as (_, outbox):
        net(torch.ones(3)).pow(2).sum().backward()
        total = utils.get_total_norm([param.grad for param in net.parameters()])
        utils.clip_grads_with_norm_(net.parameters(), 1e-9, total)
        assert max(float(param.grad.abs().max()) for param in net.parameters()) < 1e-8
        optimizer.step()
    assert outbox.series("grad_norm") == [(0, float(total))]


def test_two_models_clipped_apart_keep_their_norms() -> None:
    """With two optimizers each clip belongs to the one whose parameters it got."""
    nets = [torch.nn.Linear(3, 1), torch.nn.Linear(3, 1)]
    pair = [torch.optim.SGD(net.parameters(), lr=0.1) for net in nets]
    with watched() as (_, outbox):
        for factor, net in zip((1.0, 100.0), nets, strict=True):
            (net(torch.ones(3)).sum() * factor).backward()
        norms = [float(clip_grad_norm_(net.parameters(), 1.0)) for net in nets]
        for each in pair:
            each.step()
    assert [outbox.series("grad_norm"), outbox.series("grad_norm/opt2")] == [[(0, norms[0])], [(0, norms[1])]]


@pytest.mark.parametrize("values", [[3.0, 4.0], [0.0], [math.inf, 1.0], [math.nan, math.inf], [1e30, 1e30]])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_own_norm_equals_torchs(values: list[float], dtype: torch.dtype) -> None:
    """Mixed shapes and dtypes give the norm that clip_grad_norm_ would have returned."""
    grads = [torch.tensor([value], dtype=dtype) for value in values] + [torch.zeros(2, 2)]
    params = [torch.nn.Parameter(torch.zeros_like(grad)) for grad in grads]
    for param, grad in zip(params, grads, strict=True):
        param.grad = grad.clone()
    expected = float(clip_grad_norm_(params, 1.0))
    assert float(torch.linalg.vector_norm(_norms(grads))) == pytest.approx(
        expected, rel=1e-2 if dtype is torch.bfloat16 else 1e-6, nan_ok=True
    )


def test_sparse_gradients_have_a_norm() -> None:
    """An embedding with sparse gradients is measured over its values."""
    table = torch.nn.Embedding(10, 3, sparse=True)
    optimizer = torch.optim.SGD(table.parameters(), lr=0.1)
    with watched() as (_, outbox):
        table(torch.tensor([1, 2])).sum().backward()
        optimizer.step()
    assert outbox.records[0]["grad_norm"] == pytest.approx(math.sqrt(6))


def test_the_source_names_the_series(net: Any, optimizer: Any) -> None:
    """The event has the suffix of the norm's series: none for the primary, whatever its name."""
    with watched(optimizers={"critic": optimizer}) as (_, outbox):
        _step(net, optimizer)
    reported = outbox.events("grad-norm-source")
    assert [(one["optimizer"], one["series"]) for one in reported] == [("critic", "")]


def test_before_torch_2_6_a_clip_imported_by_name_is_seen(
    net: Any, optimizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an inner function the public one is watched from within; the name was imported above."""
    monkeypatch.setitem(capture.SIGNALS, "clip", gradients.install_public)
    with watched(grad_norm=1) as (_, outbox):
        _step(net, optimizer, lambda net: clip_grad_norm_(net.parameters(), 1e-3))
    assert outbox.records[0]["grad_norm"] > 0.1
    (reported,) = outbox.events("grad-norm-source")
    assert (reported["source"], reported["taken"]) == ("clip", "before clipping")


def test_the_norm_is_that_before_a_clip_of_values() -> None:
    """``clip_grad_value_`` leaves another norm than the gradients had; scaled ones are unscaled."""
    net = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    norms = []
    with watched(grad_norm=1) as (_, outbox):
        for k in range(4):
            optimizer.zero_grad()
            loss = net(torch.ones(3, 2)).sum()
            (scaler.scale(loss) if k % 2 else loss).backward()
            norms.append(norm_of(net.parameters()) / (8.0 if k % 2 else 1.0))
            torch.nn.utils.clip_grad_value_(net.parameters(), 0.1)
            optimizer.step()
    assert [value for _, value in outbox.series("grad_norm")] == pytest.approx(norms)


def test_the_norm_of_an_optimizer_that_clips_inside_is_the_one_it_keeps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As DeepSpeed's: it keeps the norm before clipping, and steps another optimizer behind the clip."""

    class Around:
        def __init__(self, optimizer: torch.optim.Optimizer) -> None:
            self.optimizer, self._global_grad_norm = optimizer, 0.0

        def step(self) -> None:
            params = self.optimizer.param_groups[0]["params"]
            self._global_grad_norm = norm_of(params)
            for param in params:
                param.grad.mul_(1e-3 / self._global_grad_norm)
            self.optimizer.step()

    monkeypatch.setitem(sys.modules, "deepspeed.runtime.engine", ModuleType("engine"))
    net = torch.nn.Linear(2, 1)
    around = Around(torch.optim.SGD(net.parameters(), lr=0.0))
    norms = []
    with watched() as (_, outbox):
        for k in range(3):
            net.zero_grad()
            (net(torch.ones(2)).sum() * (k + 1)).backward()
            norms.append(norm_of(net.parameters()))
            around.step()
    assert [value for _, value in outbox.series("grad_norm")] == pytest.approx(norms)
    assert {one["taken"] for one in outbox.events("grad-norm-source")} == {"before clipping"}


def _scale_by_hand(net: Any) -> None:
    """A clip in the script's own code, without torch's functions."""
    norm = norm_of(net.parameters())
    for param in net.parameters():
        param.grad.mul_(min(1.0, 1e-3 / norm))


def _replace_by_hand(net: Any) -> None:
    """Scaled gradients in new tensors, whose version counters restart."""
    for param in net.parameters():
        param.grad = param.grad * 1e-3


def _clamp_data(net: Any) -> None:
    """A clip of values that moves no version counter."""
    for param in net.parameters():
        param.grad.data.clamp_(-1e-3, 1e-3)


def _scale_data(net: Any) -> None:
    """A clip of the norm that moves no version counter."""
    norm = norm_of(net.parameters())
    for param in net.parameters():
        param.grad.data.mul_(min(1.0, 1e-3 / norm))


def _clip_after_clamping(net: Any) -> None:
    """The norm that the clip returns is that of the clamped gradients."""
    _clamp_data(net)
    clip_grad_norm_(net.parameters(), 1.0)


@pytest.mark.parametrize(
    ("clip", "taken"),
    [
        (None, "before clipping"),
        (_clamp_data, "unknown"),
        (_scale_data, "unknown"),
        (_clip_after_clamping, "unknown"),
        (lambda net: clip_grad_norm_(net.parameters(), 1e-3), "before clipping"),
        (lambda net: torch.nn.utils.clip_grad_value_(net.parameters(), 1e-3), "before clipping"),
        (_scale_by_hand, "unknown"),
        (_replace_by_hand, "unknown"),
    ],
)
def test_the_source_says_whether_the_norm_is_that_before_clipping(
    net: Any, optimizer: Any, clip: Any, taken: str
) -> None:
    """A change between backward and step is seen by identity, version counters and a sample of the values."""
    with watched(grad_norm=1) as (_, outbox):
        for _ in range(4):
            _step(net, optimizer, clip)
    assert {one["taken"] for one in outbox.events("grad-norm-source")} == {taken}


@pytest.mark.parametrize("since", [0, 20])
def test_a_change_through_data_is_seen_under_the_usual_settings(net: Any, since: int) -> None:
    """A norm every 16th step, and a clip from the start or from a later step on."""
    frozen = torch.optim.SGD(net.parameters(), lr=0.0)
    with watched() as (_, outbox):
        for step in range(40):
            _step(net, frozen, _clamp_data if step >= since else None)
    assert outbox.events("grad-norm-source")[-1]["taken"] == "unknown"


@pytest.mark.parametrize("name", ["register_hook", "register_post_accumulate_grad_hook"])
def test_hooks_of_the_script_may_clip(net: Any, optimizer: Any, name: str) -> None:
    """A hook can replace the gradient inside the backward, where nothing is seen of it."""
    getattr(net.weight, name)(lambda given: None)
    with watched(grad_norm=1) as (_, outbox):
        _step(net, optimizer)
    assert [one["taken"] for one in outbox.events("grad-norm-source")] == ["unknown"]


def test_hooks_of_torch_and_of_loggers_do_not_clip(net: Any, optimizer: Any) -> None:
    """DDP and FSDP reduce in hooks, and ``wandb.watch`` reads histograms."""

    def log(grad: Any) -> None:
        return None

    log.__module__ = "wandb.integration.torch.wandb_torch"
    net.weight.register_hook(log)
    net.bias.register_hook(functools.partial(torch.nn.functional.relu))
    with watched(grad_norm=1) as (_, outbox):
        _step(net, optimizer)
    assert [one["taken"] for one in outbox.events("grad-norm-source")] == ["before clipping"]


def test_an_overflow_is_no_change_of_the_gradients(net: Any, optimizer: Any) -> None:
    """NaN is not equal to itself as a number, but as bytes."""
    with watched(grad_norm=1) as (_, outbox):
        optimizer.zero_grad()
        (net(torch.ones(3)).sum() * math.nan).backward()
        optimizer.step()
    assert [one["taken"] for one in outbox.events("grad-norm-source")] == ["before clipping"]


def test_an_unscaling_is_no_change_of_the_gradients(net: Any, optimizer: Any) -> None:
    """GradScaler divides them in place, before the step or inside it."""
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    with watched(grad_norm=1) as (_, outbox):
        for k in range(4):
            optimizer.zero_grad(set_to_none=bool(k % 2))
            scaler.scale(net(torch.ones(3)).pow(2).sum()).backward()
            if k > 1:
                scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
    assert {one["taken"] for one in outbox.events("grad-norm-source")} == {"before clipping"}


def test_a_norm_that_always_equals_the_threshold_is_reported_as_after_clipping(
    net: Any, optimizer: Any
) -> None:
    """From the finding on. The config check reports that rules on gradients cannot work."""
    with watched(grad_norm=1) as (_, outbox):
        for _ in range(20):
            _step(net, optimizer, _scale_by_hand)
    assert [one["taken"] for one in outbox.events("grad-norm-source")] == ["unknown", "after clipping"]
    (report,) = [one for one in outbox.events("preflight") if one["stage"] == "norm"]
    assert report["findings"][0]["check"] == "constant-norm"
    assert report["not_checkable"][0].startswith("gradient rules")


def test_a_clip_that_only_measures_what_another_left_is_found_after_fifty_steps(
    net: Any, optimizer: Any
) -> None:
    """The script scales by hand and calls torch's clip with an infinite threshold to log the norm."""

    def clip(net: Any) -> None:
        _scale_by_hand(net)
        clip_grad_norm_(net.parameters(), math.inf)

    with watched() as (_, outbox):
        for _ in range(52):
            _step(net, optimizer, clip)
    assert [one["taken"] for one in outbox.events("grad-norm-source")] == ["unknown", "after clipping"]
    (report,) = [one for one in outbox.events("preflight") if one["stage"] == "clip"]
    assert [one["check"] for one in report["findings"]] == ["constant-norm"]
