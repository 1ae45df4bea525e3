"""Values on a device are kept by reference: each one arrives as it was when it was read, or not at all."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.distributed import all_reduce  # imported before any hook, as in scripts

from tests.hook.capture.simulated import LateEvent, read, simulate
from tests.hook.captured import watched
from tests.hook.loops import LOOPS
from tests.hook.truth import Truth
from tests.matrix import ALL
from tocsin.capture import device_scale, reading, silent_writes
from tocsin.capture.device_values import COMPARE_EVERY, TRUSTED, Held, divided
from tocsin.capture.reading import before_replay, before_write
from tocsin.capture.staging import BATCH, Staging, new_ring

STYLES = list(LOOPS) if ALL else ["plain", "scaled_clip", "scaled_fused", "scaled_accumulation"]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("trusted", [0, TRUSTED])
def test_every_loop_style_arrives_as_measured(
    style: str, trusted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ground-truth matrix, with values kept by reference or copied first, and changes of the scale."""
    if style == "tensor_rate" and not trusted:
        pytest.skip("the first rate is lost, because a scheduler changes it")
    simulate(monkeypatch, trusted=trusted)
    truth = Truth()
    with watched() as (_, outbox):
        LOOPS[style](truth)
    extra = ("step_time", "hook/")
    records = [{name: one[name] for name in one if not name.startswith(extra)} for one in outbox.records]
    assert records == [pytest.approx(row, rel=2e-5, nan_ok=True) for row in truth.rows]
    changes = [(one["step"], one["from"], one["to"]) for one in outbox.events("scaler")]
    assert changes == truth.changes


# -- sources that change at any moment

Change = Callable[[Tensor], Any]
COUNTED: dict[str, Change] = {
    "add_": lambda one: one.add_(1),
    "out": lambda one: torch.add(one, 1, out=one),
    "foreach": lambda one: torch._foreach_add_([one], 1),
    "resize_": lambda one: one.resize_(100).fill_(7).resize_(()),
    "resized out": lambda one: torch.cat([one.new_full((4,), 7)], out=one.resize_(0)).resize_(()),
    "view": lambda one: one.view(1).mul_(-2),
    "set_": lambda one: one.set_(torch.full_like(one, 77).untyped_storage(), 0, (), ()),
    "data": lambda one: setattr(one, "data", torch.full_like(one, 77)),
}
"""Changes that torch counts, or that leave the memory of the value as it is."""


def _silently(one: Tensor) -> None:
    one.data.add_(1)


def _augmented(one: Tensor) -> None:
    one.data += 1


SILENT: dict[str, Change] = {
    "data.add_": _silently,
    "data.fill_": lambda one: one.data.fill_(float(one) + 7),
    "data +=": _augmented,
    "data, out": lambda one: torch.add(one, 1, out=one.data),
    "NumPy": lambda one: one.numpy().__iadd__(1),
    "DLPack": lambda one: torch.utils.dlpack.from_dlpack(one).add_(1),
    "storage": lambda one: one.untyped_storage().copy_((one + 1).untyped_storage()),
}
"""Changes that torch does not count."""


def _announced(one: Tensor) -> None:
    before_write(one)
    _silently(one)


def _replayed(one: Tensor) -> None:
    before_replay()
    _silently(one)


CHANGES: dict[str, Change] = {**COUNTED, "collective": _announced, "replay": _replayed}
MOMENTS = ("read", "put", "next")
"""After the value was read, after its record was put, after the next value was read."""


SLOW = 2 * 3600.0
"""Seconds between two steps whose records are copied one by one: `simulate` sets the limit to an hour."""


class Road:
    """A queue with one value per record. ``expected`` is what each was when it was read."""

    def __init__(self) -> None:
        self.now, self.step = 0.0, 0
        self.arrived: dict[int, float] = {}
        self.expected: dict[int, float] = {}
        ring = new_ring(pinned=False)
        self.queue = Staging(self._arrive, ring=ring, event=LateEvent, clock=lambda: self.now)

    def _arrive(self, item: tuple[Any, ...], note: Any) -> None:
        assert len(item[2]) == len(item) - 3
        if item[2]:
            self.arrived[item[0]] = item[3]

    def read(self, tensor: Tensor, source: str = "loss") -> Any:
        self.expected[self.step] = float(tensor.to(torch.float32))
        return read(tensor, source)

    def put(self, value: Any) -> None:
        self.queue.put((self.step, 0, ("loss",), value))
        self.step += 1

    def wrong(self) -> dict[int, tuple[float, float]]:
        """Return the values that are not what was read, with what was read."""
        self.queue.drain()
        return {
            step: (value, self.expected[step])
            for step, value in self.arrived.items()
            if value != self.expected[step] and not math.isnan(self.expected[step])
        }

    def lost(self) -> list[int]:
        """Return the steps without a value; fail if another one is not what was read."""
        assert self.wrong() == {}
        return [step for step in self.expected if step not in self.arrived]


def _forgotten(monkeypatch: pytest.MonkeyPatch, trusted: int) -> None:
    simulate(monkeypatch, trusted=trusted)
    reading._recent.clear()


plans = st.lists(
    st.tuples(
        st.booleans(),  # whether the step's loss is a new tensor
        st.sampled_from([None, *CHANGES]),
        st.sampled_from(MOMENTS),
        st.sampled_from([torch.float32, torch.float64, torch.float16, torch.int32]),
        st.sampled_from([0.0, 0.001, 1.0]),  # seconds until the next step
    ),
    min_size=1,
    max_size=60,
)


@given(plan=plans, trusted=st.sampled_from([0, 2, TRUSTED]))
@settings(deadline=None, max_examples=300 if ALL else 30)
def test_a_wrong_value_is_never_reported(plan: list[Any], trusted: int) -> None:
    """Whatever changes whenever, a value is what it was when it was read, or is absent.

    A change after the next value was read is found when the records are gathered, so as many can be lost.
    """
    with pytest.MonkeyPatch.context() as monkeypatch:
        _forgotten(monkeypatch, trusted)
        road = Road()
        later: list[tuple[Change, Tensor]] = []
        loss = torch.full((), 0.5)
        for number, (is_new, change, moment, dtype, pause) in enumerate(plan):
            if is_new:
                loss = torch.full((), number, dtype=dtype)
            value = road.read(loss)
            for function, tensor in later:
                function(tensor)
            later = []
            if change and moment == "read":
                CHANGES[change](loss)
            road.put(value)
            if change and moment == "put":
                CHANGES[change](loss)
            if change and moment == "next":
                later.append((CHANGES[change], loss))
            road.now += pause
        assert len(road.lost()) <= BATCH


@pytest.mark.parametrize("change", COUNTED)
def test_after_the_first_change_a_source_is_copied(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that is trusted and begins to change loses one value, and none after it."""
    _forgotten(monkeypatch, 0)
    road, loss = Road(), torch.full((), 1.0)
    for step in range(40):
        road.put(road.read(loss))
        if step >= 20:
            COUNTED[change](loss)
    assert len(road.lost()) <= (change != "data")


def _train_silently(begin: int, change: str, moment: str, pauses: tuple[float, float]) -> Road:
    """Log a new loss at each step, which the script changes without notice from step ``begin`` on.

    ``pauses`` are the seconds between two steps before and after that.
    """
    road, before = Road(), torch.full((), 0.0)
    for step in range(begin + 4 * COMPARE_EVERY):
        loss = torch.full((), float(step))
        value = road.read(loss)
        if moment == "next" and step > begin:
            SILENT[change](before)
        if moment == "read" and step >= begin:
            SILENT[change](loss)
        road.put(value)
        if moment == "put" and step >= begin:
            SILENT[change](loss)
        road.now, before = road.now + pauses[step >= begin], loss
    return road


@pytest.mark.parametrize("change", SILENT)
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("pause", [0.0, SLOW])
def test_what_changes_without_notice_from_the_start_is_never_wrong(
    change: str, moment: str, pause: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first copies differ from their originals, so that no value is read without a copy."""
    _forgotten(monkeypatch, TRUSTED)
    assert _train_silently(0, change, moment, (pause, pause)).lost() == []


@given(
    begin=st.integers(1, 3 * COMPARE_EVERY),
    change=st.sampled_from(list(SILENT)),
    moment=st.sampled_from(MOMENTS),
    pauses=st.tuples(*[st.sampled_from([0.0, SLOW])] * 2),
)
@example(begin=2 * COMPARE_EVERY, change="data +=", moment="read", pauses=(0.0, SLOW))
@settings(deadline=None, max_examples=300 if ALL else 20)
def test_what_begins_to_change_without_notice_is_wrong_until_it_is_compared(
    begin: int, change: str, moment: str, pauses: tuple[float, float]
) -> None:
    """No value before the first change is wrong, and none after the next comparison has arrived."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        _forgotten(monkeypatch, TRUSTED)
        wrong = _train_silently(begin, change, moment, pauses).wrong()
    assert all(begin <= step < begin + COMPARE_EVERY + 3 * BATCH for step in wrong)
    assert all(abs(value - right) in (1, 7) for value, right in wrong.values())


def test_a_value_whose_storage_the_script_releases_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others of the same copy arrive."""
    _forgotten(monkeypatch, 0)
    road = Road()
    for step in range(4):
        loss = torch.full((), float(step))
        road.put(road.read(loss))
        if step == 2:
            loss.untyped_storage().resize_(0)
    assert road.lost() == [2]


def test_an_ordinary_loss_is_trusted_and_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new tensor at each step is soon kept by reference; one in COMPARE_EVERY is compared again."""
    _forgotten(monkeypatch, TRUSTED)
    road, copies = Road(), 0
    for step in range(4 * COMPARE_EVERY):
        value = road.read(torch.full((), float(step)))
        copies += (step >= 2 * COMPARE_EVERY and value.version is None) or value.original is not None
        road.put(value)
    assert road.lost() == []
    assert copies < 2 * COMPARE_EVERY


@pytest.mark.parametrize(
    "tensor",
    [
        torch.zeros(1000)[3],
        torch.nn.Parameter(torch.zeros(())),
        torch.zeros((), dtype=torch.float16).as_subclass(torch.nn.Parameter),
    ],
)
def test_large_memory_and_parameters_are_copied(tensor: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reference to one element would keep the whole tensor alive; an optimizer changes parameters."""
    _forgotten(monkeypatch, 0)
    held = reading.hold(tensor, "loss")
    assert held.tensor is not None
    assert held.tensor.untyped_storage().data_ptr() != tensor.untyped_storage().data_ptr()
    assert held.tensor.untyped_storage().nbytes() == 4


def test_no_graph_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reference is detached."""
    _forgotten(monkeypatch, 0)
    held = reading.hold((torch.ones((), requires_grad=True) * 2).reshape(1), "loss")
    assert held.tensor is not None
    assert held.tensor.grad_fn is None
    assert held.tensor.shape == ()


def test_inference_tensors_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have no version counter."""
    _forgotten(monkeypatch, 0)
    with torch.inference_mode():
        loss = torch.full((), 3.0)
        held = reading.hold(loss, "loss")
        loss.add_(1)
    assert not held.is_changed()
    assert float(held.tensor) == 3.0  # type: ignore[arg-type]


@pytest.mark.parametrize("many", [3, 100])
def test_an_accumulation_is_one_value(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few losses are added on the host, many on the device, because a record has little room."""
    _forgotten(monkeypatch, 0)
    road = Road()
    values = [reading.hold(torch.full((), float(k))) for k in range(many)]
    total = reading.sum_of(values)
    road.expected[0] = sum(range(many)) / many
    road.put(total / many)
    assert road.lost() == []
    assert isinstance(total, Held) == (many == 100)


# -- the scale


@given(
    scale=st.floats(2.0**-20, 2.0**127, width=32),
    tracker=st.integers(0, 5),
    factors=st.tuples(st.floats(1.01, 8.0), st.floats(0.01, 0.99), st.integers(1, 6)),
    found=st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=3),
)
def test_a_scale_follows_from_the_one_before(
    scale: float, tracker: int, factors: tuple[float, float, int], found: list[float]
) -> None:
    """The computed scale and tracker have the bits of torch's own kernel."""
    real, steps = torch.tensor(scale), torch.tensor(tracker, dtype=torch.int32)
    torch._amp_update_scale_(real, steps, torch.tensor(sum(found)), *factors)
    assert device_scale.updated((scale, float(tracker)), factors, *found) == (
        real.item(),
        float(steps.item()),
    )


def _train(grad_scaler: Any, steps: int, change: Callable[[int], None] = lambda step: None) -> None:
    net = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    for step in range(steps):
        optimizer.zero_grad()
        grad_scaler.scale(net(torch.ones(4)).sum()).backward()
        grad_scaler.step(optimizer)
        grad_scaler.update()
        change(step)


@pytest.mark.parametrize(
    "write",
    [
        lambda one: one.update(8.0),
        lambda one: one.update(torch.full((), 8.0)),
        lambda one: one._scale.fill_(8.0),
        lambda one: one.load_state_dict({**one.state_dict(), "scale": 8.0}),
    ],
)
def test_a_scale_that_the_script_sets_is_reported(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """``update(new_scale)``, a write in place and a loaded state are the scale of the next step."""
    simulate(monkeypatch)
    grad_scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=10)
    with watched() as (_, outbox):
        _train(grad_scaler, 9, lambda step: write(grad_scaler) if step == 5 else None)
    assert [value for _, value in outbox.series("scale")] == [4.0] * 6 + [8.0] * 3
    assert [(one["step"], one["from"], one["to"]) for one in outbox.events("scaler")] == [(5, 4.0, 8.0)]


def _hide(grad_scaler: torch.amp.GradScaler) -> None:
    assert grad_scaler._scale is not None
    grad_scaler._scale.data.fill_(8.0)


def test_a_hidden_write_to_the_scale_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest scale of each copy is compared with the device's, which counts; older ones are left out."""
    simulate(monkeypatch)
    grad_scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=1000)
    with watched() as (_, outbox):
        _train(grad_scaler, 64, lambda step: _hide(grad_scaler) if step == 24 else None)
    series = dict(outbox.series("scale"))
    assert all(value == (4.0 if step <= 24 else 8.0) for step, value in series.items())
    assert {*range(16), *range(48, 64)} <= set(series)
    assert [(one["from"], one["to"]) for one in outbox.events("scaler")] == [(4.0, 8.0)]


PAIRS = [(1.0, 0.0), (-1.0, 0.0), (0.0, 0.0), (math.nan, 0.0), (1.0, -0.0), (math.inf, 0.0)]


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_numbers_are_divided_as_on_a_device(one: float, other: float) -> None:
    """A division by zero gives infinity or NaN."""
    assert repr(divided(one, other)) == repr(float(torch.tensor(one) / torch.tensor(other)))


# -- writers that torch does not count


@pytest.fixture
def group(tmp_path: Path) -> Iterator[None]:
    """A process group of one process."""
    store = torch._C._distributed_c10d.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("group")
def test_a_loss_is_copied_before_a_collective_writes_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """``all_reduce`` of the loss in place, also under a name imported before, leaves what was reported."""
    _forgotten(monkeypatch, 0)
    loss = torch.full((), 2.0)
    with watched():
        held = reading.hold(loss, "loss")
        assert held.tensor is not None
        assert held.tensor.data_ptr() == loss.data_ptr()
        all_reduce(loss)
        assert held.tensor.data_ptr() != loss.data_ptr()
        assert reading._sources["loss"].changes


def test_a_graph_ends_references(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first replay all values are copied, and from then on when they are read."""
    _forgotten(monkeypatch, 0)
    static = torch.full((), 2.0)
    held = reading.hold(static, "loss")
    replay = silent_writes._watch_graph(lambda graph: _silently(static))
    replay(None)
    later = reading.hold(static, "loss")
    replay(None)
    assert [float(one.tensor) for one in (held, later)] == [2.0, 3.0]  # type: ignore[arg-type]


def test_memory_that_a_graph_took_back_is_a_lost_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler's graphs make their old outputs raise; other values of the copy arrive."""
    _forgotten(monkeypatch, 0)
    road, gone = Road(), torch.full((), 5.0)
    for step in range(3):
        road.put(road.read(gone if step == 1 else torch.full((), float(step))))
    monkeypatch.setattr(reading._Graphs, "seen", True)
    monkeypatch.setattr(reading, "has_memory", lambda one: one.data_ptr() != gone.data_ptr())
    assert road.lost() == [1]
