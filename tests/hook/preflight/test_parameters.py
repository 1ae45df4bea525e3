"""Parameters: frozen, missing, idle, tied, and the modules they are in."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from tests.hook.captured import KeptOutbox, watched
from tests.hook.loops.framework import Delegating
from tests.hook.preflight.checked import checked, found, net, train, unseen


def test_an_eps_in_a_module_of_the_script() -> None:
    """torch's own LayerNorm computes in float32, so neither its 1e-5 nor 1e-8 causes a finding."""

    class RMSNorm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.eps = 1e-8
            self.weight = nn.Parameter(torch.ones(6))

        def forward(self, x: Tensor) -> Tensor:
            return x * self.weight

    model = nn.Sequential(nn.LayerNorm(6, eps=1e-8), RMSNorm(), nn.Linear(6, 1)).half()
    outbox = checked(model, lambda: model(torch.ones(4, 6, dtype=torch.float16)).mean())
    subjects = [one["subject"] for one in found(outbox, "eps-underflow")]
    assert subjects == ["eps of opt1 (AdamW)", "1 (RMSNorm.eps)"]


def test_frozen_missing_and_idle_parameters_are_distinguished() -> None:
    """Frozen by a flag, given to no optimizer, reached by no backward."""
    model = nn.ModuleDict({name: nn.Linear(6, 1) for name in ("used", "frozen", "missing", "idle")})
    model["frozen"].requires_grad_(False)
    given = [*model["used"].parameters(), *model["idle"].parameters(), *model["frozen"].parameters()]
    optimizer = torch.optim.SGD(given, lr=0.1)
    with watched(model=model) as (_, outbox):
        train(
            model,
            lambda: (model["used"](torch.ones(2, 6)) + model["missing"](torch.ones(2, 6))).mean(),
            optimizer,
            10,
        )
    assert [one["subject"] for one in found(outbox, "frozen-parameters")] == ["frozen.weight, frozen.bias"]
    assert [one["subject"] for one in found(outbox, "missing-parameters")] == ["missing.weight, missing.bias"]
    for stage, severity in (("first-step", "info"), ("step-10", "warning")):
        (idle,) = found(outbox, "parameters-without-gradient", stage)
        assert (idle["subject"], idle["severity"]) == ("idle.weight, idle.bias", severity)


def test_a_parameter_used_from_the_second_step_on_causes_no_warning() -> None:
    """The check is repeated at the tenth step."""
    model, step = nn.ModuleDict({"a": nn.Linear(6, 1), "late": nn.Linear(6, 1)}), iter(range(99))

    def forward() -> Tensor:
        out: Tensor = model["a"](torch.ones(2, 6))
        return (out if next(step) < 1 else out + model["late"](torch.ones(2, 6))).mean()

    outbox = checked(model, forward, steps=10)
    assert len(found(outbox, "parameters-without-gradient")) == 1
    assert found(outbox, "parameters-without-gradient", "step-10") == []


def test_tied_weights_and_weights_registered_twice() -> None:
    """One Parameter with two names is usual; two Parameters on one memory are updated twice."""
    tied = nn.Sequential(nn.Linear(6, 6, bias=False), nn.Linear(6, 6, bias=False))
    tied[1].weight = tied[0].weight
    (finding,) = found(checked(tied), "shared-weights")
    assert (finding["severity"], finding["subject"]) == ("info", "0.weight = 1.weight")
    twins = nn.Sequential(nn.Linear(6, 6, bias=False), nn.Linear(6, 6, bias=False))
    twins[1].weight = nn.Parameter(twins.get_parameter("0.weight").data)
    (finding,) = found(checked(twins), "shared-weights")
    assert (finding["severity"], finding["subject"]) == ("warning", "0.weight = 1.weight")
    turned = nn.Sequential(nn.Linear(6, 2, bias=False), nn.Linear(2, 6, bias=False))
    turned[1].weight = nn.Parameter(turned.get_parameter("0.weight").data.t())
    (finding,) = found(checked(turned), "shared-weights")
    assert (finding["severity"], finding["subject"]) == ("warning", "0.weight = 1.weight")


def test_the_model_is_found_if_none_is_passed() -> None:
    """It is the outermost module that owns what the optimizer steps."""
    inner = net()
    model = nn.Sequential(inner)
    extra = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(inner[0].parameters(), lr=0.1)
    with watched() as (_, outbox):
        train(model, lambda: model(torch.ones(4, 6)).mean(), optimizer)
    assert [one["subject"] for one in found(outbox, "missing-parameters")] == ["0.2.weight, 0.2.bias"]
    assert extra.weight.requires_grad


def test_without_a_model_missing_parameters_are_not_checkable() -> None:
    """A parameter that belongs to no module is reported as not checkable."""
    alone = nn.Parameter(torch.ones(3))
    with watched() as (_, outbox):
        train(nn.Identity(), lambda: alone.mean(), torch.optim.SGD([alone], lr=0.1))
    assert "no model; pass" in unseen(outbox)


def _findings(outbox: KeptOutbox, *severities: str) -> list[str]:
    every = [one for event in outbox.events("preflight") for one in event["findings"]]
    return [one["check"] for one in every if one["severity"] in severities]


def test_copies_that_the_script_updates_itself_are_not_missing() -> None:
    """An agent holds its target network, a model its averaged weights: no backward reaches them."""
    agent = nn.ModuleDict({"critic": nn.Linear(6, 1)})
    agent["target"], agent["average"] = copy.deepcopy(agent["critic"]), copy.deepcopy(agent["critic"])
    optimizer = torch.optim.SGD(agent["critic"].parameters(), lr=0.1)
    batch = torch.ones(2, 6)

    def loss() -> Tensor:
        with torch.no_grad():
            wanted = agent["target"](batch)
        out: Tensor = (agent["critic"](batch) - wanted).pow(2).mean()
        return out

    with watched(model=agent) as (_, outbox):
        train(agent, loss, optimizer, 10)
    assert _findings(outbox, "warning", "info") == []


def test_a_small_unused_part_causes_no_warning() -> None:
    """Such as the pooler of an encoder whose tokens alone are used."""
    model = nn.ModuleDict({"encoder": nn.Linear(64, 64), "pooler": nn.Linear(64, 1)})
    outbox = checked(model, lambda: model["encoder"](torch.ones(2, 64)).mean(), steps=10)
    (finding,) = found(outbox, "parameters-without-gradient")
    assert finding["subject"] == "pooler.weight, pooler.bias"
    assert _findings(outbox, "warning", "info") == ["parameters-without-gradient"]


def test_one_module_under_two_names_is_not_tied() -> None:
    """As Fabric's ``_forward_module`` and ``_original_module``."""
    model = nn.Module()
    model._forward_module = model._original_module = inner = net()
    outbox = checked(model, lambda: inner(torch.ones(4, 6)).mean())
    assert _findings(outbox, "warning", "info") == []


def test_an_optimizer_around_another_shares_nothing() -> None:
    """A wrapper of a framework, and one that steps another inside."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    around = [Delegating(optimizer), torch.optim.SGD(optimizer.param_groups, lr=0.1)]
    with watched(model=model) as (_, outbox):
        train(model, lambda: model(torch.ones(4, 6)).mean(), optimizer, 10)
    assert len(around) == 2
    assert _findings(outbox, "warning", "info") == []


def test_optimizers_that_share_parameters_are_reported_as_info() -> None:
    """InfoGAN's third optimizer steps the parameters of the other two."""
    model = net()
    both = [torch.optim.SGD(model.parameters(), lr=0.1) for _ in range(2)]
    with watched(model=model, optimizers={"a": both[0], "b": both[1]}) as (_, outbox):
        for _ in range(2):
            for each in both:
                train(model, lambda: model(torch.ones(4, 6)).mean(), each)
    assert _findings(outbox, "warning") == []
