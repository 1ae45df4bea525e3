"""Similar runs as input of the rules: which are similar, what is stored and replayed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tocsin_server.core.models import RunState
from tocsin_server.runs.similar_runs import SimilarRunFinder, curve, similar
from tocsin_server.store.results import StoredRun

Start = Callable[..., Any]
Dial = Callable[..., Any]


def facts(
    run_id: str, *, name: str = "net", project: str = "p", config: Any = None, **more: Any
) -> StoredRun:
    return StoredRun(
        **{
            "id": run_id, "project": project, "name": name, "state": RunState.RUNNING, "created_ns": 0,
            "last_seen_ns": 0, "ended_ns": None, "last_step": 0, "planned_steps": None, "world_size": 1,
            "host": "h", "notes": "", "tags": [], "config": config, "environment": {}, "error": None,
            "summary": None,
            "archived": False, "attempts": 1, **more,
        }
    )  # fmt: skip


CONFIG = {"model": {"width": 64, "depth": 4}, "lr": 1e-3, "data": "a", "batch": 32}


@pytest.mark.parametrize(
    ("other", "alike"),
    [
        (facts("b", config={**CONFIG, "lr": 1e-5}), True),
        (facts("b", config={**CONFIG, "lr": 1e-5, "data": "b", "model": {"width": 8, "depth": 1}}), False),
        (facts("b", config=CONFIG, project="q"), False),
        (facts("b", config=CONFIG, archived=True), False),
        (facts("a", config=CONFIG), False),
        (facts("b", name="net-7"), True),
        (facts("b", name="other"), False),
    ],
)
def test_which_runs_are_similar(other: StoredRun, alike: bool) -> None:
    """The same project and most settings; without a configuration, the name without its number."""
    assert similar(facts("a", name="net-3", config=CONFIG), other) is alike


def test_no_layer_has_no_curve() -> None:
    """A run without losses has none."""
    assert curve(None) == ((), ())


def test_a_run_gets_its_sibling(run_server: Start, dial: Dial, eventually: Any) -> None:
    """Two clients of one configuration: the second gets the first one's curve, rate and failure."""
    server = run_server()
    first = dial(server.base, "first", server.token, config=CONFIG)
    first.acked(first.train(range(200), loss=[2.0 - 0.005 * step for step in range(200)], lr=[1e-3] * 200))
    second = dial(server.base, "second", server.token, config={**CONFIG, "lr": 1e-5})
    second.acked(second.train(range(5), loss=[2.0] * 5))
    siblings = SimilarRunFinder(server.pipeline, server.services.reader)
    asyncio.run_coroutine_threadsafe(siblings.look(), server.loop).result()
    run = server.pipeline.registry.active["second"]
    (sibling,) = run.evaluator.engine.context.siblings.runs
    assert (sibling.run_id, sibling.peak_lr) == ("first", 1e-3)
    assert sibling.losses[0] > sibling.losses[-1]
    stored = eventually(
        lambda: server.services.reader.events("second", after=None, limit=10).items, "the event"
    )
    assert [event.kind for event in stored] == ["similar-runs"]
