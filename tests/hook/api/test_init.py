"""``tocsin.init`` takes the arguments of ``wandb.init``; ``watched`` decorates a function."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import torch

import tocsin
from tests.hook.ingest_server import IngestServer, wait_until
from tocsin.api.init import options_of
from tocsin.api.no_run import NoRun
from tocsin.api.run import Run

KNOWN = frozenset(tocsin.watch.__kwdefaults__ or ())


@pytest.fixture
def place(server: IngestServer, spool: Path) -> dict[str, Any]:
    """Arguments that send a run to the server of the test."""
    return {"url": server.url, "spool_dir": spool, "patch": False, "quiet": True}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"name": "a", "entity": "team", "notes": None}, {"name": "a"}),
        ({"id": "r1", "resume": "allow"}, {"resume": "r1"}),
        ({"resume": "r2"}, {"resume": "r2"}),
        ({"resume": True}, {}),
        ({"group": "g", "config": {"lr": 1}}, {"config": {"lr": 1, "group": "g"}}),
        ({"config": {"a": 1, "b": 2}, "config_exclude_keys": ["b"]}, {"config": {"a": 1}}),
        ({"config": {"a": 1, "b": 2}, "config_include_keys": ["b", "c"]}, {"config": {"b": 2}}),
        ({"reinit": "create_new", "tags": "x"}, {"parallel": True, "tags": ["x"]}),
    ],
)
def test_the_arguments_of_wandb_become_those_of_watch(given: dict[str, Any], expected: Any) -> None:
    assert options_of(given, KNOWN) == (expected, False)


def test_unknown_arguments_are_named(caplog: pytest.LogCaptureFixture) -> None:
    options_of({"nickname": "a", "entity": "team"}, KNOWN)
    assert "tocsin.init: unknown arguments are ignored: nickname." in caplog.text
    assert "entity" not in caplog.text


def test_a_disabled_init_is_a_run_that_does_nothing() -> None:
    run = tocsin.init("p", mode="disabled", config={"lr": 1})
    assert isinstance(run, NoRun)
    assert run.config.lr == 1


def test_a_script_of_wandb_works_with_the_name_changed(server: IngestServer, place: dict[str, Any]) -> None:
    run = tocsin.init(project="p", group="g", config={"lr": 0.1}, **place)
    tocsin.config.update({"depth": 2})
    tocsin.log({"loss": 1.0, "val": {"acc": 0.5}}, step=3)
    tocsin.alert(title="slow", text="10 s", level="ERROR")
    tocsin.summary["best"] = 0.5
    assert (tocsin.run, dict(tocsin.config)) == (run, {"lr": 0.1, "group": "g", "depth": 2})
    tocsin.finish()
    kept = server.only
    wait_until(lambda: kept.finish is not None)
    assert tocsin.run is not run
    assert [event.data for event in kept.events if event.kind == "alert"] == [
        {"title": "slow", "text": "10 s", "severity": "critical"}
    ]


def test_calls_of_wandb_without_a_meaning_here_change_nothing(
    server: IngestServer, place: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """``wandb.watch(model)`` would start another run, and other arguments would raise into the training."""
    run = tocsin.init("p", **place)
    assert tocsin.watch(torch.nn.Linear(1, 1)) is run  # type: ignore[arg-type]
    tocsin.log({"a": 1.0}, commit=False)
    tocsin.log({"a": 2.0}, step=4, sync=True)
    tocsin.alert("slow", level="WARN", wait_duration=60)
    run.finish(exit_code=1)
    tocsin.finish(0, quiet=True)
    wait_until(lambda: server.writers and server.only.finish is not None)
    assert server.only.finish is not None
    assert server.only.finish.state == "failed"
    assert "the first argument is a model" in caplog.text


def test_an_exit_code_makes_a_failed_run(server: IngestServer, place: dict[str, Any]) -> None:
    tocsin.init("p", **place).log(loss=1.0)
    tocsin.finish(exit_code=1)
    wait_until(lambda: server.writers and server.only.finish is not None)
    assert server.only.finish is not None
    assert server.only.finish.state == "failed"


def test_each_call_of_a_decorated_function_is_a_run(place: dict[str, Any]) -> None:
    @tocsin.watched("sweep", **place)
    def train(lr: float) -> tuple[Any, float]:
        return tocsin.run, lr

    (first, lr), (second, _) = train(0.1), train(lr=0.2)
    assert isinstance(first, Run)
    assert (lr, first is second, tocsin.run is second) == (0.1, False, False)


def test_a_decorated_generator_that_is_closed_early_has_not_failed(
    server: IngestServer, place: dict[str, Any]
) -> None:
    @tocsin.watched("sweep", **place)
    def train() -> Generator[int, None, None]:
        for step in range(9):
            tocsin.log(loss=1.0)
            yield step

    steps = train()
    next(steps)
    steps.close()
    wait_until(lambda: server.writers and server.only.finish is not None)
    assert server.only.finish is not None
    assert server.only.finish.state == "finished"


def test_without_a_project_the_folder_of_the_script_is_the_project(
    place: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOCSIN_PROJECT", "from the environment")
    assert tocsin.watch(**place).project == "from the environment"
