"""``Api.follow`` of a run whose training process disappears."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

import tocsin
from tests.conftest import wait_for
from tests.server.http.api.conftest import Trainer
from tests.server.http.api.test_mcp import token


@pytest.fixture
def lost(server: Any, trainer: Callable[..., Trainer]) -> Trainer:
    """A run of three steps that is lost."""
    settings = {"project": "lost", "severity": "info", "settings": {"warning_s": 0.2}}
    address = f"{server.base}/api/v1/rules/trainer-lost/settings"
    httpx.put(address, json=settings, headers=server.headers).raise_for_status()
    run = trainer(project="lost")
    run.records({"loss": [1.0, 2.0, 3.0]})
    run.disconnect()
    wait_for(lambda: server.get(f"/runs/{run.run}")["state"] == "lost", "the loss")
    return run


def test_following_a_lost_run_ends_after_all_its_records(server: Any, lost: Trainer) -> None:
    with tocsin.Api(server.base, token(server, "read")) as api:
        tables = list(api.follow(lost.run, "loss", since=-1, interval=0.01, lost=0.05))
        assert [loss for table in tables for loss in table.lists()["loss"]] == [1.0, 2.0, 3.0]
        assert api.run(lost.run).state == "lost"


def test_a_lost_run_that_comes_back_is_followed_to_its_end(
    server: Any, lost: Trainer, trainer: Callable[..., Trainer]
) -> None:
    with tocsin.Api(server.base, token(server, "read")) as api:
        found: list[float] = []
        for table in api.follow(lost.run, "loss", since=-1, interval=0.01):
            found += table.lists()["loss"]
            if len(found) == 3:
                back = trainer(project="lost", run=lost.run)
                back.records({"loss": [4.0]}, first_step=3)
                back.finish()
    assert found == [1.0, 2.0, 3.0, 4.0]
