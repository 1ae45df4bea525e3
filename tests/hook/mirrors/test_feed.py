"""What passes from a tracker to the run, and under which name and step."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import tocsin
from tests.hook.captured import watched
from tocsin import mirrors
from tocsin.mirrors import options
from tocsin.mirrors.feed import Row, feed, follow


@pytest.fixture(autouse=True)
def _no_leftover_mirrors() -> Iterator[None]:
    """Forget the options of a test, and the rows that wait for a run."""
    yield
    options.chosen.clear()
    feed.__init__()  # type: ignore[misc]


class Tracker:
    """A tracker with the shape of all: a method that logs a mapping."""

    def log(self, data: dict[str, Any], step: int | None = None) -> str:
        """Log a row."""
        if not data:
            raise ValueError("empty")
        return "logged"


def test_only_numbers_pass() -> None:
    """Strings, media and arrays of several values are left out without a warning."""
    media = np.broadcast_to(np.float32(0), (2**28,))  # 1 GB, if it were copied
    values = {"loss": 1, "text": "a", "none": None, "media": media, "tensor": torch.tensor([2.0])}
    with watched() as (_, outbox):
        feed.take("wandb", Row({**values, "numpy": np.float16(0.5), "complex": np.complex64(1)}, 3))
    assert outbox.records == [{"step": 3, "loss": 1.0, "tensor": 2.0, "numpy": 0.5}]


@pytest.mark.filterwarnings("error")
def test_an_integer_beyond_all_floats_hides_no_other_value() -> None:
    """Neither in what a tracker gets nor in what the script logs beside it."""
    with watched(patch=False) as (run, outbox):
        feed.take("x", Row({"theirs": 1.0, "huge": 10**400}, 0))
        run.log(own=2.0, huge=10**400, step=1)
    assert [dict(record) for record in outbox.records] == [
        {"step": 0, "theirs": 1.0},
        {"step": 1, "own": 2.0},
    ]


def test_a_loss_with_its_graph_passes() -> None:
    """Such as scripts log before the backward."""
    with watched() as (_, outbox):
        feed.take("wandb", Row({"train/loss": torch.ones(1, requires_grad=True).sum()}, 0))
    assert outbox.series("train/loss") == [(0, 1.0)]


def test_the_second_tracker_of_a_name_is_named() -> None:
    """The first tracker that logs a name in a run keeps it."""
    with watched() as (_, outbox):
        for tracker in ("wandb", "mlflow", "wandb"):
            feed.take(tracker, Row({"acc": 0.5}, 0))
    assert [list(record)[1] for record in outbox.records] == ["acc", "mlflow/acc", "acc"]


@pytest.mark.parametrize(("steps", "expected"), [("tracker", [7, 7]), ("run", [0, 1])])
def test_steps_are_those_of_the_tracker_or_of_the_run(steps: str, expected: list[int]) -> None:
    """As ``steps`` of ``mirror`` says."""
    options.chosen["wandb"] = options.Options(alerts=False, steps=steps)
    with watched() as (_, outbox):
        for _ in range(2):
            feed.take("wandb", Row({"acc": 0.5}, 7))
    assert [step for step, _ in outbox.series("acc")] == expected


def test_rows_before_the_run_arrive_when_it_begins() -> None:
    """They keep their steps."""
    feed.take("wandb", Row({"acc": 0.1}, 4))
    with watched() as (_, outbox):
        assert outbox.series("acc") == [(4, 0.1)]


def test_rows_before_the_run_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    """One warning says what to call."""
    for step in range(1002):
        feed.take("wandb", Row({"acc": 0.1}, step))
    with watched() as (_, outbox):
        assert [step for step, _ in outbox.series("acc")] == list(range(2, 1002))
    assert [one.message for one in caplog.records if "tocsin.watch" in one.message] != []


def test_rows_of_another_thread_arrive_after_a_step_of_the_run() -> None:
    """MLflow's autologging logs on other threads."""
    with watched() as (run, outbox):
        run.log(loss=1.0)
        thread = threading.Thread(target=lambda: feed.take("mlflow", Row({"acc": 0.1}, 4)))
        thread.start()
        thread.join()
        assert outbox.series("acc") == []
        run.log(loss=1.0)
        assert outbox.series("acc") == [(4, 0.1)]


def test_results_and_exceptions_are_those_of_the_tracker() -> None:
    """A call that fails logs nothing."""
    original = Tracker.log
    try:
        follow("wandb", Tracker, "log", lambda self, data, step=None: [Row(data, step)])
        with watched() as (_, outbox):
            assert Tracker().log({"acc": 1.0}, step=2) == "logged"
            with pytest.raises(ValueError, match="empty"):
                Tracker().log({})
            with pytest.raises(TypeError, match="unexpected keyword"):
                Tracker().log({"acc": 1.0}, commit=True)  # type: ignore[call-arg]
        assert outbox.series("acc") == [(2, 1.0)]
    finally:
        Tracker.log = original  # type: ignore[method-assign]


def test_a_tracker_without_the_method_is_named_in_one_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A version of another time; the script continues."""
    monkeypatch.setitem(sys.modules, "trackio", type("trackio", (), {"Run": Tracker})())
    monkeypatch.setattr(Tracker, "log", None)
    monkeypatch.delattr(Tracker, "log")
    monkeypatch.setattr(mirrors, "_installed", set())
    for _ in range(2):
        tocsin.mirror("trackio")
    (one,) = caplog.records
    assert "trackio is not mirrored: Tracker of version ? has no method log" in one.getMessage()


def test_an_unknown_tracker_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """The others are mirrored all the same."""
    with caplog.at_level(logging.WARNING):
        tocsin.mirror("tensorbord", "comet")
    assert 'unknown tracker "tensorbord" is ignored. Use one of: tensorboard, ' in caplog.text
    assert "comet" in options.chosen


def test_no_tracker_is_imported() -> None:
    """Nor anything else that the script does not import."""
    script = (
        "import sys, tocsin; tocsin.mirror()\n"
        "print({'torch', 'numpy', 'msgspec', 'wandb', 'mlflow', 'logging'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("given", "expected"),
    [("", list(mirrors.TRACKERS)), ("0", []), ("wandb, mlflow", ["wandb", "mlflow"])],
)
def test_the_variable_chooses_the_trackers(given: str, expected: list[str]) -> None:
    """Of ``tocsin run``."""
    assert list(mirrors.from_environment({"TOCSIN_MIRROR": given})) == expected


def test_an_unknown_name_in_the_variable_is_a_warning_of_the_first_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Once, because under ``tocsin run`` most processes start no run."""
    mirrors.from_environment({"TOCSIN_MIRROR": "wandb,ml-flow"})
    assert caplog.text == ""
    for _ in range(2):
        with watched():
            pass
    assert caplog.text.count('TOCSIN_MIRROR: unknown tracker "ml-flow" is ignored. Use one of: ') == 1
