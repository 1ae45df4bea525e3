"""On which steps the records of several optimizers lie."""

from __future__ import annotations

import pytest
import torch

from tests.hook.captured import KeptOutbox, watched


def _steps(order: str, primary: str = "a") -> dict[str, list[int]]:
    """Trains the optimizers named by the letters of ``order`` in that order."""
    nets = {name: torch.nn.Linear(2, 1) for name in sorted(set(order))}
    each = {name: torch.optim.SGD(net.parameters(), lr=0.1) for name, net in nets.items()}
    outbox: KeptOutbox
    with watched(optimizers=each, primary=each[primary]) as (_, outbox):
        for name in order:
            each[name].zero_grad()
            nets[name](torch.ones(2)).sum().backward()
            each[name].step()
    suffixes = {name: "" if name == primary else f"/{name}" for name in nets}
    return {name: [step for step, _ in outbox.series(f"stepped{end}")] for name, end in suffixes.items()}


@pytest.mark.parametrize(
    ("order", "steps"),
    [
        ("ababab", {"a": [0, 1, 2], "b": [0, 1, 2]}),
        ("aaabbb", {"a": [0, 1, 2], "b": [2, 3, 4]}),
        ("aaabcbcbc", {"a": [0, 1, 2], "b": [2, 3, 4], "c": [2, 3, 4]}),
        ("aabbbaa", {"a": [0, 1, 4, 5], "b": [1, 2, 3]}),
    ],
)
def test_one_that_trains_alone_has_steps_of_its_own(order: str, steps: dict[str, list[int]]) -> None:
    """In turn with the primary it shares the primary's steps; behind it the count goes on."""
    assert _steps(order) == steps


def test_a_critic_trained_more_often_stays_in_turn() -> None:
    """Five critic steps a generator step lie on the generator's step, from the second round on."""
    steps = _steps("gcccccgcccccgccccc", primary="g")
    assert steps["c"][5:] == [steps["g"][1]] * 5 + [steps["g"][2]] * 5


def test_long_blocks_in_turn_have_steps_of_their_own() -> None:
    """PPO trains its policy for a while, then its value function, then its policy again."""
    steps = _steps("a" * 3 + ("b" * 20 + "a" * 20) * 2)
    assert len(set(steps["b"])) == len(steps["b"])


def test_a_long_warm_up_before_the_primary_counts_steps() -> None:
    """A critic that is trained alone for a while does not stay on step 0."""
    assert _steps("b" * 20 + "a", primary="a")["b"][8:] == list(range(12))
