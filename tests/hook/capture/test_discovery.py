"""Objects are found and described without running their code."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
import torch

from tests.hook.captured import watched
from tocsin.capture import live_objects
from tocsin.capture.discovery import discover_optimizers
from tocsin.capture.live_objects import find_objects


class Proxy:
    """Raises when its class is requested, as lazy objects may."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise RuntimeError("do not ask")


def test_only_types_are_asked() -> None:
    """An object that raises at isinstance is skipped."""
    proxy = Proxy()
    optimizer = torch.optim.SGD(torch.nn.Linear(2, 1).parameters(), lr=0.1)
    assert any(one is optimizer for one in find_objects((torch.optim.Optimizer,)))
    assert proxy is not None


class HalfMade(torch.optim.SGD):
    """Raises before it has parameter groups, and is kept alive."""

    kept: ClassVar[list[Any]] = []

    def __init__(self) -> None:
        self.kept.append(self)
        raise ValueError("no learning rate")


def test_an_optimizer_that_was_never_finished_does_no_harm() -> None:
    """One whose constructor raised but that is still alive is skipped; the others are watched."""
    with pytest.raises(ValueError, match="no learning rate"):
        HalfMade()
    net = torch.nn.Linear(2, 1)
    used = torch.optim.SGD(net.parameters(), lr=0.1)
    with watched() as (_, outbox):
        net(torch.ones(2)).sum().backward()
        used.step()
    HalfMade.kept.clear()
    assert len(outbox.series("loss")) == 1


def test_only_steppers_are_described_after_the_first_step() -> None:
    """Optimizers that never step are not in the description once one did."""
    net = torch.nn.Linear(2, 1)
    used, unused = torch.optim.SGD(net.parameters(), lr=0.1), torch.optim.Adam(net.parameters())
    with watched() as (run, _):
        net(torch.ones(2)).sum().backward()
        used.step()
        (facts,) = run._run_info.described["optimizers"]
    assert (facts["name"], facts["class"], facts["groups"], facts["parameters"]) == ("opt1", "SGD", 1, 3)
    assert facts["defaults"]["momentum"] == 0
    assert unused is not None


def test_a_schedule_is_reported_with_its_arguments() -> None:
    """A scheduler is an event of the first record: its class, its optimizer, its plain arguments."""
    net = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 7)
    with watched() as (_, outbox):
        net(torch.ones(2)).sum().backward()
        optimizer.step()
    (mine,) = [one for one in outbox.events("schedule") if one["arguments"].get("step_size") == 7]
    assert (mine["optimizer"], mine["scheduler"]) == ("opt1", type(schedule).__name__)


def test_a_disabled_scaler_has_no_settings() -> None:
    """A scaler with ``enabled=False`` is reported only as disabled."""
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    with watched() as (run, _):
        facts = [one for one in discover_optimizers(run._ledger)["scalers"] if not one["enabled"]]
    assert facts == [{"class": "GradScaler", "enabled": False, "device": "cpu"}]
    assert not scaler.is_enabled()


def test_too_many_objects_are_not_looked_through(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With a data set of millions of Python objects there is no description, which is reported; all steps are
    there."""
    monkeypatch.setattr(live_objects, "MAX_BLOCKS", 0)
    net = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with watched() as (run, outbox):
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.ones(2)).sum().backward()
            optimizer.step()
        assert [one["class"] for one in run._run_info.described["optimizers"]] == ["SGD"]
    assert [step for step, _ in outbox.series("loss")] == [0, 1]
    assert caplog.text.count("too many objects") == 1
    assert "no model; pass" in str(outbox.events("preflight")[0]["not_checkable"])
