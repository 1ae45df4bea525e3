"""Several trainings in one process: each run has its own steps, unless they are parallel on purpose."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from tests.hook.api.test_startup import process
from tests.hook.captured import KeptOutbox, KeptSender, watch
from tests.hook.ingest_server import IngestServer
from tests.matrix import LONG
from tocsin.api.run import Run
from tocsin.capture import patching
from tocsin.core.process_state import active_runs

TRAIN = """
import torch
def train(steps, lr=0.1):
    weight = torch.nn.Parameter(torch.ones(()))
    optimizer = torch.optim.SGD([weight], lr=lr)
    for _ in range(steps):
        optimizer.zero_grad()
        (weight * 2.0).backward()
        optimizer.step()
"""


def _steps(optimizer: torch.optim.Optimizer, count: int) -> None:
    for _ in range(count):
        optimizer.zero_grad()
        optimizer.param_groups[0]["params"][0].sum().backward()
        optimizer.step()


def _optimizer() -> torch.optim.Optimizer:
    return torch.optim.SGD([torch.nn.Parameter(torch.ones(()))], lr=0.1)


def test_a_sweep_of_three_trainings_is_three_runs_of_their_own_steps() -> None:
    """The optimizers of earlier trainings stay alive, like variables of a notebook."""
    outboxes, kept = [KeptOutbox() for _ in range(3)], []
    for outbox in outboxes:
        run = watch(outbox, parallel=False)
        kept.append(_optimizer())
        _steps(kept[-1], 20)
    run.finish()
    assert [outbox.series("loss") for outbox in outboxes] == [outboxes[0].series("loss")] * 3
    assert [len(outbox.items) for outbox in outboxes] == [20, 20, 20]


def test_a_watch_finishes_the_run_before_it() -> None:
    """A notebook cell that is executed again ends the previous run."""
    first, second = KeptSender(), KeptSender()
    watch(KeptOutbox(), first)
    watch(KeptOutbox(), second, parallel=False)
    assert first.closed == [("finished", None)]
    assert second.closed == []
    assert len(patching.attached) == 1


@pytest.mark.parametrize("error", [None, ValueError("bad")])
def test_async_with_is_the_same_run_and_ends_it(error: Exception | None) -> None:
    """A training in a coroutine; its exception is raised unchanged and fails the run."""
    sender, given = KeptSender(), []

    async def train() -> None:
        async with watch(KeptOutbox(), sender) as run:
            given.append(run)
            if error is not None:
                raise error

    with nullcontext() if error is None else pytest.raises(ValueError, match="bad"):
        asyncio.run(train())
    assert type(given[0]) is Run
    assert [state for state, _ in sender.closed] == ["finished" if error is None else "failed"]


def test_scalers_are_numbered_in_each_run() -> None:
    """The scaler of an earlier training stays alive but has no number in the next run."""
    outboxes, kept = [KeptOutbox() for _ in range(2)], []
    for outbox in outboxes:
        run = watch(outbox, parallel=False)
        scaler, optimizer = torch.amp.GradScaler("cpu", growth_interval=1), _optimizer()
        kept.append(scaler)
        for _ in range(2):
            optimizer.zero_grad()
            scaler.scale(optimizer.param_groups[0]["params"][0].sum()).backward()
            scaler.step(optimizer)
            scaler.update()
    run.finish()
    assert [{one["scaler"] for one in outbox.events("scaler")} for outbox in outboxes] == [{"scaler1"}] * 2
    assert [one["name"] for one in run._run_info.described["scalers"]] == ["scaler1"]


def test_parallel_runs_both_record() -> None:
    """``parallel=True`` keeps both runs active."""
    one, two = KeptOutbox(), KeptOutbox()
    watch(one, parallel=False)
    watch(two, parallel=True)
    _steps(_optimizer(), 3)
    assert [len(one.items), len(two.items)] == [3, 3]


def test_an_optimizer_belongs_to_the_run_in_which_it_steps() -> None:
    """One that steps again in the second run counts there, as its first optimizer."""
    one, two, optimizer = KeptOutbox(), KeptOutbox(), _optimizer()
    watch(one, parallel=False)
    _steps(optimizer, 2)
    watch(two, parallel=False)
    other = _optimizer()
    _steps(optimizer, 4)
    assert [len(one.items), len(two.items)] == [2, 4]
    assert [step for step, _ in two.series("loss")] == [0, 1, 2, 3]
    del other


@LONG
def test_a_sweep_reaches_the_server_as_three_finished_runs(server: IngestServer, spool: Path) -> None:
    """By ``tocsin.watch`` itself, in a script."""
    body = (
        TRAIN.replace("\n", "\n        ")
        + """
        for k in range(3):
            tocsin.watch("p", name=f"lr-{k}", quiet=True, **options)
            train(20)
        tocsin._live[-1].finish()
    """
    )
    process(body, server.url, spool)
    assert [len(one.seqs) for one in server.writers.values()] == [20, 20, 20]
    assert all(one.finish and one.finish.state == "finished" for one in server.writers.values())
    assert active_runs == []
