"""No harm: whatever fails inside the hook, training goes on to the same bits; nothing grows."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

import tocsin
import tocsin.disabled
from tests.hook.callbacks import guarded
from tests.hook.captured import KeptOutbox, watch, watched
from tests.hook.ingest_server import IngestServer, wait_until
from tests.hook.truth import batches, half_loss, model
from tocsin.capture.ledger import Ledger
from tocsin.run import Run
from tocsin.watching import ERROR_LIMIT

CALLBACKS = guarded()


def _plain(run: Any) -> nn.Module:
    """One optimizer, made under the watch; what a script can say is said."""
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    run.load_state_dict({"step": 0})
    for k, batch in enumerate(batches(4)):
        net.zero_grad()
        run.batch(f"shard {k}")
        loss = net(batch).pow(2).mean()
        run.log(extra=loss, host=1.0)
        run.check(batch=batch, losses={"part": loss})
        loss.backward()
        optimizer.step()
        run.evaluate(psnr=1.0, goal="max")
    run.event("checkpoint", path="a.pt")
    return net


def _scaled(run: Any) -> nn.Module:
    """Two optimizers and a scaler that overflows, skips, backs off and grows; a clip."""
    nets = nn.ModuleList([model(0), model(1)])
    pair = [torch.optim.SGD(net.parameters(), lr=1e-3) for net in nets]
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14, growth_interval=2)
    for k, batch in enumerate(batches(7, hot=(3,))):
        run.batch(f"shard {k}")
        run.check(batch=batch, losses={"part": batch.mean()})
        for net, optimizer in zip(nets, pair, strict=True):
            optimizer.zero_grad()
            scaler.scale(half_loss(net, batch)).backward()
            scaler.unscale_(optimizer)
            if k % 2:
                clip_grad_norm_(net.parameters(), 1.0)
            scaler.step(optimizer)
        scaler.update()
    return nets


def _graphed(run: Any) -> nn.Module:
    """The script reports its steps itself."""
    net = model()
    for batch in batches(3):
        run.check(batch=batch * float("nan"), weights=net)
        run.step(loss=net(batch).pow(2).mean(), host=1.0)
    return net


def _train(run: Any) -> list[Tensor]:
    return [param.detach() for loop in (_plain, _scaled, _graphed) for param in loop(run).parameters()]


@pytest.fixture(scope="module")
def unwatched() -> list[Tensor]:
    """Weights of the same training without a run."""
    return _train(tocsin.disabled.NoRun())


@pytest.mark.parametrize(
    ("owner", "name"), CALLBACKS, ids=[f"{owner.__name__}.{name}" for owner, name in CALLBACKS]
)
def test_an_error_in_any_callback_never_reaches_training(
    owner: Any, name: str, unwatched: list[Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each callback found in the code is reached by the training, raises there, and no bit changes."""
    reached = []

    def raising(*args: Any, **kwargs: Any) -> Any:
        reached.append(name)
        raise RuntimeError("injected")

    run = watch(grad_norm=2)
    monkeypatch.setattr(owner, name, raising)
    seen = _train(run)
    run.finish()
    assert reached, f"no loop of this test reaches {name}: add one that does"
    assert all(torch.equal(one, other) for one, other in zip(unwatched, seen, strict=True))


def test_the_list_of_callbacks_is_not_empty() -> None:
    """The search in the code finds what is known to be there."""
    names = {name for _, name in CALLBACKS}
    assert {
        "_before_one",
        "_after",
        "_enter",
        "_leave",
        "_zeroed",
        "_clipped",
        "_remember",
        "_close",
    } <= names


def test_after_twenty_errors_the_server_knows_that_the_hook_is_off(
    server: IngestServer, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hook says why it went silent, and training goes on."""
    run = tocsin.watch("p", url=server.url, token="tk", spool_dir=spool)
    monkeypatch.setattr(Ledger, "record", _raise)
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for batch in batches(ERROR_LIMIT + 5):
        net(batch).pow(2).mean().backward()
        optimizer.step()
    run.finish()
    wait_until(lambda: server.writers and server.only.events)
    (event,) = [one for one in server.only.events if one.kind == "hook-disabled"]
    assert event.data["errors"] == ERROR_LIMIT
    assert "injected" in event.data["reason"]


def _raise(*args: Any, **kwargs: Any) -> Any:
    raise RuntimeError("injected")


def test_disabled_nothing_is_imported_and_nothing_is_patched() -> None:
    """``TOCSIN_DISABLE=1``: two modules of ours and no more, no thread, torch as it was."""
    script = (
        "import sys, threading, torch\n"
        "before = torch.autograd.backward, torch.amp.GradScaler.step, torch.optim.Optimizer.zero_grad\n"
        "import tocsin\n"
        "run = tocsin.watch('p')\ntocsin.log(a=1.0)\nrun.log(a=1.0)\nrun.finish()\n"
        "after = torch.autograd.backward, torch.amp.GradScaler.step, torch.optim.Optimizer.zero_grad\n"
        "ours = sorted(name for name in sys.modules if name.split('.')[0] == 'tocsin')\n"
        "foreign = [name for name in ('websockets', 'msgspec') if name in sys.modules]\n"
        "print(ours, foreign, before == after, threading.active_count())\n"
    )
    environ = {**os.environ, "TOCSIN_DISABLE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environ, check=True
    )
    assert done.stdout.strip() == "['tocsin', 'tocsin.disabled'] [] True 1"


class Forgetting(KeptOutbox):
    """Keeps nothing: what grows is the hook's."""

    def put(self, item: tuple[Any, ...]) -> None:
        pass

    def put_event(self, *args: Any) -> None:
        pass


def _steps(run: Run, optimizer: Any, loss: Tensor, count: int) -> None:
    for k in range(count):
        torch.autograd.backward(loss, retain_graph=True)
        optimizer.step()
        run.log(extra=float(k))
        optimizer.zero_grad(set_to_none=False)


def test_memory_does_not_grow_with_steps() -> None:
    """Thousands of steps and logged values later the hook holds no more than after the first ones.

    What a step keeps would be 100 bytes at least; the allowance is a hundredth of that a step.
    """
    weight = nn.Parameter(torch.ones(()))
    optimizer = torch.optim.SGD([weight], lr=0.0)
    loss = weight * 2.0
    run = watch(Forgetting())
    _steps(run, optimizer, loss, 500)
    gc.collect()
    tracemalloc.start()
    try:
        _steps(run, optimizer, loss, 500)
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        _steps(run, optimizer, loss, 10_000)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
        run.finish()
    assert grown < 10_000


def test_an_event_of_a_failed_import_of_torch_harms_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A capture that cannot attach leaves a run that can still log."""
    monkeypatch.setattr("tocsin.capture.attach", _raise)
    net = model()
    with watched(patch=False) as (run, outbox):
        run.log(loss=1.0)
        net(next(batches(1))).sum().backward()
    assert outbox.series("loss") == [(0, 1.0)]
