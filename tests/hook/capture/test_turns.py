"""Step numbers of the records of several optimizers."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.hook.captured import KeptOutbox, watched


def _steps(order: str, primary: str = "a", **options: Any) -> dict[str, list[int]]:
    """Train the optimizers named by the letters of ``order`` in that order; return the steps of each."""
    nets = {name: torch.nn.Linear(2, 1) for name in sorted(set(order))}
    each = {name: torch.optim.SGD(net.parameters(), lr=0.1) for name, net in nets.items()}
    outbox: KeptOutbox
    with watched(optimizers=each, primary=each[primary], **options) as (_, outbox):
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
        ("bababa", {"a": [0, 1, 2], "b": [0, 1, 2]}),
        ("cbacba", {"a": [0, 1], "b": [0, 1], "c": [0, 1]}),
        ("bbabba", {"a": [0, 1], "b": [0, 0, 1, 1]}),
        ("bacbac", {"a": [0, 1], "b": [0, 1], "c": [0, 1]}),
    ],
)
def test_one_that_trains_alone_has_steps_of_its_own(order: str, steps: dict[str, list[int]]) -> None:
    """In alternation with the primary it shares the primary's steps; after it, the count continues."""
    assert _steps(order) == steps


@pytest.mark.parametrize(
    ("order", "steps"),
    [
        ("a" * 10 + "bababa", {"a": list(range(13)), "b": [9, 10, 11]}),
        (("c" * 10 + "g") * 3, {"c": list(range(30)), "g": [9, 19, 29]}),
        ("a" * 10 + "bcabca", {"a": list(range(12)), "b": [9, 10], "c": [9, 10]}),
        ("a" * 10 + "bcbc", {"a": list(range(10)), "b": [10, 11], "c": [10, 11]}),
        ("a" * 10 + "b", {"a": list(range(10)), "b": [9]}),
    ],
)
def test_one_that_starts_late_and_alternates_takes_no_step(order: str, steps: dict[str, list[int]]) -> None:
    """A discriminator that starts after 10 steps does not shift the generator's steps."""
    assert _steps(order, primary=order[0]) == steps


def test_a_late_start_keeps_the_order_of_records_and_loses_none() -> None:
    """The first record waits for the next step, and is sent before it."""
    nets = [torch.nn.Linear(2, 1) for _ in range(2)]
    first, second = (torch.optim.SGD(net.parameters(), lr=0.1) for net in nets)
    with watched() as (_, outbox):
        for k in range(12):
            for net, optimizer in zip(nets, (first, second), strict=True):
                if optimizer is first or k >= 10:
                    optimizer.zero_grad()
                    net(torch.ones(2)).sum().backward()
                    optimizer.step()
    names = ["a" if "stepped" in record else "b" for record in outbox.records]
    assert "".join(names) == "a" * 10 + "abab"
    assert [step for step, _ in outbox.series("loss/opt2")] == [10, 11]


def test_an_optimizer_before_the_primary_that_skips_the_first_iteration_counts_as_after_it() -> None:
    """A limit: iterations "a", "ba", "ba" are the same sequence of steps as "ab", "ab", "a"."""
    assert _steps("ababa", primary="a") == {"a": [0, 1, 2], "b": [0, 1]}


def test_a_critic_trained_more_often_stays_in_turn() -> None:
    """Five critic steps per generator step have the generator's step, from the second round on."""
    steps = _steps("gcccccgcccccgccccc", primary="g")
    assert steps["c"][5:] == [steps["g"][1]] * 5 + [steps["g"][2]] * 5


def test_long_alternating_blocks_have_separate_steps() -> None:
    """PPO trains its policy for a while, then its value function, then its policy again."""
    steps = _steps("a" * 3 + ("b" * 20 + "a" * 20) * 2)
    assert len(set(steps["b"])) == len(steps["b"])


def test_a_long_warm_up_before_the_primary_counts_steps() -> None:
    """A critic that is trained alone for a while does not stay on step 0."""
    assert _steps("b" * 20 + "a", primary="a")["b"][8:] == list(range(12))


@pytest.mark.parametrize("count", [10, 60])
def test_a_second_training_shares_no_step_with_the_first(count: int) -> None:
    """Three optimizers that are trained one after the other have 3 x ``count`` different steps."""
    steps = _steps("a" * count + "b" * count + "c" * count)
    assert steps["a"] + steps["b"] + steps["c"] == list(range(3 * count))


def test_a_primary_that_trains_again_has_steps_of_its_own() -> None:
    """Two blocks of each: no step is used twice."""
    steps = _steps(("a" * 20 + "b" * 20) * 2)
    assert sorted(steps["a"] + steps["b"]) == list(range(80))


def test_what_a_second_training_logs_is_on_its_steps() -> None:
    """Also before its first step, between backward and step."""
    nets = [torch.nn.Linear(2, 1) for _ in range(2)]
    each = [torch.optim.SGD(net.parameters(), lr=0.1) for net in nets]
    with watched() as (run, outbox):
        for net, optimizer in zip(nets, each, strict=True):
            for _ in range(20):
                optimizer.zero_grad()
                net(torch.ones(2)).sum().backward()
                run.log(seen=1.0)
                optimizer.step()
    assert [step for step, _ in outbox.series("seen")] == list(range(40))


def test_steps_before_the_primary_begin_at_the_start_step() -> None:
    """``start_step`` is the first step of an optimizer that steps before the primary, too."""
    assert _steps("baba", start_step=100) == {"a": [100, 101], "b": [100, 101]}
