"""Stable-Baselines3: `TocsinCallback` adds settings, rewards and the metrics of its logger.

Run `pip install stable-baselines3` and `python examples/sb3_cartpole.py`.
"""

from stable_baselines3 import DQN

from tocsin.integrations.stable_baselines3 import TocsinCallback

STEPS = 300
FIRST = 100  # steps in the environment before the first of the optimizer


def main() -> None:
    model = DQN("MlpPolicy", "CartPole-v1", learning_starts=FIRST, train_freq=1, seed=0, device="cpu")
    model.learn(FIRST + STEPS, callback=TocsinCallback(project="examples", name="sb3"))


if __name__ == "__main__":
    main()
