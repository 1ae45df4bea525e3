"""Patches are on classes, serve several runs, never raise, and are undone."""

from __future__ import annotations

import functools
import sys
import warnings
from typing import Any

import pytest
import torch
from torch.nn.utils import clip_grad
from torch.optim.optimizer import register_optimizer_step_post_hook

from tests.hook.captured import KeptOutbox, watch, watched
from tests.hook.loops import LOOPS
from tests.hook.loops.scaled import scaled_clip
from tests.hook.loops.single import plain
from tests.hook.truth import Truth
from tocsin import capture
from tocsin.api.reporter import ERROR_LIMIT
from tocsin.capture import gradients, ledger, loss, optimizer, patching, scaler
from tocsin.capture.ledger import Ledger

PLACES = [
    (torch.autograd, "backward"),
    (torch.amp.GradScaler, "scale"),
    (torch.amp.GradScaler, "unscale_"),
    (torch.amp.GradScaler, "step"),
    (torch.amp.GradScaler, "update"),
    (torch.optim.Optimizer, "zero_grad"),
    (torch.optim.Optimizer, "__init__"),
    (torch.nn.Module, "zero_grad"),
    (clip_grad, "_clip_grads_with_norm_"),
    (torch.nn.utils, "clip_grads_with_norm_"),
]


def _places() -> list[Any]:
    hooks: Any = sys.modules["torch.optim.optimizer"]
    return [
        *(vars(owner)[name] for owner, name in PLACES),
        dict(hooks._global_optimizer_pre_hooks),
        dict(hooks._global_optimizer_post_hooks),
    ]


def test_finish_leaves_torch_as_it_was() -> None:
    """After the last run's finish every patched name is the original again."""
    before = _places()
    first, second = watch(), watch()
    assert all(now is not was for now, was in zip(_places()[: len(PLACES)], before, strict=False))
    first.finish()
    second.finish()
    second.finish()
    assert _places() == before


def test_a_run_may_end_within_a_step() -> None:
    """By its own errors or by the script's handler: torch is iterating over its hooks then."""
    run, net = watch(), torch.nn.Linear(2, 1)
    later = register_optimizer_step_post_hook(lambda *args: None)
    each = torch.optim.SGD(net.parameters(), lr=0.1)
    run._reporter.handle = lambda message: run.finish()
    run._reporter.queue_message("an alert")
    try:
        for _ in range(2):
            net(torch.ones(2)).sum().backward()
            run._reporter.queue_message("an alert")
            each.step()
    finally:
        later.remove()
    with watched():
        pass
    assert not optimizer._handles


def _double(x: int, times: int = 2) -> int:
    """What some script imported by name."""
    return times * x


def _decorated(inner: Any) -> Any:
    @functools.wraps(inner)
    def outer(*args: Any) -> Any:
        return inner(*args)

    return outer


@pytest.mark.parametrize("function", [_double, _decorated(lambda x: 2 * x)], ids=["plain", "decorated"])
def test_a_function_is_watched_through_every_name(function: Any) -> None:
    """A reference to the function calls the watched one, until the watch ends."""
    code = function.__code__

    def add_one(original: Any) -> Any:
        return lambda x: original(x) + 1

    begun = len(patching._undo)
    patching.replace_within(function, add_one)
    try:
        assert function(5) == 11
    finally:
        patching._take_back(begun)
    assert (function(5), function.__code__) == (10, code)


def test_a_wrapper_put_around_ours_stays() -> None:
    """What somebody else wrapped around our wrapper keeps working after finish."""
    original = torch.autograd.backward
    run = watch()
    inner = torch.autograd.backward

    @functools.wraps(inner)
    def theirs(*args: Any, **kwargs: Any) -> Any:
        return inner(*args, **kwargs)

    torch.autograd.backward = theirs
    try:
        run.finish()
        assert torch.autograd.backward is theirs
        plain(Truth())
    finally:
        torch.autograd.backward = original


def test_two_parallel_runs_record_the_same() -> None:
    """Two watches in one process each get every record; one may end before the other."""
    outboxes = KeptOutbox(), KeptOutbox()
    runs = [watch(outbox) for outbox in outboxes]
    plain(Truth())
    runs[0].finish()
    scaled_clip(Truth())
    runs[1].finish()
    assert outboxes[0].series("loss") == outboxes[1].series("loss")[:40]
    assert len(outboxes[1].series("scale")) == 40


def test_optimizers_made_before_and_after_are_seen() -> None:
    """An optimizer made before the watch and one made after it both report, each its own loss."""
    nets = [torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)]
    early = torch.optim.SGD(nets[0].parameters(), lr=0.1)
    with watched() as (_, outbox):
        late = torch.optim.SGD(nets[1].parameters(), lr=0.2)
        for net in nets:
            net(torch.ones(2)).sum().backward()
        early.step()
        late.step()
    assert [
        record["loss_n" + suffix] for record, suffix in zip(outbox.records, ("", "/opt2"), strict=True)
    ] == [1, 1]
    assert outbox.series("lr/opt2") == [(0, 0.2)]


def test_only_named_optimizers_where_names_are_given() -> None:
    """``optimizers=`` names them, and the primary is the first to step unless requested otherwise."""
    nets = [torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)]
    one, two = (torch.optim.SGD(net.parameters(), lr=0.1) for net in nets)
    with watched(optimizers={"G": one, "D": two}, primary="G") as (_, outbox):
        for _ in range(3):
            for net, each in zip(nets, (one, two), strict=True):
                each.zero_grad()
                net(torch.ones(2)).sum().backward()
            two.step()
            one.step()
    assert [step for step, _ in outbox.series("loss")] == [0, 1, 2]
    assert [step for step, _ in outbox.series("loss/D")] == [0, 1, 2]


CALLBACKS: list[tuple[Any, str]] = [
    (loss, "_values"),
    (loss, "_loss"),
    (Ledger, "before_backward"),
    (Ledger, "after_backward"),
    (Ledger, "record"),
    (Ledger, "cleared"),
    (Ledger, "clipped"),
    (Ledger, "tracker"),
    (Ledger, "owner"),
    (Ledger, "norm_due"),
    (ledger, "monotonic_ns"),
    (scaler, "_remember"),
    (scaler, "_unscaled"),
    (scaler, "scale_of"),
    (scaler, "found_inf_of"),
    (scaler, "_flags_of"),
    (scaler, "_host_scale"),
    (scaler, "_open"),
    (scaler, "_close"),
    (scaler, "_updated"),
    (loss, "_before"),
    (loss, "_after"),
    (gradients, "_clipped"),
    (scaler, "_outcome"),
    (scaler, "inner_of"),
    (gradients, "read"),
    (optimizer, "_enter"),
    (optimizer, "_leave"),
    (optimizer, "_zeroed"),
    (optimizer, "own_norm"),
    (loss, "read"),
    (scaler, "read"),
    (KeptOutbox, "put"),
    (KeptOutbox, "put_event"),
]


def _raising(*args: Any, **kwargs: Any) -> Any:
    raise RuntimeError("injected")


def _train() -> list[torch.Tensor]:
    """Return the weights after both loops that together reach every callback."""
    nets = [LOOPS["zero_after"](Truth()), LOOPS["gan_one_scaler"](Truth())]
    return [param.detach() for net in nets for param in net.parameters()]


@pytest.fixture(scope="module")
def unwatched() -> list[torch.Tensor]:
    return _train()


@pytest.mark.parametrize(("owner", "name"), CALLBACKS, ids=lambda one: one if isinstance(one, str) else "")
def test_an_error_inside_never_reaches_training(
    owner: Any, name: str, unwatched: list[torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an exception in any callback the weights are those of a run without the hook."""
    run = watch()
    monkeypatch.setattr(owner, name, _raising)
    seen = _train()
    run.log(extra=1.0)
    run.finish()
    assert all(torch.equal(one, other) for one, other in zip(unwatched, seen, strict=True))


def test_too_many_errors_switch_the_hook_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """After 20 internal errors capture stops, and an event has the reason."""
    before, outbox = _places(), KeptOutbox()
    run = watch(outbox)
    monkeypatch.setattr(Ledger, "record", _raising)
    plain(Truth())
    assert [(one["errors"], one["reason"]) for one in outbox.events("hook-disabled")] == [
        (ERROR_LIMIT, "after step: RuntimeError('injected')")
    ]
    run.log(a=1.0)
    assert not outbox.items
    run.finish()
    assert _places() == before


@pytest.mark.parametrize(
    ("owner", "name", "signal"),
    [
        (torch.amp.GradScaler, "unscale_", "scaler"),
        (torch.autograd, "backward", "loss"),
    ],
)
def test_a_missing_private_name_costs_one_signal(
    owner: Any, name: str, signal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If torch lacks a name, one warning names the missing signal; the others work."""
    net = torch.nn.Linear(2, 1)
    each = torch.optim.SGD(net.parameters(), lr=0.1)
    with monkeypatch.context() as without:
        without.delattr(owner, name)
        with pytest.warns(RuntimeWarning, match=name) as warned:
            run = watch(outbox := KeptOutbox())
        assert len(warned) == 1
        run.finish()
    signals = outbox.events("attached")[0]["signals"]
    assert [one for one, state in signals.items() if state != "ok"] == [signal]
    each.step()


def test_where_the_inner_clip_is_missing_the_public_one_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in torch before 2.6: no signal is lost, so there is no warning."""
    monkeypatch.delattr(clip_grad, "_clip_grads_with_norm_")
    watched: Any = clip_grad.clip_grad_norm_
    before = watched.__wrapped__.__code__
    run = watch(outbox := KeptOutbox())
    assert set(outbox.events("attached")[0]["signals"].values()) == {"ok"}
    run.finish()
    assert watched.__wrapped__.__code__ is before


def test_a_torch_without_the_scalers_states_still_says_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the private flags ``found_inf`` is missing, ``skipped`` is not."""
    monkeypatch.setattr(scaler, "_flags_of", lambda *args: ())
    truth = Truth()
    with watched() as (_, outbox):
        scaled_clip(truth)
    assert [value for _, value in outbox.series("skipped")] == [row["skipped"] for row in truth.rows]
    assert outbox.series("found_inf") == []


def test_nothing_is_reported_after_detach() -> None:
    """A detached ledger gets nothing, and detaching twice is allowed."""
    run = watch(outbox := KeptOutbox())
    capture.detach(run._ledger)
    capture.detach(run._ledger)
    assert patching.attached == ()
    plain(Truth())
    assert not outbox.items
    run.finish()


def test_a_raising_backward_raises_what_it_raised() -> None:
    """An error of the script's own backward passes through unchanged, and the next step reports again."""
    net = torch.nn.Linear(2, 1)
    each = torch.optim.SGD(net.parameters(), lr=0.1)
    with watched() as (_, outbox):
        with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
            net(torch.ones(3, 2)).backward()
        net(torch.ones(2)).sum().backward()
        each.step()
    assert [record["loss_n"] for record in outbox.records] == [1.0]


def test_a_raising_step_does_not_silence_the_optimizer() -> None:
    """A step that raised (out of memory, caught by the script) costs no later record."""

    class Flaky(torch.optim.SGD):
        fails = True

        def step(self, closure: Any = None) -> Any:
            if self.fails:
                raise MemoryError("out of memory")
            return super().step(closure)

    net = torch.nn.Linear(2, 1)
    each = Flaky(net.parameters(), lr=0.1)
    with watched() as (_, outbox):
        with pytest.raises(MemoryError):
            each.step()
        each.fails = False
        for _ in range(3):
            each.zero_grad()
            net(torch.ones(2)).sum().backward()
            each.step()
    assert [value for _, value in outbox.series("stepped")] == [1.0, 1.0, 1.0]


def test_warnings_of_torch_are_not_added() -> None:
    """Capture itself causes no warning in any loop style."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with watched():
            LOOPS["scaled_fused"](Truth())
    assert not [one for one in warned if "tocsin" in str(one.filename)]


def test_a_forked_child_that_watches_has_each_patch_once() -> None:
    """The parent's patches are still there: they are disabled, so that nothing is counted twice."""
    before = _places()
    parent = watch()
    patching._silence_in_child()
    child = watch()
    assert vars(torch.autograd.backward)["__wrapped__"] is before[0]
    child.finish()
    assert _places() == before
    parent.finish()
    assert _places() == before
