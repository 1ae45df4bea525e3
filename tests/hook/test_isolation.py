"""Whatever fails in the hook, the training continues with identical bits; memory does not grow."""

from __future__ import annotations

import functools
import gc
import logging
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tocsin
import tocsin.api.no_run
from tests.hook.callbacks import broken, callbacks
from tests.hook.captured import KeptOutbox, watch, watched
from tests.hook.ingest_server import IngestServer, wait_until
from tests.hook.isolation_cases import LOOPS, train
from tests.hook.truth import batches, model
from tests.matrix import ALL, LONG
from tocsin.api.reporter import ERROR_LIMIT
from tocsin.api.run import Run
from tocsin.capture import patching
from tocsin.capture.ledger import Ledger

CALLBACKS = callbacks()

ELSEWHERE = {
    "needs 1,000 names in a call: api/test_run.py": ("run.Run._bounded",),
    "needs a real sender: test_console.py": ("reporter.RunReporter.record_console",),
    "needs a notebook: notebook/test_jupyter.py": (
        *("run.Run._facts", "run.Run._ipython_display_", "run.Run._is_in_shell"),
        *("reporter.RunReporter.is_resting", "reporter.RunReporter.rest", "reporter.RunReporter.wake"),
        "reporter.RunReporter.records",
    ),
    "needs a device: test_staging.py, test_cuda.py": (
        *("staging.Staging.*", "reading._Here.*", "reading._copied", "reading._read_tensor"),
        *("reading._asked", "staging._check", "staging._groups", "staging._intact", "reading._keep"),
        *("reading._kept", "reading._must_copy", "staging._own", "reading._place", "staging._settled"),
        *(
            "reading._raw_stream",
            "reading._source",
            "reading.hold",
            "reading.is_on_device",
            "reading.own_copy",
        ),
        *("device_values.*", "device_scale.*", "scaler._is_positive"),
        *(
            "reading.before_replay",
            "reading.before_write",
            "silent_writes._watch_*",
            "staging._with_memory",
            "reading.has_memory",
        ),
        *("reading.current_stream", "reading.on_stream", "reporter.RunReporter.last_scale"),
        *(
            "reading._warn_unread",
            "staging._without",
            "staging.new_*",
            "reading.new_*",
            "reading.forget_copied",
            "reading.on_device",
            "ledger._on_device",
        ),
        *(
            "layer_norms.LayerNorms._await",
            "layer_norms.LayerNorms._poll",
            "layer_norms.LayerNorms._slot",
            "layer_norms.LayerNorms._stage",
        ),
        *("layer_norms.LayerNorms.arrived", "layer_norms.LayerNorms.drain"),
        *(
            "reporter.RunReporter._arrived",
            "reporter.RunReporter._begin_staging",
            "reporter.RunReporter._compare_scale",
        ),
        *("fsdp.is_whole", "reading.differ_later"),
    ),
    "while a module is imported, or in a forked child": (
        *(
            "compiler.Traced.__init__",
            "scaler._HostScale.__init__",
            "compiler._*",
            "backward_steps._Depth.__init__",
            "overhead._forget",
            "patching._silence_in_child",
        ),
        "scalars._learn_torch",
    ),
    "reached by one optimizer alone: the test below": ("ledger.Ledger.after_one",),
    "under torch before 2.2: test_step_hooks.py": (
        *("step_hooks._hooked", "step_hooks._watch_patch", "step_hooks.put_back"),
    ),
    "under torch before 2.6": (
        *("gradients._watch_public_clip", "gradients.install_public", "gradients._look_before_clip"),
    ),
    "the same: test_patching.py": ("patching._relay", "patching._replace_code", "patching.replace_within"),
    "on the sender's thread": ("encoding._known", "encoding.packed", "encoding.sendable"),
    "beyond 4096 micro-steps, or a compiled clip": (
        "optimizer_tracker.fold",
        "ledger.Ledger._clip_is_compiled",
    ),
    "many parameters, nested values, a slow backoff, a slow norm": (
        *(
            "layer_names._placed",
            "values.within",
            "scalers.steps_down",
            "overhead.rarer",
            "autograd_graph.GraphSummary.whole",
        ),
        *("server_requests.ServerRequests._arm", "discovery._scheduler"),
    ),
    "torch is imported after the watch: test_startup.py": ("reporter.RunReporter.has_started",),
    "an optimizer of several models: test_optimizer_names.py": ("optimizer_names._common",),
    "a primary that is no optimizer: test_optimizer_names.py": ("naming.OptimizerNaming._find_requested",),
    "with DeepSpeed: test_gradients.py and real_trainers/test_deepspeed.py": (
        *("gradients._outer_of", "gradients.vars_of", "zero_steps._*"),
    ),
    "written where a sender runs: test_console.py": (
        *("run.Run._write_end", "reporter.RunReporter.steps", "values.counted"),
    ),
    "with a process group: test_child_processes.py": ("process_group._has_gloo",),
    "other ways to save: capture/test_checkpoints.py and real_trainers/test_checkpoints.py": (
        *("checkpoints._accelerate_*", "checkpoints._deepspeed", "checkpoints._distributed"),
        *("checkpoints._lightning", "checkpoints._pretrained", "checkpoints._safetensors"),
        *("checkpoints._trainer", "checkpoints._install", "checkpoints._watch_async"),
        *("patching.install_late", "reporter.RunReporter.add_event_later"),
    ),
    "explicit steps without an optimizer: test_run.py": ("step_count.StepCount.count_from",),
    "the script asks when it saves a checkpoint: test_run.py": ("step_count.StepCount.following",),
    "a finding at the tenth step: test_stages.py": ("findings.Report._answer",),
    "with the compiled module: test_compiled_log.py": ("run.Run._compiled_log",),
    "where the hook is off": ("reporter._nothing", "reporter.RunReporter.switch_off"),
}
"""Why the loops of ``isolation_cases.py`` do not get there."""
NOT_HERE = [pattern for patterns in ELSEWHERE.values() for pattern in patterns]
HERE = [name for name in CALLBACKS if not any(fnmatch(name, f"*{pattern}") for pattern in NOT_HERE)]


def _begun() -> Any:
    gc.collect()
    return watch(grad_norm=2, actions={"checkpoint", "wrong"})


@functools.cache
def _unwatched(loop: str) -> list[Tensor]:
    """Return the weights of the same training without a run."""
    return train(loop, tocsin.api.no_run.NoRun())


def _called(work: Callable[[], Any]) -> set[str]:
    """Return which of CALLBACKS run during ``work``."""
    codes = {function.__code__: name for name, function in CALLBACKS.items()}
    seen: set[str] = set()

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code in codes:
            seen.add(codes[frame.f_code])

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return seen


@functools.cache
def _reaching() -> dict[str, str]:
    """Return the first loop that reaches each callback, or ``begin`` if only a watch does."""
    found: dict[str, str] = {}
    for loop in LOOPS:
        run = _begun()
        for name in _called(functools.partial(_trained, loop, run)):
            found.setdefault(name, loop)
    for name in _called(lambda: _begun().finish()):
        found.setdefault(name, "begin")
    return found


@pytest.fixture
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Hide the hook's warnings, which are intended here."""
    caplog.set_level(logging.CRITICAL, logger="tocsin")


@pytest.fixture
def _left() -> Iterator[None]:
    """Restore everything, because the code that does so may have been broken."""
    yield
    for ledger in patching.attached:
        patching.detach(ledger)


@pytest.fixture(scope="module")
def _only_ours() -> None:
    """Hide the live optimizers of other tests from the search, so that the result does not depend on
    them."""
    gc.collect()
    gc.freeze()  # permanently, because every later watch of this process would search unfrozen objects again


def _trained(loop: str, run: Any) -> list[Tensor]:
    seen = train(loop, run)
    run.finish()
    return seen


@pytest.mark.usefixtures("_quiet", "_left", "_only_ours")
def test_every_callback_is_reached_by_a_training() -> None:
    """For a new one, add a loop to isolation_cases.py, or say in ELSEWHERE why not."""
    assert [name for name in HERE if name not in _reaching()] == []


@pytest.mark.filterwarnings("ignore:tocsin", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.usefixtures("_quiet", "_left", "_only_ours")
@pytest.mark.parametrize("name", HERE if ALL else HERE[::4])
def test_an_error_in_any_callback_never_reaches_training(name: str) -> None:
    """Each function found in the code raises during a training, and no bit changes."""
    loop = _reaching()[name]
    with ExitStack() as stack:
        if loop == "begin":
            calls, run = stack.enter_context(broken(CALLBACKS[name])), _begin()
        else:
            run, calls = _begun(), stack.enter_context(broken(CALLBACKS[name]))
        loop = "plain" if loop == "begin" else loop
        seen = _trained(loop, run)
    assert calls
    assert all(torch.equal(one, other) for one, other in zip(_unwatched(loop), seen, strict=True))


@pytest.mark.usefixtures("_quiet", "_left", "_only_ours")
def test_an_error_behind_the_only_optimizers_backward_stays_inside() -> None:
    """The common case has a separate callback, used if there is only one optimizer."""
    run = _begun()
    with broken(CALLBACKS["capture.ledger.Ledger.after_one"]) as calls:
        seen = _trained("long", run)
    assert calls
    assert all(torch.equal(one, other) for one, other in zip(_unwatched("long"), seen, strict=True))


def _begin() -> Any:
    """Return a run, or its stand-in if it cannot start."""
    try:
        return _begun()
    except AssertionError:
        return tocsin.api.no_run.NoRun()


def test_every_entry_of_elsewhere_exists() -> None:
    """Every entry of ELSEWHERE names an existing function, and the search finds the known functions."""
    for pattern in NOT_HERE:
        assert any(fnmatch(name, f"*{pattern}") for name in CALLBACKS), pattern
    assert {"capture.ledger.Ledger.record", "capture.optimizer._enter", "api.run.Run._handle"} <= set(HERE)


def test_after_twenty_errors_the_server_knows_that_the_hook_is_off(
    server: IngestServer, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hook reports why it was disabled, and the training continues."""
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


class Forgetting(KeptOutbox):
    """Outbox that keeps nothing, so that any growth is the hook's."""

    def put(self, item: tuple[Any, ...], may_wait: bool = False) -> None:
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
    """After thousands of steps and logged values, the hook uses no more memory than after the first ones.

    Whatever is kept for each step would be 100 bytes at least; a twentieth of that is allowed.
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
        _steps(run, optimizer, loss, 4_000)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
        run.finish()
    assert grown < 20_000


@LONG
def test_memory_does_not_grow_where_the_script_reports_its_steps() -> None:
    """Twenty-five thousand ``run.step`` calls leave nothing behind, not even the graph of a tensor."""
    weight = nn.Parameter(torch.ones(()))
    run = watch(Forgetting(), patch=False)
    _reports(run, weight, 2_000)
    gc.collect()
    tracemalloc.start()
    try:
        _reports(run, weight, 2_000)
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        _reports(run, weight, 25_000)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
        run.finish()
    assert grown < 10_000


def _reports(run: Run, weight: Tensor, count: int) -> None:
    for k in range(count):
        run.step(loss=float(k) if k % 100 else weight * 2.0, host=1.0)


def test_an_event_of_a_failed_import_of_torch_harms_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """If capture cannot attach, the run can still log."""
    monkeypatch.setattr("tocsin.capture.attach", _raise)
    net = model()
    with watched(patch=False) as (run, outbox):
        run.log(loss=1.0)
        net(next(batches(1))).sum().backward()
    assert outbox.series("loss") == [(0, 1.0)]
