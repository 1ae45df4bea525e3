"""What a framework reports arrives once, at the right step, in the right run."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import tocsin
from tests.hook.captured import watched
from tocsin.core.process_state import active_runs
from tocsin.integrations import framework
from tocsin.integrations.framework import FrameworkRun, guarded


class Callback:
    """An integration of a framework that lacks a hook point."""

    def __init__(self) -> None:
        self._tocsin = FrameworkRun("numpy")

    @guarded
    def on_log(self) -> None:
        object().no_such_attribute  # type: ignore[attr-defined]  # noqa: B018


@pytest.fixture
def trained() -> Iterator[tuple[Any, Any]]:
    """A run whose script made three steps."""
    with watched() as (run, outbox):
        net = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            net(torch.ones(2)).sum().backward()
            optimizer.step()
        yield run, outbox


def test_captured_values_are_left_out_and_the_event_names_them(trained: tuple[Any, Any]) -> None:
    _, outbox = trained
    FrameworkRun("numpy").log({"loss": 9.0, "train_loss": 9.0, "learning_rate": 9.0, "entropy": 1.0})
    assert outbox.series("entropy") == [(2, 1.0)]
    assert [value for _, value in outbox.series("loss")].count(9.0) == 0
    assert not any(name.startswith(("logged/", "train")) for record in outbox.records for name in record)
    assert outbox.events("framework")[-1]["captured"] == ["loss", "lr"]


def test_the_step_of_the_hook_counts_if_it_captures(trained: tuple[Any, Any]) -> None:
    _, outbox = trained
    FrameworkRun("numpy").log({"eval_f1": 0.5, "eval_runtime": 3.0, "epoch": 0.2}, step=700)
    assert outbox.series("val/f1") == [(2, 0.5)]
    assert not outbox.series("val/runtime")
    assert not outbox.series("epoch")


def test_without_capture_the_values_and_steps_of_the_framework_are_recorded() -> None:
    with watched(patch=False) as (_, outbox):
        FrameworkRun("numpy").log({"train_loss": 9.0, "lr": 0.1, "name": "text"}, step=7)
    assert (outbox.series("loss"), outbox.series("lr")) == ([(7, 9.0)], [(7, 0.1)])


def test_planned_steps_count_from_where_the_run_is(trained: tuple[Any, Any]) -> None:
    run, outbox = trained
    FrameworkRun("numpy").begin(planned_steps=10, config={"rate": 0.1})
    assert run._run_info.planned_steps == 13
    assert run._run_info.config == {"rate": 0.1}
    assert outbox.events("environment")[-1]["planned_steps"] == 13


def test_a_resumed_training_continues_the_count_of_the_framework() -> None:
    with watched() as (run, _):
        FrameworkRun("numpy").begin(planned_steps=100, done_steps=40)
        assert run.state_dict() == {"step": 40}
        assert run._run_info.planned_steps == 100


def test_each_training_starts_a_run_unless_the_script_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOCSIN_SPOOL_DIR", str(tmp_path))
    monkeypatch.setenv("TOCSIN_NAME", "named")
    one, other = (FrameworkRun("numpy", {"project": "p", "quiet": True}) for _ in range(2))
    one.begin()
    one.begin(config={"again": True})
    first = one.run
    other.begin()
    assert (first.project, first.name) == ("p", "named")
    assert active_runs == [other.run] != [first]


def test_a_script_that_watches_keeps_its_run(trained: tuple[Any, Any]) -> None:
    run, _ = trained
    integration = FrameworkRun("numpy")
    integration.begin()
    integration.finish()
    assert integration.run is run


def test_a_copy_has_the_options_but_not_the_run(trained: tuple[Any, Any]) -> None:
    run, _ = trained
    integration = FrameworkRun("numpy", {"project": "p"})
    integration.begin()
    copied = pickle.loads(pickle.dumps(integration))
    assert (copied.framework, copied.options, copied._run) == ("numpy", {"project": "p"}, None)
    assert integration.run is run


def test_a_missing_hook_point_is_one_warning_that_names_the_version(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(framework, "_warned", set())
    with caplog.at_level(logging.WARNING, "tocsin"):
        callback = Callback()
        callback.on_log()
        callback.on_log()
    (warning,) = caplog.messages
    assert f"numpy {framework.version_of('numpy')}: on_log cannot be used: AttributeError" in warning


def test_a_phase_that_the_hook_detected_is_not_reported_again() -> None:
    with watched() as (run, outbox), run.phase("eval"):
        FrameworkRun("numpy").phase_begins()
    assert [event["state"] for event in outbox.events("phase")] == ["begin", "end"]


def test_disabled_it_reports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOCSIN_DISABLE", "1")
    integration = FrameworkRun("numpy")
    integration.begin(config={"a": 1}, planned_steps=3)
    integration.epoch(0)
    integration.log({"loss": 1.0, "val_f1": 2.0}, step=0)
    integration.phase_begins()
    integration.phase_ends()
    integration.finish()
    assert isinstance(integration.run, tocsin.api.no_run.NoRun)
