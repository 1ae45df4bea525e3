"""Stable-Baselines3: planned and real optimizer steps of its algorithms, as JSON."""

from __future__ import annotations

import json
from typing import Any

import gymnasium
import numpy as np
from stable_baselines3 import A2C, DQN, PPO, SAC, TD3
from stable_baselines3.common.env_util import make_vec_env

from tests.real_trainers.trainings.sb3_dqn import Walk
from tocsin.integrations.stable_baselines3 import TocsinCallback, planned_steps


class Push(Walk):
    """The walk with an action of one number."""

    action_space = gymnasium.spaces.Box(-1, 1, (1,))

    def __init__(self) -> None:
        super().__init__("healthy")

    def step(self, action: Any) -> tuple[np.ndarray[Any, Any], float, bool, bool, dict[str, Any]]:
        return super().step(int(action[0] > 0))


class Planned(TocsinCallback):
    """Notes the planned steps."""

    def _on_training_start(self) -> None:
        self.planned = planned_steps(self.model)


def walk() -> Walk:
    """Return an environment."""
    return Walk("healthy")


def lengths(algorithm: Any, env: Any, total: int, **more: Any) -> list[tuple[int | None, int]]:
    """Return (planned, done) steps of the primary optimizer, after a training and after its continuation."""
    model = algorithm("MlpPolicy", env, device="cpu", seed=0, **more)
    optimizer = getattr(model.policy, "optimizer", None) or model.critic.optimizer
    done: list[int] = []
    optimizer.register_step_post_hook(lambda *_: done.append(1))
    found = []
    for continues in (False, True):
        callback = Planned()
        model.learn(total, callback=callback, reset_num_timesteps=not continues)
        found.append((callback.planned, len(done)))
    return found


if __name__ == "__main__":
    found = {
        "PPO": lengths(PPO, walk(), 300, n_steps=64, batch_size=20, n_epochs=3),
        "PPO, 3 environments": lengths(
            PPO, make_vec_env(walk, 3), 300, n_steps=16, batch_size=20, n_epochs=2
        ),
        "A2C": lengths(A2C, walk(), 52, n_steps=5),
        "DQN": lengths(DQN, walk(), 101, learning_starts=10, train_freq=3, gradient_steps=2),
        "DQN, 3 environments": lengths(
            DQN, make_vec_env(walk, 3), 301, learning_starts=20, train_freq=4, gradient_steps=-1
        ),
        "SAC": lengths(SAC, Push(), 60, learning_starts=10),
        "TD3": lengths(TD3, Push(), 60, learning_starts=10, train_freq=5),
    }
    print(json.dumps(found))
