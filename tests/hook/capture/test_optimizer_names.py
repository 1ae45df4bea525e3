"""Names of optimizers, from the part of the model that they train."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import nn

from tests.hook.captured import watched
from tocsin.capture.optimizer_names import labels


class Generator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(2, 4), nn.Linear(4, 2)


class Critic(nn.Linear):
    pass


def _of(modules: Sequence[nn.Module], *trained: Sequence[nn.Module]) -> list[str]:
    """Return the names of optimizers of ``trained`` modules, in a process with the given ``modules``."""
    optimizers = [torch.optim.SGD([p for one in some for p in one.parameters()], lr=0.1) for some in trained]
    every = [one for module in modules for one in module.modules()]
    found = labels(optimizers, every)
    return [found.get(id(one), "") for one in optimizers]


def test_parts_of_one_model_give_their_attributes() -> None:
    """In any wrapper; a number or ``model`` is not used."""
    actor, critic = nn.Sequential(nn.Linear(2, 2)), nn.Linear(2, 1)
    agent = nn.ModuleDict({"actor": nn.ModuleDict({"model": actor}), "critic": critic})
    assert _of([nn.ModuleList([agent])], [actor], [critic]) == ["actor", "critic"]


def test_models_of_their_own_give_their_classes() -> None:
    """For a model without a holder; several of a kind get the common prefix of their names."""
    one, other = Generator(), Critic(2, 1)
    assert _of([one, other], [one], [other]) == ["generator", "critic"]
    twins = [Critic(2, 1), Critic(2, 1)]
    assert _of([one, *twins], [one], twins) == ["generator", "critic"]


def test_indistinguishable_optimizers_get_no_label() -> None:
    """Two optimizers of one layer list, or of one model and one class."""
    one = Generator()
    assert _of([one], [one], [one]) == ["", ""]
    assert _of([nn.ModuleList([nn.Linear(2, 1), nn.Linear(2, 1)])], [nn.Linear(2, 1)]) == [""]


@pytest.mark.parametrize(("primary", "series"), [(None, "loss/critic"), ("critic", "loss/generator")])
def test_records_have_these_names_and_the_primary_may_be_chosen_by_one(
    primary: str | None, series: str
) -> None:
    """Instead of ``opt2``."""
    nets: dict[str, nn.Module] = {"generator": nn.Linear(2, 1), "critic": nn.Linear(2, 1)}
    whole = nn.ModuleDict(nets)
    each = {name: torch.optim.SGD(net.parameters(), lr=0.1) for name, net in nets.items()}
    with watched(primary=primary) as (_, outbox):
        for _ in range(2):
            for name, optimizer in each.items():
                optimizer.zero_grad()
                whole[name](torch.ones(2)).sum().backward()
                optimizer.step()
    assert len(outbox.series("loss")) == len(outbox.series(series)) == 2


class Trainer:
    """No module, as in pix2pix or CleanRL."""

    def __init__(self) -> None:
        self.generator, self.critic = nn.Linear(2, 1), nn.Linear(2, 1)


def test_an_attribute_of_a_trainer_gives_the_name() -> None:
    """Instead of the class of the module, which several parts share."""
    trainer = Trainer()
    parts = [trainer.generator, trainer.critic]
    assert _of(parts, [parts[0]], [parts[1]]) == ["generator", "critic"]


@pytest.mark.parametrize("primary", ["decoder", nn.Linear(2, 1)], ids=["name", "module"])
def test_a_primary_that_is_no_optimizer_warns_and_the_first_is_counted(
    primary: object, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise all its steps would be step 0."""
    net = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with watched(primary=primary) as (_, outbox):
        for _ in range(3):
            optimizer.zero_grad()
            net(torch.ones(2)).sum().backward()
            optimizer.step()
    assert [step for step, _ in outbox.series("loss")] == [0, 1, 2]
    assert "is none of the optimizers" in caplog.text
