"""The time that a loop waits for its data is in its records."""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch
from torch.utils.data import DataLoader, Dataset

from tests.hook.captured import watched

WAIT_S = 0.02


class Slow(Dataset[torch.Tensor]):
    """Each item takes a while."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(WAIT_S)
        return torch.ones(2)


def _step(net: torch.nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> None:
    optimizer.zero_grad()
    net(x).sum().backward()
    optimizer.step()


def _net() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    net = torch.nn.Linear(2, 1)
    return net, torch.optim.SGD(net.parameters(), lr=0.1)


def test_the_time_of_a_dataloader_is_reported() -> None:
    """Each step has its own wait, and it is part of the step's time."""
    net, optimizer = _net()
    with watched() as (_, outbox):
        for batch in DataLoader(Slow()):
            _step(net, optimizer, batch)
    waits, times = dict(outbox.series("data_time")), dict(outbox.series("step_time"))
    assert sorted(waits) == [0, 1, 2, 3]
    assert min(waits.values()) >= WAIT_S
    assert all(waits[step] <= times[step] for step in times)


def test_loading_in_a_phase_is_not_training() -> None:
    """An evaluation's loader is excluded, as its time is excluded from the step's."""
    net, optimizer = _net()
    with watched() as (run, outbox):
        _step(net, optimizer, torch.ones(2))
        with run.phase("eval"):
            assert len(list(DataLoader(Slow()))) == 4
        _step(net, optimizer, torch.ones(2))
    assert outbox.series("data_time") == []


def test_naming_the_batch_marks_when_the_data_were_there() -> None:
    """Without a DataLoader: the time since the previous record."""

    def batches() -> Iterator[int]:
        for k in range(3):
            time.sleep(WAIT_S)
            yield k

    net, optimizer = _net()
    with watched() as (run, outbox):
        for k in batches():
            run.batch(k)
            _step(net, optimizer, torch.ones(2))
    waits = outbox.series("data_time")
    assert [step for step, _ in waits] == [1, 2]
    assert all(wait >= WAIT_S for _, wait in waits)
