"""A trained run on a real server, and an API that reads it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tocsin
from tests.conftest import Tower
from tests.hook.trainers import logs_of
from tocsin.api.run import Run

NASTY = [math.nan, math.inf, -math.inf, -0.0, 5e-324, 0.1]


@pytest.fixture
def api(shared_tower: Tower) -> Iterator[tocsin.Api]:
    with tocsin.Api(shared_tower.base, shared_tower.token) as api:
        yield api


def begun(tower: Tower, name: str, folder: Path, **options: object) -> Run:
    """Start a run of the real hook that reports only what the test logs."""
    given = {"url": tower.base, "token": tower.token, "spool_dir": folder, "patch": False, "quiet": True}
    run = tocsin.watch("read", name=name, environment=False, **{**given, **options})  # type: ignore[arg-type]
    assert isinstance(run, Run)
    return run


@pytest.fixture(scope="session")
def trained(shared_tower: Tower, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The id of a run of 3000 steps; the first losses are NASTY, every 10th step has ``val/x``."""
    folder = tmp_path_factory.mktemp("spool")
    run = begun(
        shared_tower, "trained", folder, config={"lr": 1e-3, "model": {"name": "swin"}}, tags=["fp16"]
    )
    for step in range(3000):
        extra: dict[str, Any] = {"val/x": step / 10} if step % 10 == 0 else {}
        run.step(loss=NASTY[step] if step < len(NASTY) else 1 / step, **extra)
    run.finish()
    yield run.id
    for buffer in logs_of(folder):
        buffer.unlink(missing_ok=True)
