"""Values reach the host without waiting for a device, and without keeping a graph alive."""

from __future__ import annotations

import contextlib
import gc
import math
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.utils import clip_grad_norm_
from torch.utils._python_dispatch import TorchDispatchMode

from tests.hook.captured import watch, watched
from tocsin.capture import data_loading, gradients, loss, optimizer, reading, scaler, staging, weights
from tocsin.capture.ledger import Ledger
from tocsin.capture.reading import read
from tocsin.capture.staging import BATCH, GATHERED_S, SLOTS, WIDTH, Staging, new_ring

WAITING = ("_local_scalar_dense", "nonzero", "equal", "is_nonzero")


class NoSync(TorchDispatchMode):
    """Raises on every operation that would make the host wait for a device."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.removeprefix("aten::")
        if name in WAITING:
            raise AssertionError(f"{name} waits for the device")
        if name in ("_to_copy", "copy_") and self._leaves_device(name, args, kwargs):
            waits = not (kwargs.get("non_blocking") or (len(args) > 2 and args[2]))
            assert not waits, f"{name} from the device to the host waits"
        return func(*args, **kwargs)

    def _leaves_device(self, name: str, args: Any, kwargs: Any) -> bool:
        source, target = (args[1], args[0].device) if name == "copy_" else (args[0], kwargs.get("device"))
        return bool(source.is_cuda and target is not None and torch.device(target).type == "cpu")


class DeviceScaler:
    """A scaler whose state is on the device, without the engine."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self._enabled, self._scale = True, _scalar()
        self._per_optimizer_states = {id(optimizer): {"found_inf_per_device": {"cuda": _scalar()}}}


class Event:
    """A device event that the test triggers."""

    happened = False

    def record(self) -> None:
        pass

    def query(self) -> bool:
        return self.happened

    def synchronize(self) -> None:
        self.happened = True


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch, events: list[Event]) -> Iterator[None]:
    """A fake CUDA device: its tensors have no values, and waiting for it raises."""

    def record() -> Event:
        events.append(Event())
        return events[-1]

    monkeypatch.setattr(reading, "_new_event", record)
    monkeypatch.setattr(staging, "new_ring", lambda pinned: new_ring(pinned=False))
    monkeypatch.setattr(staging, "new_vectors", lambda count, length: torch.empty(count, length))
    gc.collect()  # the watch would find optimizers of earlier tests, and read their step counts
    with torch.no_grad(), FakeTensorMode(), NoSync():  # type: ignore[no-untyped-call]
        yield


def _scalar(dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.empty((), dtype=dtype, device="cuda")


def _on_device() -> tuple[torch.optim.Optimizer, list[torch.nn.Parameter]]:
    params = [torch.nn.Parameter(torch.empty(3, device="cuda"), requires_grad=False) for _ in range(4)]
    return torch.optim.SGD(params, lr=0.1), params


def _backward(tensor: Tensor, params: list[torch.nn.Parameter]) -> None:
    """Do what the wrapped backward does around the engine, which cannot run without a device."""
    found, seen = loss._before((tensor,), {})
    for param in params:
        param.grad = torch.empty_like(param)
    loss._after(found, seen, begun=0)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("fused", [False, True])
def test_no_callback_waits_for_the_device(fused: bool, events: list[Event]) -> None:
    """Loss, norm, clip, scale, skip, step, log and check of device tensors run without a synchronization."""
    each, params = _on_device()
    one = DeviceScaler(each)
    each._step_supports_amp_scaling = fused  # type: ignore[attr-defined]
    with watched() as (run, outbox):
        for _ in range(2):
            out = scaler._watch_scale(lambda self, value: value * self._scale)(one, _scalar(torch.float16))
            _backward(out, params)
            gradients._clipped(params, 1.0, _scalar())
            scaler._watch_unscale(lambda self, optimizer: None)(one, each)
            scaler._watch_step(lambda self, optimizer: None)(one, each)
            scaler._watch_update(lambda self: None)(one)
            _backward(_scalar(), params)
            each.param_groups[0]["lr"] = _scalar()
            optimizer._before_step(each, (each,), {})
            optimizer._after_step(each, (each,), {})
            optimizer._zeroed(run._ledger, each)
            gradients.own_norm(run._ledger, next(iter(run._ledger.trackers.values())), each, None)
            run.log(extra=_scalar(torch.bfloat16), plain=1.0)
            run.check(batch=[torch.empty(3, device="cuda")], losses={"fft": _scalar()})
            run.evaluate(psnr=_scalar())
        assert run._reporter.errors == 0
        assert len(run._reporter._staging) > 8
        assert events
        assert not outbox.items
        run._reporter._staging = None  # nothing ever arrives from a fake device


@pytest.mark.usefixtures("device")
def test_waiting_for_data_does_not_wait_for_the_device() -> None:
    """Batches on a device pass the DataLoader's patch unread, also named ones."""
    each, params = _on_device()
    with watched() as (run, _):
        next_batch = data_loading._watch_next(lambda self: torch.empty(3, device="cuda"))
        for _ in range(3):
            run.batch(next_batch(None))
            _backward(_scalar(), params)
            optimizer._before_step(each, (each,), {})
            optimizer._after_step(each, (each,), {})
        assert run._ledger.loads
        assert run._reporter.errors == 0
        run._reporter._staging = None


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("where", ["record", "after_backward", "after_one", "clipped", "tracker"])
def test_an_error_on_the_way_does_not_wait_either(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception with device tensors is counted and reported without reading any of them."""

    def fail(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("injected", _scalar())

    each, params = _on_device()
    run = watch()
    monkeypatch.setattr(Ledger, where, fail)
    for _ in range(2):
        with contextlib.suppress(RuntimeError):  # the guards are around these, in the wrappers
            _backward(_scalar(), params)
        with contextlib.suppress(RuntimeError):
            gradients._clipped(params, 1.0, _scalar())
        optimizer._before_step(each, (each,), {})
        optimizer._after_step(each, (each,), {})
    run._reporter.report_error("a value", ValueError(_scalar()))
    assert run._reporter.errors > 0
    run._reporter._staging = None
    monkeypatch.undo()
    run.finish()


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize(
    "wait",
    [
        lambda value: value.item(),
        lambda value: value.cpu(),
        lambda value: bool(value),
        lambda value: f"{value.tolist()}",
    ],
)
def test_the_dispatch_mode_sees_a_wait(wait: Any) -> None:
    """The dispatch mode of these tests detects what makes the host wait."""
    with pytest.raises(Exception, match=r"wait|data-dependent|item"):
        wait(_scalar())


class Road:
    """A queue whose device is host memory: the test triggers events and advances time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.events: list[Event] = []
        self.arrived: list[tuple[Any, ...]] = []
        ring = torch.zeros(SLOTS, WIDTH)
        self.queue = Staging(self._arrive, ring=ring, event=self._event, clock=lambda: self.now)

    def _arrive(self, item: tuple[Any, ...], note: Any) -> None:
        self.arrived.append(item)

    def _event(self) -> Event:
        self.events.append(Event())
        return self.events[-1]

    def put(self, step: int) -> None:
        self.queue.put((step, 0, ("lr", "loss"), 0.5, torch.tensor(float(step))))

    def steps(self) -> list[int]:
        return [item[0] for item in self.arrived]


@pytest.fixture
def road(monkeypatch: pytest.MonkeyPatch) -> Road:
    monkeypatch.setattr(reading, "_initialized", lambda: False)
    return Road()


def test_records_arrive_in_order_with_their_values(road: Road) -> None:
    """Slots are checked oldest first; one that is not ready blocks later ones."""
    for step in range(3):
        road.put(step)
        road.now += 2 * GATHERED_S
    road.events[1].happened = True
    road.queue.poll()
    assert road.arrived == []
    road.events[0].happened = True
    road.queue.poll()
    assert road.arrived == [(step, 0, ("lr", "loss"), 0.5, float(step)) for step in (0, 1)]


def test_quick_steps_share_a_copy_and_slow_ones_go_at_once(road: Road) -> None:
    """A copy, an event and a look at it cost as much as the step of a small model."""
    road.put(0)
    assert len(road.events) == 1, "nothing was copied a moment before: it goes at once"
    for step in range(1, BATCH + 1):
        road.put(step)
    assert len(road.events) == 2
    for step in range(BATCH + 1, BATCH + 6):
        road.now += 2 * GATHERED_S
        road.put(step)
    assert (len(road.events), len(road.queue)) == (7, BATCH + 6)
    for event in road.events:
        event.happened = True
    road.queue.poll()
    assert road.steps() == list(range(BATCH + 6))
    assert [item[4] for item in road.arrived] == [float(step) for step in range(BATCH + 6)]


def test_an_event_that_happened_is_used_again(road: Road) -> None:
    """Making one costs more than recording it."""
    for step in range(20):
        road.put(step)
        road.now += 2 * GATHERED_S
        for event in road.events:
            event.happened = True
        road.queue.poll()
    assert (len(road.events), road.steps()) == (1, list(range(20)))


def test_values_of_another_stream_go_apart(road: Road, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy has to run after the computation of its values, so each stream's values are copied on that
    stream."""
    current, used = [0], list[int]()

    def on_stream(device: torch.device, stream: int) -> Any:
        used.append(stream)
        return contextlib.nullcontext()

    monkeypatch.setattr(reading, "current_stream", lambda device: current[0])
    monkeypatch.setattr(reading, "on_stream", on_stream)
    for step, stream in enumerate((7, 7, 7, 8, 7)):
        current[0] = stream
        road.put(step)
    road.queue.drain(0.0)
    assert used == [7, 7, 8]
    assert (road.queue.dropped, road.steps()) == (5, list(range(5)))


def test_nothing_is_copied_while_a_graph_is_captured(road: Road, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of host values wait behind those gathered before: a copy now would be part of the graph."""
    road.put(0)
    road.put(1)
    monkeypatch.setattr(reading, "capturing", lambda: True)
    for step in range(2 * BATCH):
        road.queue.put((step, 0, ("lr",), 0.1))
    assert (len(road.events), len(road.queue)) == (1, 2 + 2 * BATCH)
    monkeypatch.setattr(reading, "capturing", lambda: False)
    road.queue.put((99, 0, ("lr",), 0.1))
    assert len(road.events) == 2


@pytest.mark.usefixtures("device")
def test_a_full_ring_buffer_drops_the_values_and_counts_them(events: list[Event]) -> None:
    """With every slot waiting, a record's device values are dropped, its host values stay."""
    delivered: list[tuple[Any, ...]] = []
    queue = Staging(lambda item, note: delivered.append(item))
    for step in range(SLOTS + 2):
        queue.put((step, 0, ("loss", "lr"), _scalar(), 0.1))
    queue.put((0, 0, tuple(map(str, range(WIDTH + 1))), *[_scalar()] * (WIDTH + 1)))
    assert queue.dropped == 3
    assert delivered == [(SLOTS, 0, ("lr",), 0.1), (SLOTS + 1, 0, ("lr",), 0.1), (0, 0, ())]
    assert len(queue) == SLOTS


def test_the_ring_buffer_is_host_memory_whatever_the_default_device_is() -> None:
    """Scripts call ``torch.set_default_device``."""
    with torch.device("meta"):
        assert {new_ring(pinned=False).device.type, torch.empty(()).device.type} == {"cpu", "meta"}


def test_host_values_pass_the_queue_unchanged() -> None:
    """A record without device values keeps its place and its values, non-finite ones too."""
    arrived: list[tuple[Any, ...]] = []
    queue = Staging(lambda item, note: arrived.append(item))
    queue.put((0, 5, ("a", "b"), math.inf, -0.0))
    queue.drain()
    assert arrived == [(0, 5, ("a", "b"), math.inf, -0.0)]


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.bool]
)
def test_host_tensors_are_read_at_once(dtype: torch.dtype) -> None:
    """A host tensor's value is a float that later writes do not change."""
    tensor = torch.ones((), dtype=dtype)
    value = read(tensor)
    tensor.zero_()
    assert value == 1.0
    assert type(value) is float


@pytest.mark.parametrize(
    "value", [None, "loss", torch.ones(2), torch.ones((), dtype=torch.complex64), object()]
)
def test_what_is_no_number_reads_as_none(value: Any) -> None:
    """Text, several elements and complex values are no numbers."""
    assert read(value) is None


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.0, 1e-45, 3.4e38])
def test_non_finite_values_survive_reading(value: float) -> None:
    """NaN, infinities, negative zero and the ends of float32 are read bit for bit."""
    tensor = torch.tensor(value, dtype=torch.float32)
    assert math.copysign(1.0, read(tensor)) == math.copysign(1.0, value)
    assert repr(read(tensor)) == repr(float(tensor))


def test_no_graph_stays_alive() -> None:
    """A live loss passed to log, scale or backward is freed as soon as the script drops it."""
    net = torch.nn.Linear(2, 1)
    each = torch.optim.SGD(net.parameters(), lr=0.1)
    grad_scaler = torch.amp.GradScaler("cpu")
    with watched() as (run, _):
        value = net(torch.ones(2)).sum()
        scaled = grad_scaler.scale(value)
        run.log(value=value)
        run.check(losses={"part": value}, batch=value)
        scaled.backward(retain_graph=True)
        forgotten = [weakref.ref(value), weakref.ref(scaled)]
        never = grad_scaler.scale(net(torch.ones(2)).sum())
        forgotten.append(weakref.ref(never))
        del value, scaled, never
        assert [one() for one in forgotten] == [None] * 3
        grad_scaler.step(each)


@pytest.mark.usefixtures("device")
def test_norms_of_layers_do_not_wait(events: list[Event]) -> None:
    """Norms of a clip stay on the device, and are copied when a record turns out to have a problem."""
    each, params = _on_device()
    with watched() as (run, _):
        for param in params:
            param.grad = torch.empty_like(param)
        clip_grad_norm_(params, 1.0)
        optimizer._before_step(each, (each,), {})
        optimizer._after_step(each, (each,), {})
        layers = run._ledger.layers
        staged, before = len(layers._staged), len(events)
        layers.arrived((0, 0, ("grad_norm", "stepped"), math.nan, 1.0))
        assert (len(layers._staged), len(events)) == (staged + 1, before + 1)
        assert run._reporter.errors == 0
        run._reporter._staging = None


@pytest.mark.usefixtures("device")
def test_the_look_at_weights_and_data_do_not_wait() -> None:
    """The checks of the first step and of all weights, named batches, layers: none waits for a device."""
    each, params = _on_device()
    # Optimizers of other tests that are still alive have real tensors.
    with watched(grad_norm=1, optimizers={"fake": each}) as (run, _):
        ledger = run._ledger
        for step in range(3):
            run.batch(f"shard {step}")
            _backward(_scalar(), params)
            optimizer._before_step(each, (each,), {})
            optimizer._after_step(each, (each,), {})
        flag = weights.nonfinite_weights(ledger)
        assert isinstance(flag, Tensor)
        assert flag.is_cuda
        ledger.weights._look()
        assert run._reporter.errors == 0
        run._reporter._staging = None
