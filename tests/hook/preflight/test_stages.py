"""The config check as a whole: when it runs, and that it does not affect training."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.hook.capture.test_staging import NoSync
from tests.hook.captured import watched
from tests.hook.preflight.checked import checked, found, mean_of, net, train, unseen
from tocsin.preflight import CHECKS


def test_a_correct_training_has_no_finding() -> None:
    """One event at the first step and one at the tenth, without findings, with everything checked."""
    outbox = checked(net(), steps=12)
    events = outbox.events("preflight")
    assert [(event["stage"], event["step"]) for event in events] == [("first-step", 0), ("step-10", 9)]
    assert [(event["findings"], event["not_checkable"]) for event in events] == [([], [])] * 2
    assert set(events[0]["checks"]) <= set(CHECKS)


def test_an_unchanged_finding_is_reported_once() -> None:
    """The tenth step repeats no finding of the first, nor what could not be checked then."""
    model = net()
    high = torch.optim.AdamW(model.parameters(), lr=0.02)
    unknown = torch.optim.Rprop(net().parameters(), lr=1e6)
    with watched(model=model) as (_, outbox):
        train(model, mean_of(model), high, 12)
    first, tenth = outbox.events("preflight")
    assert "lr-range" in {one["check"] for one in first["findings"]}
    assert (tenth["findings"], tenth["not_checkable"]) == ([], [])
    assert "lr-range" not in tenth["checks"]  # the page shows the newest answer of each check
    assert unknown.param_groups


def test_a_failing_check_is_reported_and_affects_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other checks still run."""
    monkeypatch.setattr("tocsin.preflight.optimizers.check_rates", lambda *given: 1 / 0)
    outbox = checked(net(), lambda: torch.ones(1, requires_grad=True).nan_to_num().sum())
    assert "learning rates: ZeroDivisionError" in unseen(outbox)
    assert len(found(outbox, "masked-values")) == 1


def test_weights_are_bit_identical_and_nothing_is_kept() -> None:
    """With and without the check, and neither the model nor the graph is kept in memory."""

    def trained(inside: bool) -> list[Tensor]:
        torch.manual_seed(3)
        model = net()
        if inside:
            checked(model, steps=12)
        else:
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
            train(model, lambda: model(torch.ones(4, 6)).mean(), optimizer, 12)
        return [param.detach().clone() for param in model.parameters()]

    assert all(torch.equal(one, two) for one, two in zip(trained(True), trained(False), strict=True))
    model = net()
    ref, grad_fns = weakref.ref(model), []
    with watched():
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loss = model(torch.ones(4, 6)).mean()
        grad_fns.append(weakref.ref(loss))
        loss.backward()
        optimizer.step()
        del model, optimizer, loss
        gc.collect()
        assert (ref(), grad_fns[0]()) == (None, None)


def test_a_compiled_step_has_no_more_graph_breaks() -> None:
    """Counted by dynamo, of a model compiled with and without a watch."""
    counts = []
    for watching in (False, True):
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        model = net()
        compiled = torch.compile(model, backend="aot_eager")
        if watching:
            checked(model, mean_of(compiled), steps=3)
        else:
            train(model, mean_of(compiled), torch.optim.AdamW(model.parameters()), 3)
        counts.append(sum(torch._dynamo.utils.counters["graph_break"].values()))
    assert counts[0] == counts[1]


def test_the_check_waits_for_no_device() -> None:
    """Graph, parameters, optimizer and scaler on a device that has no values: nothing asks for one."""
    with FakeTensorMode(), NoSync():  # type: ignore[no-untyped-call]
        model = nn.Linear(
            6, 1, dtype=torch.float16
        )  # fake, but not on CUDA: a build without it makes no graph there
        params = [nn.Parameter(torch.empty(3, device="cuda"), requires_grad=False) for _ in range(2)]
        optimizer = torch.optim.Adam([*model.parameters(), *params], lr=1e-3)
        optimizer.param_groups[0]["lr"] = torch.empty((), device="cuda")
        with watched(model=model) as (run, outbox):
            loss = torch.nan_to_num(model(torch.empty(4, 6, dtype=torch.float16))).pow(2).sum()
            ledger = run._ledger
            ledger.primary = ledger.tracker(optimizer)
            ledger.name_of(ledger.primary)
            ledger.inspectors[0](loss, False)
            for number in (1, 10):
                for call in ledger.step_scheduler.take_due(number):
                    call()
    assert [one["subject"] for one in found(outbox, "fp16-unsafe")] == [
        "Pow x 1 (float16), Sum x 1 (float16)"
    ]
    assert "learning rate of opt1 (Adam): it is a tensor" in unseen(outbox)
    assert [event["stage"] for event in outbox.events("preflight")] == ["first-step", "step-10"]


def test_the_second_loss_of_a_gan_is_seen() -> None:
    """Its generator's backward comes after the first step: its graph is reported at the second."""
    nets = [net(), net()]
    pair = [torch.optim.AdamW(one.parameters(), lr=1e-3) for one in nets]
    with watched() as (_, outbox):
        for _ in range(3):
            for k, (model, optimizer) in enumerate(zip(nets, pair, strict=True)):
                optimizer.zero_grad()
                out = model(torch.ones(4, 6))
                (torch.nan_to_num(out) if k else out.clamp(-1, 1)).mean().backward()
                optimizer.step()
    assert found(outbox, "masked-values") == []
    assert len(found(outbox, "clamped-values")) == 1
    (finding,) = found(outbox, "masked-values", "other-losses")
    assert finding["got"] == "1 times"


def test_micro_steps_are_one_loss() -> None:
    """The graphs of micro-steps are equal: each operation is counted once."""
    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    with watched(model=model) as (_, outbox):
        for _ in range(3):
            model(torch.ones(4, 6)).clamp(-1, 1).mean().backward()
        optimizer.step()
    (finding,) = found(outbox, "clamped-values")
    assert finding["got"] == "1 times"


def test_a_loop_that_reports_its_steps_is_checked_in_part() -> None:
    """Its optimizer is checked; its graph is reported as not checkable."""
    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0)
    with watched(model=model) as (run, outbox):
        run.step(loss=1.0)
        run.step(loss=1.0)
    assert optimizer.param_groups
    assert len(found(outbox, "lr-zero")) == 1
    assert "loss graph: no backward was seen" in unseen(outbox)


@pytest.mark.parametrize(("more", "count"), [({}, 1), ({"scale": 2.0**16}, 0)])
def test_a_loop_that_reports_a_scale_does_not_lack_a_scaler(more: dict[str, Any], count: int) -> None:
    """It scales the loss without a GradScaler, as Keras and DeepSpeed do."""
    model = net()
    with watched(model=model) as (run, outbox):
        with torch.autocast("cpu", torch.float16):
            loss = model(torch.ones(4, 6)).mean()
        (2.0**16 * loss).backward()
        run.step(loss=1.0, **more)
    assert len(found(outbox, "scaler-missing")) == count


def test_without_capture_nothing_is_checkable() -> None:
    """This is reported once."""
    with watched(patch=False) as (run, outbox):
        run.step(loss=1.0)
        run.step(loss=1.0)
    (event,) = outbox.events("preflight")
    assert (event["findings"], event["checks"], event["step"]) == ([], [], 0)
    assert event["not_checkable"][0].startswith("everything")


def test_an_earlier_training_that_is_still_in_memory_is_not_checked() -> None:
    """Its rate has reached 0 and its scale oscillates; the optimizer and the scaler of this run are fine."""
    earlier = torch.optim.AdamW(net().parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", growth_interval=1)
    for group in earlier.param_groups:
        for param in group["params"]:
            param.grad = torch.zeros_like(param)
    scaler.scale(torch.ones(1))
    earlier.step()
    earlier.param_groups[0].update(lr=0.0, initial_lr=1e-3)
    outbox = checked(net(), steps=12)
    assert [event["findings"] for event in outbox.events("preflight")] == [[], []]
