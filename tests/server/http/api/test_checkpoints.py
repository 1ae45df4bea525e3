"""The checkpoints of a run over the API."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import httpx


def steps(run: Any, start: int, stop: int, loss: float = 1.0) -> None:
    """Send steps; with a loss of NaN, also with a gradient norm of NaN, and updates."""
    columns = {"loss": loss, "grad_norm": loss, "stepped": 1.0}
    run.records({name: [value] * (stop - start) for name, value in columns.items()}, first_step=start)


def save(run: Any, step: int) -> None:
    """Send a checkpoint."""
    run.event("checkpoint", step=step, path=f"/runs/ckpt_{step}.pt", complete=True, size=step)


def test_the_last_good_checkpoint_of_a_run_with_nan(server: Any, trainer: Callable[..., Any]) -> None:
    """The one before the onset; the newer one holds NaN weights, a deleted one is not listed."""
    run = trainer()
    steps(run, 0, 45)
    save(run, 20)
    save(run, 40)
    steps(run, 45, 60)
    save(run, 50)
    steps(run, 60, 80, math.nan)
    save(run, 70)
    run.event("checkpoint-removed", path="/runs/ckpt_50.pt")
    answer = server.get(f"/runs/{run.run}/checkpoints")
    assert [item["step"] for item in answer["items"]] == [70, 40, 20]
    assert answer["last_good"]["path"] == "/runs/ckpt_40.pt"
    assert (answer["last_good"]["attempt"], answer["last_good"]["size"]) == (1, 40)
    assert answer["text"].startswith("ckpt_40.pt (step 40, 20 steps before the problem at step 60, ")
    assert [item["problem"] for item in answer["items"][1:]] == ["", ""]
    assert answer["items"][0]["problem"] == "holds NaN weights"
    (incident,) = server.get("/incidents", run=run.run)["items"]
    assert server.get(f"/incidents/{incident['id']}")["resume"] == {
        "path": "/runs/ckpt_40.pt",
        "step": 40,
        "text": answer["text"].replace("problem at step 60", "onset"),
    }


def test_a_run_without_checkpoints_has_none(server: Any, trainer: Callable[..., Any]) -> None:
    """An unknown run is a 404."""
    run = trainer()
    assert server.get(f"/runs/{run.run}/checkpoints") == {
        "items": [],
        "last_good": None,
        "text": "No good checkpoint is known.",
    }
    url = f"{server.base}/api/v1/runs/missing/checkpoints"
    assert httpx.get(url, headers=server.headers).status_code == 404


def test_before_limits_what_is_good(server: Any, trainer: Callable[..., Any]) -> None:
    """A step that a person chose, such as the onset of an incident."""
    run = trainer()
    steps(run, 0, 60)
    save(run, 20)
    save(run, 50)
    assert server.get(f"/runs/{run.run}/checkpoints")["last_good"]["step"] == 50
    answer = server.get(f"/runs/{run.run}/checkpoints", before=45)
    assert (answer["last_good"]["step"], answer["items"][0]["problem"]) == (20, "was written after the onset")
