"""Stable-Baselines3: a DQN, whose target network is not trained by an optimizer, with its CSV logger."""

from __future__ import annotations

import csv
import tempfile
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback, EvalCallback
from stable_baselines3.common.logger import CSVOutputFormat, Logger
from stable_baselines3.common.monitor import Monitor
from torch import nn

from tests.real_trainers.trainings.cases import OwnLog, is_watched, main, uses_integration
from tests.real_trainers.trainings.length import BROKEN_AT, STEPS

FIRST = 32
"""Steps in the environment before the first of the optimizer."""


class Walk(gymnasium.Env):
    """A walk on a line with a higher reward near 0. In the broken case, a reward is NaN."""

    observation_space = gymnasium.spaces.Box(-10, 10, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, case: str) -> None:
        self.case, self.taken = case, 0
        self.place = 0.0

    def reset(
        self, *, seed: int | None = None, options: Any = None
    ) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
        super().reset(seed=seed)
        self.place = float(self.np_random.uniform(-5, 5))
        return self.seen(), {}

    def step(self, action: Any) -> tuple[np.ndarray[Any, Any], float, bool, bool, dict[str, Any]]:
        self.taken += 1
        self.place = float(np.clip(self.place + (1 if action else -1), -10, 10))
        breaks = self.case == "broken" and self.taken == FIRST + BROKEN_AT
        reward = float("nan") if breaks else -abs(self.place) / 10
        return self.seen(), reward, False, self.taken % 20 == 0, {}

    def seen(self) -> np.ndarray[Any, Any]:
        """Return the observation."""
        return np.array([self.place], np.float32)


class Copied(BaseCallback):
    """Copies the logger's values of the previous update."""

    def __init__(self, log: OwnLog) -> None:
        super().__init__()
        self.log = log

    def _on_rollout_start(self) -> None:
        values = self.logger.name_to_value
        if "train/loss" in values:
            step = values["train/n_updates"] - 1
            self.log.note(int(step), loss=values["train/loss"], lr=values["train/learning_rate"])

    _on_training_end = _on_rollout_start

    def _on_step(self) -> bool:
        return True


class Closed(Logger):
    """A logger without a list of outputs."""

    def __init__(self) -> None:
        super().__init__(None, [])
        del self.output_formats

    def dump(self, step: int = 0) -> None:
        self.name_to_value.clear()


def callbacks(log: OwnLog) -> list[BaseCallback]:
    """Return the callbacks, with one that evaluates every 20 steps."""
    tested = Monitor(Walk("healthy"))
    found = [Copied(log), EvalCallback(tested, n_eval_episodes=2, eval_freq=20, verbose=0)]
    if is_watched():
        from tocsin.integrations.stable_baselines3 import TocsinCallback

        found.append(TocsinCallback())
    return found


def read(written: Path, log: OwnLog) -> None:
    """Note the rows of the CSV logger. Rows before the first optimizer step belong to it."""
    for row in csv.DictReader(written.open()):
        step = max(int(row["time/total_timesteps"]) - FIRST - 2, 0)
        values = {name: float(value) for name, value in row.items() if value}
        evaluated = {name: value for name, value in values.items() if name.startswith("eval/")}
        log.note_evaluation(step, **{name.removeprefix("eval/"): value for name, value in evaluated.items()})
        logged = {name: value for name, value in values.items() if name.startswith("rollout/")}
        log.note_metrics(step, **logged | {"time/total_timesteps": values["time/total_timesteps"]})


@uses_integration
def train(case: str, log: OwnLog) -> nn.Module:
    """Learn the walk."""
    model = DQN(
        "MlpPolicy",
        Walk(case),
        learning_starts=FIRST,
        train_freq=1,
        batch_size=32,
        target_update_interval=20,
        learning_rate=lambda left: 1e-3 * left,
        policy_kwargs={"net_arch": [32]},
        seed=0,
        device="cpu",
    )
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "progress.csv"
        logger = Logger(folder, [CSVOutputFormat(str(written))])
        model.set_logger(Closed() if case == "lacking" else logger)
        model.learn(FIRST + STEPS, callback=callbacks(log), log_interval=1)
        logger.close()
        read(written, log)
    log.planned, log.setting = model._n_updates, ("batch_size", model.batch_size)
    trained: nn.Module = model.policy
    return trained


if __name__ == "__main__":
    main(train, "stable-baselines3", "healthy", "broken", "lacking")
