"""On a real device: nothing waits, nothing enters a captured graph, values are those that ``.item()`` gives.

Skipped without a CUDA device. test_staging.py tests what needs none.
"""

from __future__ import annotations

import contextlib
import functools
import math
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from tests.hook.capture.test_layer_norms import Net, norms_of_event
from tests.hook.captured import KeptOutbox, watched
from tests.hook.entries import guarded
from tests.hook.ingest_server import IngestServer
from tests.hook.loops import LOOPS
from tests.hook.trainers import run_script
from tests.hook.truth import Truth
from tocsin.capture import staging
from tocsin.capture.staging import SLOTS
from tocsin.capture.weights import EVERY
from tocsin.protocol import Alert, Request
from tocsin.system.system_metrics import graphics

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device, and there is none here"),
]

CYCLES = 4_000_000_000
"""Of the device's clock: about two seconds of work in front of what is tested."""


def _model(width: int = 16) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)).cuda()


def _batch(step: int, width: int = 16) -> Tensor:
    numbers = torch.Generator().manual_seed(step)
    return torch.randn(8, width, generator=numbers).cuda()


class Loop:
    """One training on the device. The true values stay there until they are requested."""

    def __init__(self, *, scaled: bool = True, fused: bool = False, clips: bool = True) -> None:
        self.net = _model()
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=1e-3, fused=fused)
        self.scaler = torch.amp.GradScaler("cuda", init_scale=2.0**14, growth_interval=3, enabled=scaled)
        self.clips = clips
        self.losses: list[Tensor] = []
        self.norms: list[Tensor] = []

    def step(self, batch: Tensor) -> None:
        self.optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16, enabled=self.scaler.is_enabled()):
            loss = self.net(batch).float().pow(2).mean()
        self.losses.append(loss.detach().clone())
        self.scaler.scale(loss).backward()
        if self.clips:
            self.scaler.unscale_(self.optimizer)
            self.norms.append(clip_grad_norm_(self.net.parameters(), 1.0).detach().clone())
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def weights(self) -> list[Tensor]:
        return [param.detach().clone() for param in self.net.parameters()]


def _floats(values: list[Tensor]) -> list[float]:
    return [float(value.item()) for value in values]


def _series(outbox: KeptOutbox, name: str) -> list[float]:
    return [value for _, value in outbox.series(name)]


# --- no waiting


def _set_debug_mode(mode: int | str) -> None:
    """Set torch's debug mode without its warning, which as an error would leave the mode switched on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.cuda.set_sync_debug_mode(mode)


@contextlib.contextmanager
def _guarding(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """During any callback, make torch raise at every synchronization, which counts as an internal error."""

    def strict(plain: Callable[..., Any]) -> Callable[..., Any]:
        def callback(*args: Any, **kwargs: Any) -> Any:
            before = torch.cuda.get_sync_debug_mode()
            _set_debug_mode("error")
            try:
                return plain(*args, **kwargs)
            finally:
                _set_debug_mode(before)

        return callback

    with monkeypatch.context() as patch:
        for owner, name in guarded():
            patch.setattr(owner, name, strict(getattr(owner, name)))
        yield


@pytest.mark.parametrize("fused", [False, True])
def test_no_callback_synchronises(fused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Uses torch's debug mode around each callback only, because the scaler itself synchronizes."""
    loop = Loop(fused=fused)
    with _guarding(monkeypatch), watched() as (run, outbox):
        for step in range(40):
            loop.step(_batch(step))
            run.log(extra=loop.losses[-1], host=1.0)
            run.check(batch=_batch(step), losses={"part": loop.losses[-1]})
            run.evaluate(psnr=loop.losses[-1])
        torch.cuda.synchronize()
    assert _series(outbox, "extra") == _floats(loop.losses)


def test_the_host_continues_while_the_device_is_busy() -> None:
    """With two seconds of queued work, every callback returns while the device is still busy."""
    loop = Loop(scaled=False, fused=True)
    with watched() as (run, outbox):
        for step in range(4):  # memory, kernels and the ring buffer exist after these
            loop.step(_batch(step))
            run.log(extra=loop.losses[-1])
        batch = _batch(4)
        torch.cuda.synchronize()
        torch.cuda._sleep(CYCLES)
        loop.step(batch)
        run.log(extra=loop.losses[-1])
        run.check(batch=batch, losses={"part": loop.losses[-1]})
        run.evaluate(psnr=loop.losses[-1])
        assert not torch.cuda.current_stream().query(), "the host waited for the device"
        torch.cuda.synchronize()
    assert _series(outbox, "loss") == _floats(loop.losses)
    assert _series(outbox, "grad_norm") == pytest.approx(_floats(loop.norms))


@pytest.mark.filterwarnings("ignore:Warning. Profiler clears events:UserWarning")
def test_the_profiler_sees_no_waiting_call_in_a_callback(monkeypatch: pytest.MonkeyPatch) -> None:
    """After warm-up, none contains a synchronization, blocking copy or allocation of device memory."""
    loop = Loop(scaled=False, fused=True)

    def named(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
        def callback(*args: Any, **kwargs: Any) -> Any:
            with torch.profiler.record_function(f"tocsin:{name}"):
                return plain(*args, **kwargs)

        return callback

    with watched() as (_, outbox):
        for step in range(20):
            loop.step(_batch(step))
        torch.cuda.synchronize()
        for owner, name in guarded():
            monkeypatch.setattr(owner, name, named(name, getattr(owner, name)))
        activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=activities) as profile:
            for step in range(20):
                loop.step(_batch(step))
        monkeypatch.undo()
        torch.cuda.synchronize()
    events = list(profile.events() or [])
    ours = [one.time_range for one in events if one.name.startswith("tocsin:")]
    waiting = [one for one in events if one.name in WAITING]
    inside = [
        one.name for one in waiting if any(span.start <= one.time_range.start <= span.end for span in ours)
    ]
    assert ours
    assert inside == []
    assert len(outbox.series("loss")) == 40


WAITING = {
    *("cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize"),
    *("cudaMemcpy", "cudaMalloc", "cudaFree", "cudaHostAlloc"),
}


LAUNCHES = {
    "cudaLaunchKernel",
    "cudaLaunchKernelExC",
    "cuLaunchKernel",
    "cuLaunchKernelEx",
    "cudaMemcpyAsync",
}


@pytest.mark.filterwarnings("ignore:Warning. Profiler clears events:UserWarning")
@pytest.mark.parametrize(("scaled", "clips"), [(False, True), (False, False), (True, True)])
def test_a_usual_step_launches_half_a_kernel_at_most(
    scaled: bool, clips: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Launches and copies as the profiler counts them, less those of the same steps without a watch."""
    steps, counts = 128, []
    monkeypatch.setattr(staging, "GATHERED_S", 3600.0)  # the profiler makes steps slow
    for watching in (False, True):
        loop = Loop(scaled=scaled, clips=clips, fused=True)
        with watched() if watching else contextlib.nullcontext((None, None)):
            for step in range(128):  # values are copied until they are trusted
                loop.step(_batch(step))
            torch.cuda.synchronize()
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
                for step in range(steps):
                    loop.step(_batch(step))
            torch.cuda.synchronize()
        counts.append(sum(one.name in LAUNCHES for one in profile.events() or []))
    assert counts[0] > steps
    assert counts[1] - counts[0] <= 0.5 * steps


def test_values_that_the_script_changes_are_absent_or_right() -> None:
    """A loss that is scaled in place after its step, from one step on: no recorded value is another one."""
    truth: dict[int, float] = {}
    with watched() as (run, outbox):
        for k in range(400):
            loss = torch.full((), float(k), device="cuda") * 2
            run.step(loss=loss)
            truth[k] = 2.0 * k
            if k > 200:
                loss.mul_(-1)
        torch.cuda.synchronize()
    recorded = dict(outbox.series("loss"))
    assert recorded == {step: truth[step] for step in recorded}
    assert len(recorded) >= 399


# --- graphs


def test_a_capture_succeeds_with_records_on_their_way() -> None:
    """A hundred captures in the strictest mode, while slots wait and the hook is attached."""
    loop = Loop(scaled=False, fused=True)
    static = torch.ones(4, device="cuda")
    with watched() as (run, outbox):
        for k in range(100):
            loop.step(_batch(k))
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, capture_error_mode="global"):
                out = static * 2
                run.log(inside=out.sum())  # nothing in a capture is a value
                run.check(batch=out)
            graph.replay()
        torch.cuda.synchronize()
    assert len(outbox.series("loss")) == 100
    assert not outbox.series("inside")
    assert not outbox.series("nonfinite/batch")


def test_the_script_reports_a_captured_step() -> None:
    """Capture records nothing; each replay is one ``run.step`` with the static loss."""
    net = _model()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, capturable=True)
    static = _batch(0)

    def step() -> Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss: Tensor = net(static).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss

    truth: list[Tensor] = []
    with watched() as (run, outbox):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(side)
        optimizer.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            loss = step()
        for k in range(20):
            static.copy_(_batch(k))
            graph.replay()
            truth.append(loss.detach().clone())
            run.step(loss=loss)
        torch.cuda.synchronize()
    reported = outbox.series("loss")
    assert [step for step, _ in reported] == list(range(23))
    assert [value for _, value in reported[3:]] == _floats(truth)


@pytest.mark.filterwarnings("ignore:The AccumulateGrad node's stream does not match:UserWarning")
def test_graphed_callables_train_and_report() -> None:
    """``make_graphed_callables``: forward and backward are graphs, the step is not, and everything is
    recorded."""
    net = _model()
    graphed: Any = torch.cuda.make_graphed_callables(net, (_batch(0),))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    truth: list[Tensor] = []
    with watched() as (_, outbox):
        for k in range(20):
            optimizer.zero_grad()
            loss = graphed(_batch(k)).pow(2).mean()
            truth.append(loss.detach().clone())
            loss.backward()
            optimizer.step()
        torch.cuda.synchronize()
    assert _series(outbox, "loss") == _floats(truth)


@pytest.mark.filterwarnings("ignore")  # of the compiler: imports, TF32, empty graphs
def test_reduced_overhead_trains_and_reports() -> None:
    """``mode="reduce-overhead"``: graphs of the compiler, whose outputs the next step overwrites."""
    torch._dynamo.reset()
    net = _model()
    compiled: Any = torch.compile(net, mode="reduce-overhead")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    truth: list[Tensor] = []
    with watched() as (_, outbox):
        for k in range(12):
            torch.compiler.cudagraph_mark_step_begin()
            optimizer.zero_grad()
            loss = compiled(_batch(k)).pow(2).mean()
            truth.append(loss.detach().clone())
            loss.backward()
            optimizer.step()
        torch.cuda.synchronize()
    assert _series(outbox, "loss") == _floats(truth)


# --- truth


@pytest.mark.timeout(600)
def test_ten_thousand_values_are_those_of_item() -> None:
    """In ten thousand steps the ring buffer wraps around many times while the allocator is stressed."""
    steps = 10_000
    assert steps > 9 * SLOTS
    values: list[Tensor] = []
    numbers = torch.Generator(device="cuda").manual_seed(1)
    with watched() as (run, outbox):
        for k in range(steps):
            value = torch.randn((), device="cuda", generator=numbers)
            values.append(value.clone())
            run.step(loss=value, other=value * 3)
            value.fill_(math.nan)  # later changes must not affect what was logged
            del value
            scratch = [torch.empty(1 + 97 * (k % 13), device="cuda") for _ in range(3)]
            del scratch
            if k % 256 == 255:
                torch.cuda.synchronize()
        torch.cuda.synchronize()
        assert run._reporter.waiting()[1] == 0
    assert _series(outbox, "loss") == torch.stack(values).tolist()
    assert _series(outbox, "other") == (torch.stack(values) * 3).tolist()


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("clips", [False, True])
def test_records_equal_what_the_loop_measured(fused: bool, clips: bool) -> None:
    """Loss, norm, scale and skips of float16 training with overflows, compared with the device's values."""
    loop = Loop(fused=fused, clips=clips)
    scales, skipped = [], []
    with watched() as (_, outbox):
        for step in range(40):
            scales.append(loop.scaler.get_scale())
            loop.step(_batch(step) * (3e4 if step in (9, 10, 11, 30) else 1.0))
            skipped.append(float(loop.scaler.get_scale() < scales[-1]))
        torch.cuda.synchronize()
    assert _series(outbox, "loss") == pytest.approx(_floats(loop.losses), nan_ok=True)
    assert _series(outbox, "scale") == scales
    assert _series(outbox, "skipped") == skipped
    if clips:
        assert _series(outbox, "grad_norm") == pytest.approx(_floats(loop.norms), nan_ok=True)


@pytest.mark.parametrize("fused", [False, True])
def test_weights_are_bit_identical(fused: bool) -> None:
    """A watched training on the device ends with the same bits as an unwatched one."""
    ends = []
    for watching in (False, True):
        loop = Loop(fused=fused)
        with watched() if watching else contextlib.nullcontext((None, None)):
            for step in range(60):
                loop.step(_batch(step) * (3e4 if step == 9 else 1.0))
        ends.append(loop.weights())
    assert all(torch.equal(one, other) for one, other in zip(*ends, strict=True))


@functools.cache
def _styled(style: str) -> tuple[Truth, KeptOutbox, nn.Module]:
    """Run a loop of the matrix on the device under a watch."""
    truth = Truth()
    with watched() as (_, outbox), torch.device("cuda"):
        net = LOOPS[style](truth)
        torch.cuda.synchronize()
    return truth, outbox, net


@pytest.mark.parametrize("style", LOOPS)
def test_every_loop_style_tells_what_it_measured(style: str) -> None:
    """The ground-truth matrix of test_ledger.py, with all tensors on the device."""
    truth, outbox, net = _styled(style)
    assert {param.device.type for param in net.parameters()} == {"cuda"}
    assert len(outbox.records) == len(truth.rows)
    for reported, true in zip(outbox.records, truth.rows, strict=True):
        reported = {name: value for name, value in reported.items() if not name.startswith("step_time")}
        assert reported == pytest.approx(true, rel=2e-5, nan_ok=True)
    changes = [(one["step"], one["from"], one["to"]) for one in outbox.events("scaler")]
    assert changes == truth.changes


@pytest.mark.parametrize("style", LOOPS)
def test_every_loop_style_ends_with_the_same_bits(style: str) -> None:
    """The weights are those of the unwatched loop, on the device."""
    with torch.device("cuda"):
        unwatched = LOOPS[style](Truth())
    for one, other in zip(unwatched.parameters(), _styled(style)[2].parameters(), strict=True):
        assert torch.equal(one, other) or (one.isnan().any() and other.isnan().any())


def test_another_default_device_changes_nothing() -> None:
    """``torch.set_default_device("cuda")``: the ring buffer is in host memory all the same."""
    with torch.device("cuda"), watched() as (run, outbox):
        for k in range(3):
            run.step(loss=torch.full((), float(k)))
        torch.cuda.synchronize()
    assert _series(outbox, "loss") == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("clip", [True, False])
def test_a_skipped_step_tells_its_layers(clip: bool) -> None:
    """The gradient becomes infinite between two layers; the layers that it reaches are named."""
    net = Net().cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0**10)
    with watched(model=net) as (_, outbox):
        for step in range(8):
            net.spoil = (lambda grad: grad / 0) if step == 5 else None
            scaler.scale(net(torch.ones(3, 4, device="cuda")).pow(2).mean()).backward()
            if clip:
                scaler.unscale_(optimizer)
                clip_grad_norm_(net.parameters(), 1e9)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        torch.cuda.synchronize()
    (reported,) = [one for one in outbox.events("layers") if one["step"] == 5]
    assert [math.isfinite(norm) for norm in norms_of_event(reported)] == [False, False, True, True]


def test_a_weight_that_is_not_finite_is_found() -> None:
    """The check of the weights gives a scalar on the device, which is sent with the next record."""
    net = _model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    with watched() as (run, outbox):
        for k in range(EVERY + 2):
            run._ledger.weights._every = EVERY  # the tiny model's check would take longer than its training
            if k == 5:
                with torch.no_grad():
                    next(net.parameters())[0, 0] = math.nan
            optimizer.zero_grad()
            net(_batch(k)).sum().backward()
            optimizer.step()
        torch.cuda.synchronize()
    assert [value for _, value in outbox.series("nonfinite/weights")] == [1.0]


def test_a_fused_optimizer_continues_its_count() -> None:
    """It counts on the device: the count is read when the state is loaded, never in a step."""
    first, resumed = Loop(fused=True, scaled=False), Loop(fused=True, scaled=False)
    for step in range(3):
        first.step(_batch(step))
    with watched() as (_, outbox):
        resumed.optimizer.load_state_dict(first.optimizer.state_dict())
        resumed.step(_batch(3))
        torch.cuda.synchronize()
    assert [step for step, _ in outbox.series("loss")] == [3]


# --- messages of the server, and the end


def test_alerts_and_requests_are_handled_between_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the training thread at the end of a step, without a synchronization of the device."""
    loop, received = Loop(), list[str]()
    with _guarding(monkeypatch), watched(actions="checkpoint") as (run, outbox):
        run.on_alert(lambda alert: received.append(f"{alert.rule} {run.current_step}"))
        run.on_request("checkpoint")(lambda request: received.append(f"{request.action} {run.current_step}"))
        for step in range(4):
            loop.step(_batch(step))
        run._reporter.queue_message(Alert("a", "nonfinite-loss", "critical", "firing", "loss is NaN", 3))
        run._reporter.queue_message(Request("q", "checkpoint", "nonfinite-loss", "a"))
        assert received == []
        loop.step(_batch(4))
        torch.cuda.synchronize()
    assert sorted(received) == ["checkpoint 4", "nonfinite-loss 4"]
    assert [one["outcome"] for one in outbox.events("action")] == ["done"]


def test_out_of_memory_ends_the_run_as_failed(server: IngestServer, spool: Path) -> None:
    """A real one: the run fails with its type and message, and every earlier step has arrived."""
    body = "import torch\nrun = watch(patch=True)\ntrain(run, 50)\ntorch.empty(1 << 50, device='cuda')\n"
    status, script = run_script(body, server.url, spool)
    assert status == 1, script.complaints
    finish = server.only.finish
    assert finish is not None
    assert (finish.state, finish.error["type"]) == ("failed", "OutOfMemoryError")
    assert "CUDA out of memory" in finish.error["message"]
    assert server.only.steps == list(range(50))


def test_the_driver_tells_of_the_gpu() -> None:
    """Every value that NVML gives is plausible, with a context or without."""
    pytest.importorskip("pynvml")
    source = graphics({})
    assert source is not None
    values, _ = source.read()
    names = {"util_percent", "memory_gib", "temperature_c", "power_w", "sm_clock_mhz", "throttled"}
    assert {f"sys/gpu0/{name}" for name in names} | {"gpu_util"} <= set(values)
    assert 10 < values["sys/gpu0/temperature_c"] < 110
    assert 20 < values["sys/gpu0/power_w"] < 2000
    assert 0 <= values["gpu_util"] <= 100


def test_steps_inside_a_backward_are_one_step() -> None:
    """An optimizer for each parameter, stepped from autograd's threads: one record for each backward."""
    net = _model()
    optimizers = {param: torch.optim.SGD([param], lr=0.1) for param in net.parameters()}

    def step(param: Any) -> None:
        optimizers[param].step()
        optimizers[param].zero_grad()

    truth: list[Tensor] = []
    for param in net.parameters():
        param.register_post_accumulate_grad_hook(step)
    with watched() as (_, outbox):
        for k in range(20):
            loss = net(_batch(k)).pow(2).mean()
            truth.append(loss.detach().clone())
            loss.backward()
        torch.cuda.synchronize()
    assert _series(outbox, "loss") == _floats(truth)
    assert len(outbox.records) == 20


# --- several devices


@pytest.mark.skipif(
    torch.cuda.is_available() and torch.cuda.device_count() < 2, reason="needs two CUDA devices"
)
def test_training_on_the_second_device_leaves_the_first_alone() -> None:
    """No context and no memory on device 0, and the values are correct."""
    device = torch.device("cuda", 1)
    before = torch.cuda.memory_reserved(0)
    with watched() as (run, outbox):
        values = [torch.full((), float(k), device=device) for k in range(50)]
        for value in values:
            run.step(loss=value)
        torch.cuda.synchronize(device)
    assert _series(outbox, "loss") == [float(k) for k in range(50)]
    assert torch.cuda.memory_reserved(0) == before


@pytest.mark.skipif(
    torch.cuda.is_available() and torch.cuda.device_count() < 2, reason="needs two CUDA devices"
)
def test_values_of_two_devices_ride_in_one_record() -> None:
    """Each device's values are copied on its own stream, and the record waits for both."""
    with watched() as (run, outbox):
        for k in range(50):
            run.step(loss=torch.full((), float(k), device="cuda:0"), other=torch.ones((), device="cuda:1"))
        torch.cuda.synchronize(0)
        torch.cuda.synchronize(1)
    assert _series(outbox, "loss") == [float(k) for k in range(50)]
    assert _series(outbox, "other") == [1.0] * 50
