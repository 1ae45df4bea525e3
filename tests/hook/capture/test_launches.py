"""Kernels that the hook launches on a device, counted by dispatcher calls on one that does not exist."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

from tests.hook.capture.test_staging import device, events
from tests.hook.captured import watched
from tests.matrix import represented
from tocsin.capture import device_values, gradients, loss, optimizer, reading, scaler

__all__ = ["device", "events"]

WARM, STEPS = 64, 256
STEP_S = 0.01
GOAL = 0.5
"""Launches of the hook per step, on average."""
NOTHING = {
    "detach",
    "view",
    "slice",
    "select",
    "alias",
    "as_strided",
    "empty",
    "expand",
    "is_pinned",
    "prim::device",
}
"""Operations that give another view of a tensor, or memory, without a kernel."""
THEIRS = "_amp_update_scale_"
"""The kernel of the scaler's own update."""


class Launches(TorchDispatchMode):
    """Counts the operations that launch a kernel or a copy."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names = Counter[str]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.removeprefix("aten::")
        if name not in NOTHING and name != THEIRS:
            self.names[name] += 1
        return func(*args, **(kwargs or {}))


class Training:
    """A loop whose tensors are on a fake device. ``step`` makes the calls that torch's patches would make."""

    def __init__(self, *, clips: bool, scaled: bool, fused: bool = False) -> None:
        self.params = [torch.nn.Parameter(torch.empty(3, 4, device="cuda")) for _ in range(4)]
        self.optimizer = torch.optim.SGD(self.params, lr=0.1)
        self.optimizer._step_supports_amp_scaling = fused
        self.clips = clips
        self.scaler: Any = torch.amp.GradScaler("cpu") if scaled else None
        self.launches = Launches()
        self.now = 1e9
        """Seconds; a step takes STEP_S."""

    def step(self) -> None:
        self.now += STEP_S
        out = torch.empty((), device="cuda")
        if self.scaler is not None:
            plain, out = out, out * 2
            if self.scaler._scale is None:
                self.scaler._lazy_init_scale_growth_tracker(out.device)
            with self.launches:
                scaler._remember(self.scaler, plain, out)
        with self.launches:
            found, seen = loss._before((out,), {})
        for param in self.params:
            param.grad = torch.empty_like(param)
        with self.launches:
            loss._after(found, seen, begun=0)
        if self.scaler is not None:
            state = self.scaler._per_optimizer_states[id(self.optimizer)]
            state["found_inf_per_device"] = {"cuda": torch.zeros((), device="cuda")}
            with self.launches:
                scaler._watch_unscale(lambda *args: None)(self.scaler, self.optimizer)
        if self.clips:
            norm = torch.empty((), device="cuda")
            with self.launches:
                gradients._clipped(self.params, 1.0, norm)
        self._finish()

    def _finish(self) -> None:
        if self.scaler is None:
            with self.launches:
                self._stepped()
            return
        opened: list[Any] = []
        with self.launches:
            scaler._open(self.scaler, self.optimizer, opened)
            self._stepped()
            scaler._close(self.scaler, opened, True)
            self.scaler.update()

    def _stepped(self) -> None:
        optimizer._before_step(self.optimizer, (self.optimizer,), {})
        optimizer._after_step(self.optimizer, (self.optimizer,), {})


LOOPS: dict[str, dict[str, bool]] = {
    "clip": {"clips": True, "scaled": False},
    "no clip": {"clips": False, "scaled": False},
    "scaled, clip": {"clips": True, "scaled": True},
    "scaled, fused, clip": {"clips": True, "scaled": True, "fused": True},
}


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("loop", represented(LOOPS, "clip", "scaled, clip"))
def test_a_usual_step_launches_half_a_kernel_at_most(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values are kept by reference and copied together; nothing waits for the device."""
    monkeypatch.setattr(reading, "PLAIN", (torch.Tensor, FakeTensor))
    monkeypatch.setattr(reading, "new_flag", lambda: torch.empty((), dtype=torch.bool))
    monkeypatch.setattr(device_values, "TRUSTED", 0)  # nothing ever arrives from a fake device
    training = Training(**LOOPS[loop])
    with watched(optimizers={"fake": training.optimizer}) as (run, _):
        for step in range(WARM + STEPS):
            if step == WARM:
                training.launches.names.clear()
                run._reporter._staging._clock = lambda: training.now
            training.step()
        assert run._reporter.errors == 0
        assert len(run._reporter._staging) == WARM + STEPS
        run._reporter._staging = None
    print(loop, training.launches.names)
    assert training.launches.names.total() <= GOAL * STEPS, training.launches.names
