"""The handshake has the writer, versions, optimizers, scalers, schedules and configuration."""

from __future__ import annotations

import os
import platform
import sys
from types import ModuleType

import pytest
import torch

from tests.hook.captured import KeptOutbox, KeptSender, watch
from tocsin.core.handshake import RunInfo, hello, settle, versions
from tocsin.core.identity import identify
from tocsin.protocol import decode_client, encode


def test_the_handshake_describes_writer_versions_and_settings() -> None:
    """It has versions, optimizers, scalers, schedulers and configuration, and can be encoded."""
    net = torch.nn.Linear(2, 1)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01, fused=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=7)
    schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 5)
    run = watch(
        KeptOutbox(), KeptSender(), config={"lr": 0.01}, tags=["fp16"], notes="n", model=net, planned_steps=9
    )
    run.log(a=1.0)
    message = hello(run._run_info)
    assert decode_client(encode(message)) == message
    assert message.versions["torch"] == torch.__version__
    assert "AdamW" in [one["class"] for one in message.optimizers]
    mine = [one for one in message.scalers if one["init_scale"] == 1024.0]
    assert mine[0]["growth_interval"] == 7
    cosine = [one for one in message.schedulers if one["scheduler"] == type(schedule).__name__]
    assert cosine[0]["arguments"]["T_0"] == 5
    assert (message.config, message.tags, message.notes, message.planned_steps) == (
        {"lr": 0.01},
        ["fp16"],
        "n",
        9,
    )
    assert scaler.is_enabled()


def test_versions_are_of_what_is_imported() -> None:
    """Python, the hook and torch are listed; a library that is not imported is not."""
    found = versions()
    assert (found["python"], found["torch"]) == (platform.python_version(), torch.__version__)
    assert ("lightning" in found) == ("lightning" in sys.modules)


class Group(ModuleType):
    """``torch.distributed`` of a process group of eight, in which this process is rank 3."""

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return True

    def get_world_size(self) -> int:
        return 8

    def get_rank(self) -> int:
        return 3


@pytest.mark.parametrize(
    ("group", "rank", "size"), [(Group("group"), 3, 8), (ModuleType("broken"), 0, 1), (None, 0, 1)]
)
def test_rank_and_world_are_those_of_the_process_group(
    monkeypatch: pytest.MonkeyPatch, group: ModuleType | None, rank: int, size: int
) -> None:
    """A process group takes precedence over an environment without ranks."""
    monkeypatch.setitem(sys.modules, "torch.distributed", group)
    who = settle(RunInfo("p", "n", identify("p", "n", 0)))
    assert (who.writer.rank, who.world_size, who.writer.pid) == (rank, size, os.getpid())


def test_the_writer_stays_after_the_first_handshake(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process group that is made later changes the world size, not the writer that the server knows."""
    run_info = RunInfo("p", "n", identify("p", "n", 0))
    before = settle(run_info)
    monkeypatch.setitem(sys.modules, "torch.distributed", Group("group"))
    after = settle(run_info)
    assert (after.writer, after.run, after.world_size) == (before.writer, before.run, 8)
