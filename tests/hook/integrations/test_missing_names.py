"""A version of a framework without a class or hook: one warning names it, and the training is recorded."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.hook.captured import watched
from tests.hook.integrations.stand_ins import installed
from tocsin.integrations import framework


def attach(module: Any) -> None:
    """Attach the handler of Ignite to an engine."""
    engine = SimpleNamespace(add_event_handler=lambda *_: None)
    module.TocsinHandler().attach(engine, engine)


def add(module: Any) -> None:
    """Add the callbacks of Ultralytics to a model without an event."""
    events = [event for event in module.EVENTS if event != "on_val_end"]
    module.add_tocsin_callback(SimpleNamespace(callbacks=events, add_callback=lambda *_: None))


USES: dict[str, Callable[[Any], Any]] = {
    "accelerate": lambda module: module.TocsinTracker("p").finish(),
    "composer": lambda module: module.TocsinLogger("p"),
    "fastai": lambda module: module.TocsinCallback().after_validate(),
    "ignite": attach,
    "keras": lambda module: module.TocsinCallback().on_test_end(),
    "lightning": lambda module: module.TocsinLogger("p").log_hyperparams({}),
    "optax": lambda module: module.observed("inner"),
    "stable_baselines3": lambda module: module.TocsinCallback()._on_step(),
    "timm": lambda module: module.watch_summary().close(),
    "torchtitan": lambda module: module.TocsinMetrics.Config(project="p"),
    "torchtune": lambda module: module.TocsinLogger("p").log_config({}),
    "transformers": lambda module: module.TocsinCallback().on_evaluate(None, None, None),
    "ultralytics": add,
}
"""What a script does with an integration."""
LACKING = [
    ("accelerate", "GeneralTracker"),
    ("accelerate", "store_init_configuration"),
    ("accelerate", "init_trackers"),
    ("composer", "LoggerDestination"),
    ("composer", "eval_start"),
    ("fastai", "Callback"),
    ("fastai", "event"),
    ("fastai", "before_validate"),
    ("fastai", "Recorder"),
    ("ignite", "EPOCH_STARTED"),
    ("keras", "Callback"),
    ("keras", "on_test_end"),
    ("lightning", "Callback"),
    ("lightning", "Logger"),
    ("lightning", "on_fit_start"),
    ("lightning", "log_hyperparams"),
    ("optax", "with_extra_args_support"),
    ("stable_baselines3", "BaseCallback"),
    ("stable_baselines3", "EvalCallback"),
    ("stable_baselines3", "KVWriter"),
    ("stable_baselines3", "_on_training_end"),
    ("timm", "update_summary"),
    ("torchtitan", "BaseLogger"),
    ("torchtitan", "MetricsProcessor"),
    ("torchtitan", "Config"),
    ("torchtitan", "_build_metric_logger"),
    ("torchtune", "scale_grads"),
    ("transformers", "TrainerCallback"),
    ("transformers", "INTEGRATION_TO_CALLBACK"),
    ("transformers", "on_predict"),
    ("ultralytics", "on_val_end"),
]


@pytest.fixture(autouse=True)
def nothing_warned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each warning is logged once per process."""
    monkeypatch.setattr(framework, "_warned", set())


def use(integration: str, *lacking: str) -> list[tuple[int, float]]:
    """Use an integration in a training of two steps; return the recorded losses."""
    with watched() as (_, outbox), installed(integration, *lacking) as module:
        USES[integration](module)
        net = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
        for _ in range(2):
            net(torch.ones(2)).sum().backward()
            optimizer.step()
        return outbox.series("loss")


@pytest.mark.parametrize(("integration", "lacking"), LACKING)
def test_one_warning_names_it(integration: str, lacking: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "tocsin"):
        assert [step for step, _ in use(integration, lacking)] == [0, 1]
    (warning,) = caplog.messages
    assert lacking in warning


@pytest.mark.parametrize("integration", [one for one in USES if one != "ultralytics"])
def test_a_complete_version_warns_of_nothing(integration: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "tocsin"):
        use(integration)
    assert caplog.messages == []


def test_a_framework_that_is_not_installed_is_an_import_error() -> None:
    with pytest.raises(ModuleNotFoundError, match="fastai"):
        importlib.import_module("tocsin.integrations.fastai")
