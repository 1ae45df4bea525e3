"""Trainings that show the same symptom for different reasons.

One classifier with one fault: ``SCENARIOS`` lists which, and which words the diagnosis must have. Some causes
cannot be told apart by what is logged; then one sentence must name both.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from tests.scenarios.evaluation import Training, seeded
from tocsin.api.run import Run

STEPS, TROUBLE = 300, 220
WIDTH, BATCH = 32, 32


@dataclass
class State:
    """A training in progress, for the faults."""

    run: Run
    model: nn.Sequential
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler | None
    draw: torch.Generator
    step: int = 0
    inputs: Tensor = field(default_factory=lambda: torch.empty(0))
    target: Tensor = field(default_factory=lambda: torch.empty(0))

    @property
    def trouble(self) -> bool:
        """Whether the fault is active."""
        return self.step >= TROUBLE


Change = Callable[[State], None]
Computed = Callable[[State, Tensor, Tensor], Tensor]


def _nothing(_state: State) -> None:
    return


def _plain(_state: State, _outputs: Tensor, loss: Tensor) -> Tensor:
    return loss


@dataclass(frozen=True)
class Fault:
    """What differs from the sound training.

    ``batch`` changes the batch, ``loss`` the loss, ``before`` runs before a step and ``after`` after
    the update; ``update`` replaces the update.
    """

    batch: Change = _nothing
    loss: Computed = _plain
    before: Change = _nothing
    after: Change = _nothing
    update: Change | None = None
    rate: float = 0.05
    scale: float | None = None
    steps: int = STEPS
    adam: bool = False
    saturating: bool = False
    classes: int = 16


def centres(classes: int) -> Tensor:
    """Return the centers of the classes [classes, WIDTH]."""
    return torch.randn(classes, WIDTH, generator=torch.Generator().manual_seed(seeded(1)))


def training(fault: Fault) -> Training:
    """Return the training of the classifier with ``fault``."""

    def train(run: Run) -> None:
        hidden: nn.Module = nn.Sigmoid() if fault.saturating else nn.GELU()
        model = nn.Sequential(nn.Linear(WIDTH, 64), hidden, nn.Linear(64, fault.classes))
        kind = torch.optim.Adam if fault.adam else torch.optim.SGD
        optimizer: torch.optim.Optimizer = kind(model.parameters(), lr=fault.rate)
        scaler = None if fault.scale is None else torch.amp.GradScaler("cpu", init_scale=fault.scale)
        draw = torch.Generator().manual_seed(seeded(2))
        state = State(run, model, optimizer, scaler, draw)
        middle = centres(fault.classes)
        for state.step in range(fault.steps):
            state.target = torch.randint(fault.classes, (BATCH,), generator=draw)
            state.inputs = middle[state.target] + torch.randn(BATCH, WIDTH, generator=draw)
            fault.batch(state)
            fault.before(state)
            with torch.autocast("cpu", dtype=torch.float16, enabled=scaler is not None):
                outputs = state.model(state.inputs)
                loss = fault.loss(state, outputs, cross_entropy(outputs.float(), state.target))
            (loss if scaler is None else scaler.scale(loss)).backward()
            (fault.update or usual_update)(state)
            state.optimizer.zero_grad()
            fault.after(state)

    return train


def usual_update(state: State) -> None:
    """Unscale, measure the norm, update."""
    if state.scaler is None:
        torch.nn.utils.clip_grad_norm_(state.model.parameters(), 1e4)
        state.optimizer.step()
        return
    state.scaler.unscale_(state.optimizer)
    torch.nn.utils.clip_grad_norm_(state.model.parameters(), 1e4)
    state.scaler.step(state.optimizer)
    state.scaler.update()


# Batches


def not_a_number(state: State) -> None:
    """Every batch has a NaN from the fault on, unchecked."""
    if state.trouble:
        state.inputs[3, 2] = math.nan


def not_a_number_checked(state: State) -> None:
    not_a_number(state)
    state.run.check(batch=state.inputs)


def now_and_then(state: State) -> None:
    """Every fourth batch has a NaN; its id is reported."""
    state.run.batch({"shard": state.step % 40})
    if state.trouble and state.step % 4 == 0:
        state.inputs[3, 2] = math.nan


def now_and_then_unnamed(state: State) -> None:
    """Every third batch has a NaN, and no id is reported."""
    if state.trouble and state.step % 3 == 0:
        state.inputs[3, 2] = math.nan


def scaled_inputs(state: State) -> None:
    """The new shard is not normalized."""
    if state.trouble:
        state.inputs = 30 * state.inputs


def few_scaled_inputs(state: State) -> None:
    """Two batches are not normalized."""
    if state.trouble and state.step < TROUBLE + 2:
        state.inputs = 100 * state.inputs


def huge_inputs(state: State) -> None:
    """The new shard has values that overflow fp16 in the first product."""
    if state.trouble:
        state.inputs = 3e4 * state.inputs


def other_labels(state: State) -> None:
    """The labels of the new shard are shuffled."""
    if state.trouble:
        order = torch.randperm(BATCH, generator=state.draw)
        state.target = state.target[order]


def random_labels(state: State) -> None:
    """The labels never had to do with the inputs."""
    classes = int(state.model[-1].out_features)
    state.target = torch.randint(classes, (BATCH,), generator=state.draw)


def one_class(state: State) -> None:
    """Every sample has the same class."""
    state.target = torch.zeros(BATCH, dtype=torch.long)


def all_zero(state: State) -> None:
    """The loader returns zeros for inputs from the start: nothing to learn from."""
    state.inputs = torch.zeros(BATCH, WIDTH)


# Losses


def root_of_negative(state: State, outputs: Tensor, loss: Tensor) -> Tensor:
    """A square root without protection."""
    return loss + 1e-3 * torch.sqrt(outputs.float()).mean() if state.trouble else loss


def root_of_negative_reported(state: State, outputs: Tensor, loss: Tensor) -> Tensor:
    """The same, with each term reported."""
    term = torch.sqrt(outputs.float()).mean() if state.trouble else outputs.float().abs().mean()
    state.run.check(losses={"entropy": loss, "root": term})
    return loss + 1e-3 * term


def half_exponential(state: State, outputs: Tensor, loss: Tensor) -> Tensor:
    """An exponential in half precision that overflows."""
    return loss + 1e-3 * (8 * outputs.half()).exp().sum(dim=1).log().mean().float() if state.trouble else loss


def half_sum_of_squares(state: State, outputs: Tensor, loss: Tensor) -> Tensor:
    """A penalty summed in half precision that overflows."""
    return loss + 1e-9 * (200 * outputs.half()).pow(2).sum().float() if state.trouble else loss


def detached(_state: State, outputs: Tensor, loss: Tensor) -> Tensor:
    """The graph is cut: what is trained does not depend on the weights."""
    return loss.detach() + 0 * outputs.sum()


def detached_later(state: State, outputs: Tensor, loss: Tensor) -> Tensor:
    return detached(state, outputs, loss) if state.trouble else loss


def summed(state: State, _outputs: Tensor, loss: Tensor) -> Tensor:
    """The reduction changes from mean to sum, and the rate follows."""
    return loss


def clamped(state: State, _outputs: Tensor, loss: Tensor) -> Tensor:
    """A clamp cuts off the loss and with it the gradient."""
    return (loss + 20 * state.trouble).clamp(max=10.0)


def rising_penalty(state: State, outputs: Tensor, loss: Tensor) -> Tensor:
    """A penalty whose weight rises over the run, as a KL term's does."""
    return loss + 0.02 * state.step / STEPS * 10 * (outputs.float().pow(2).mean() + 5)


# Before and after a step


def rate_rises(state: State) -> None:
    if state.trouble:
        state.optimizer.param_groups[0]["lr"] = 0.05 * 1.6 ** (state.step - TROUBLE)


def rate_jumps(state: State) -> None:
    """A schedule in the wrong unit."""
    if state.step == TROUBLE:
        state.optimizer.param_groups[0]["lr"] *= 400


def rate_vanishes(state: State) -> None:
    if state.step == TROUBLE:
        state.optimizer.param_groups[0]["lr"] = 0.0


def schedule_restarts(state: State) -> None:
    """A cosine over half of the run, repeated."""
    state.optimizer.param_groups[0]["lr"] = 1e-4 + 3.0 * (1 + math.cos(math.pi * (state.step % 150) / 150))


def rebuilt(state: State) -> None:
    """The weights are initialized again, as after a checkpoint that was not loaded."""
    if state.step == TROUBLE:
        for module in state.model:
            if isinstance(module, nn.Linear):
                module.reset_parameters()


def corrupted(state: State) -> None:
    """A buggy average writes NaN into the weights."""
    if state.step == TROUBLE:
        with torch.no_grad():
            next(state.model.parameters())[0, 0] = math.nan


def frozen(state: State) -> None:
    """Nothing but a scale of the outputs can be trained."""
    if state.step == 0:
        for parameter in state.model.parameters():
            parameter.requires_grad_(False)
        list(state.model.parameters())[-1].requires_grad_(True)


# Updates


def never_told(state: State) -> None:
    """Steps with overflows are abandoned before the scaler learns of them."""
    assert state.scaler is not None
    norm = torch.nn.utils.clip_grad_norm_(state.model.parameters(), 1e4)
    if torch.isfinite(norm):
        state.scaler.step(state.optimizer)
        state.scaler.update()


def not_unscaled(state: State) -> None:
    """Clip and measure the scaled gradients."""
    assert state.scaler is not None
    torch.nn.utils.clip_grad_norm_(state.model.parameters(), 1.0)
    state.scaler.step(state.optimizer)
    state.scaler.update()


def no_step(state: State) -> None:
    """optimizer.step() was removed from the inner loop of another group: weights never change."""
    for parameter in state.model.parameters():
        if parameter.grad is not None:
            parameter.grad.mul_(0)
    usual_update(state)


@dataclass(frozen=True)
class Scenario:
    """A symptom, its true cause, and words of the cause that must be named.

    ``words``: any of them in the likely cause counts as first, in the first other explanation as second.
    ``either``: the cause cannot be told from another one; the words name both.
    """

    symptom: str
    cause: str
    fault: Fault
    words: tuple[str, ...]
    either: bool = False

    def __str__(self) -> str:
        return f"{self.symptom}: {self.cause}"


DATA = (
    "batch itself",
    "different data",
    "one batch",
    "the data",
    "bad batch",
    "unusual batch",
    "some batches",
)
RATE = ("learning rate",)
OPERATION = ("operation", "log, sqrt or division")
NAN, OVERFLOW, SPIKE, CLIMB, FLAT, ZERO = (
    "loss becomes NaN", "loss scale falls", "loss jumps", "loss climbs", "loss stays flat", "norm is 0",
)  # fmt: skip
SCENARIOS = (
    Scenario(NAN, "NaN in the batch, checked", Fault(batch=not_a_number_checked), ("batch itself",)),
    Scenario(NAN, "NaN in the batch", Fault(batch=not_a_number), ("one batch",), either=True),
    Scenario(NAN, "square root of a negative", Fault(loss=root_of_negative), ("sqrt",), either=True),
    Scenario(NAN, "a term, reported", Fault(loss=root_of_negative_reported), ("root",)),
    Scenario(NAN, "rate rises", Fault(before=rate_rises), RATE),
    Scenario(NAN, "rate jumps", Fault(before=rate_jumps), RATE),
    Scenario(NAN, "weights corrupted", Fault(before=corrupted), ("weights",)),
    Scenario(
        OVERFLOW,
        "NaN in the batch, checked",
        Fault(batch=not_a_number_checked, scale=2.0**10),
        ("batch itself",),
    ),
    Scenario(OVERFLOW, "NaN in some batches", Fault(batch=now_and_then_unnamed, scale=2.0**10), ("batch",)),
    Scenario(OVERFLOW, "NaN in some named batches", Fault(batch=now_and_then, scale=2.0**10), ("shard 20",)),
    Scenario(OVERFLOW, "an operation", Fault(loss=half_exponential, scale=2.0**10), OPERATION),
    Scenario(
        OVERFLOW, "a sum in half precision", Fault(loss=half_sum_of_squares, scale=2.0**10), ("overflows",)
    ),
    Scenario(OVERFLOW, "inputs out of range", Fault(batch=huge_inputs, scale=2.0**10), ("data", "batch")),
    Scenario(OVERFLOW, "rate rises", Fault(before=rate_rises, scale=2.0**10), RATE),
    Scenario(OVERFLOW, "the scaler is not told", Fault(update=never_told, scale=2.0**20), ("scaler",)),
    Scenario(SPIKE, "inputs not normalized", Fault(batch=scaled_inputs), DATA),
    Scenario(SPIKE, "two bad batches", Fault(batch=few_scaled_inputs), DATA),
    Scenario(SPIKE, "rate jumps", Fault(before=rate_jumps, rate=0.02), RATE),
    Scenario(SPIKE, "weights initialized again", Fault(before=rebuilt), ("initial",)),
    Scenario(SPIKE, "labels shuffled", Fault(batch=other_labels), DATA),
    Scenario(FLAT, "labels unrelated", Fault(batch=random_labels, steps=1400, classes=128), ("labels",)),
    Scenario(
        FLAT, "rate of 0", Fault(rate=0.0, steps=1400, classes=128), ("learning rate is 0", "never above 0")
    ),
    Scenario(FLAT, "rate far too low", Fault(rate=1e-9, steps=1400, classes=128), RATE),
    Scenario(FLAT, "graph cut", Fault(loss=detached, steps=1400, classes=128), ("gradient",)),
    Scenario(FLAT, "layers frozen", Fault(before=frozen, steps=1400, classes=128), ("gradient", "layers")),
    Scenario(
        FLAT, "inputs are zeros", Fault(batch=all_zero, steps=1400, classes=128), ("labels", "inputs", "data")
    ),
    Scenario(
        FLAT, "gradients multiplied by 0", Fault(update=no_step, steps=1400, classes=128), ("gradient",)
    ),
    Scenario(
        ZERO, "graph cut later", Fault(loss=detached_later, steps=1400, classes=128), ("gradient", "graph")
    ),
    Scenario(ZERO, "clamp", Fault(loss=clamped, steps=1400, classes=128), ("clamp",)),
)


def by_symptom(scenarios: tuple[Scenario, ...]) -> dict[str, list[Scenario]]:
    """Return the scenarios of each symptom."""
    found: dict[str, list[Scenario]] = {}
    for each in scenarios:
        found.setdefault(each.symptom, []).append(each)
    return found


Facts = dict[str, Any]
