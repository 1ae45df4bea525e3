"""Project and configuration, guessed from the script."""

from __future__ import annotations

import argparse
import dataclasses
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch

from tocsin.auto.guesses import config_of, planned_steps_of
from tocsin.core.script import project_of


@dataclasses.dataclass
class TrainArguments:
    """A configuration as scripts declare it."""

    lr: float = 0.1


class Trainer:
    """A framework's trainer, which holds its arguments."""

    def __init__(self) -> None:
        self.args = TrainArguments(0.3)

    def train(self) -> Any:
        """Begin to train."""
        return config_of(sys._getframe())


def test_arguments_of_argparse_are_found() -> None:
    """Whatever their name."""
    parsed: Any = argparse.Namespace(lr=0.1)
    assert config_of(sys._getframe()) is parsed


def test_a_named_mapping_of_plain_values_is_found() -> None:
    """Such as nanoGPT's ``config``; one of tensors is not a configuration."""
    config = {"lr": 0.1}
    params = {"weight": torch.zeros(2)}
    assert config_of(sys._getframe()) is config
    del params


def test_several_configurations_keep_their_names() -> None:
    """As in scripts of transformers."""
    model_args, train_args = TrainArguments(0.1), TrainArguments(0.2)
    assert config_of(sys._getframe()) == {"model_args": model_args, "train_args": train_args}


def test_the_arguments_of_a_trainer_are_found() -> None:
    """Also if the script keeps them in no variable."""
    assert Trainer().train() == TrainArguments(0.3)


def test_variables_of_an_installed_library_are_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in a folder of PYTHONPATH that pip has installed it into, as Hydra's own configuration."""
    (tmp_path / "hydra_core-1.3.8.dist-info").mkdir()
    names: dict[str, Any] = {"find": lambda: config_of(sys._getframe())}
    source = "def main(args):\n    args = dict(args)\n    return find()\n"
    exec(compile(source, str(tmp_path / "hydra.py"), "exec"), names)
    assert names["main"]({"job": 3}) == {"job": 3}
    monkeypatch.setattr(sys, "path", [sys.path[0], str(tmp_path), *sys.path[1:]])
    assert names["main"]({"job": 3}) is None


def test_no_configuration_is_none() -> None:
    """Other variables are ignored."""
    lr, names = 0.1, ["a"]
    assert config_of(sys._getframe()) is None
    del lr, names


@pytest.mark.parametrize(
    ("config", "planned"),
    [
        ({"max_iters": 5000, "lr_decay_iters": 600}, 5000),
        (argparse.Namespace(max_train_steps=300), 300),
        ({"model_args": TrainArguments(), "args": argparse.Namespace(max_steps=80)}, 80),
        ({"max_steps": -1, "max_iters": "many", "train_steps": True}, None),
        ({"max_steps": 10, "train_iters": 20}, None),
        ({"trainer": argparse.Namespace(max_iters=70), "model": {"layers": 3}}, 70),
        ({"total_timesteps": 2048, "num_iterations": 4}, None),
        (None, None),
    ],
)
def test_planned_steps_are_a_setting_that_counts_them(config: Any, planned: int | None) -> None:
    """In any section. If several disagree, or count steps of an environment, the length is unknown."""
    assert planned_steps_of(config) == planned


class TrainerState:
    """What a Trainer of transformers knows once it trains."""

    max_steps = 90


def test_a_trainer_has_counted_its_steps() -> None:
    """Its arguments may say only the number of epochs."""
    trainer = Trainer()
    trainer.__dict__["state"] = TrainerState()

    def train(self: Trainer) -> int | None:
        return planned_steps_of({"max_steps": -1}, sys._getframe())

    assert train(trainer) == 90


class LightningTrainer:
    """What Lightning's Trainer says of its fit."""

    estimated_stepping_batches: float = 60

    def fit(self) -> int | None:
        """Begin to train."""
        return planned_steps_of(None, sys._getframe())


def test_lightnings_trainer_has_counted_its_steps() -> None:
    """Infinite if it has no end."""
    trainer = LightningTrainer()
    assert trainer.fit() == 60
    trainer.estimated_stepping_batches = float("inf")
    assert trainer.fit() is None


def test_the_search_keeps_no_tensor_alive() -> None:
    """Reading a frame's variables must not hold the first step's activations for the whole training."""
    activations = torch.zeros(2)
    alive = weakref.ref(activations)
    config_of(sys._getframe())
    del activations
    assert alive() is None


def test_the_project_is_the_name_of_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the script, else of the working directory; ``TOCSIN_PROJECT`` replaces it."""
    folder = tmp_path / "deblur" / "scripts"
    folder.mkdir(parents=True)
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(folder / "train.py"), raising=False)
    assert project_of({}) == "scripts"
    (tmp_path / "deblur" / ".git").mkdir()
    assert project_of({}) == "deblur"
    assert project_of({"TOCSIN_PROJECT": "other"}) == "other"
