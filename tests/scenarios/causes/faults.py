"""Trainings that show the same symptom for different reasons.

One classifier with one fault: ``SCENARIOS`` lists which, and which words the diagnosis must have. Some causes
cannot be told apart by what is logged; then one sentence must name both.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field

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
    middle: Tensor
    classes: int
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
    """What differs from the healthy training.

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
        middle = centres(fault.classes)
        state = State(run, model, optimizer, scaler, draw, middle, fault.classes)
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


def sample(state: State, count: int) -> tuple[Tensor, Tensor]:
    """Return ``count`` healthy inputs and their labels, always the same ones."""
    draw = torch.Generator().manual_seed(seeded(3))
    target = torch.randint(state.classes, (count,), generator=draw)
    return state.middle[target] + torch.randn(count, WIDTH, generator=draw), target


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


def few_bad_batches(state: State) -> None:
    """Eight batches are not normalized and have other labels."""
    if state.trouble and state.step < TROUBLE + 8:
        state.inputs, state.target = 30 * state.inputs, state.target.roll(1)


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
    classes = state.classes
    state.target = torch.randint(classes, (BATCH,), generator=state.draw)


def one_class(state: State) -> None:
    """Every sample has the same class."""
    state.target = torch.zeros(BATCH, dtype=torch.long)


def all_zero(state: State) -> None:
    """The loader returns zeros for inputs from the start: nothing to learn from."""
    state.inputs = torch.zeros(BATCH, WIDTH)


def noisier_labels(state: State) -> None:
    """Ever more labels are wrong."""
    wrong = torch.rand(BATCH, generator=state.draw) < max(0, state.step - TROUBLE) / 300
    random = torch.randint(state.classes, (BATCH,), generator=state.draw)
    state.target = torch.where(wrong, random, state.target)


def noisier_inputs(state: State) -> None:
    """The inputs drift away from what the model has learned."""
    noise = torch.randn(state.inputs.shape, generator=state.draw)
    state.inputs = state.inputs + 0.02 * max(0, state.step - TROUBLE) * noise


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


def schedule_restarts(state: State) -> None:
    """A cosine over half of the run, repeated."""
    state.optimizer.param_groups[0]["lr"] = 1e-4 + 6.0 * (1 + math.cos(math.pi * (state.step % 350) / 350))


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


def saturate(state: State) -> None:
    """The biases of the hidden layer fall so far that no unit is active again."""
    if state.step == TROUBLE:
        with torch.no_grad():
            dict(state.model.named_parameters())["0.bias"].sub_(1e4)


def frozen(state: State) -> None:
    """Nothing but a scale of the outputs can be trained."""
    if state.step == 0:
        for parameter in state.model.parameters():
            parameter.requires_grad_(False)
        list(state.model.parameters())[-1].requires_grad_(True)


def report(state: State, model: nn.Module, inputs: Tensor, target: Tensor) -> None:
    """Evaluate every tenth step: loss and accuracy."""
    if state.step % 10:
        return
    with torch.no_grad():
        outputs = model(inputs)
    right = (outputs.argmax(1) == target).float().mean().item()
    state.run.evaluate(loss=cross_entropy(outputs, target).item(), goal="min")
    state.run.evaluate(accuracy=right, goal="max")


def memorizes(state: State) -> None:
    """Evaluate on held-out samples; the batches are 64 samples, again and again."""
    report(state, state.model, *sample(state, 512))


def few_samples(state: State) -> None:
    """64 samples, some with wrong labels, are all there is."""
    inputs, target = sample(state, 576)
    order = torch.randperm(64, generator=state.draw)[:BATCH]
    state.inputs, state.target = 1.5 * inputs[-64:][order], target[-64:][order]
    state.target = torch.where(order % 4 == 0, (state.target + 1) % state.classes, state.target)


def decaying_copy(state: State) -> None:
    """The evaluated weights are an average that decays to 0, while the trained ones stay good."""
    averaged = copy.deepcopy(state.model)
    with torch.no_grad():
        for parameter in averaged.parameters():
            noise = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seeded(4)))
            late = max(0, state.step - TROUBLE)
            parameter.copy_(parameter * 0.97**late + 0.002 * late * noise)
    report(state, averaged, *sample(state, 512))


def other_evaluation(state: State) -> None:
    """The held-out labels are shuffled from the fault on."""
    inputs, target = sample(state, 512)
    report(state, state.model, inputs, target.roll(1) if state.trouble else target)


def damaged(state: State) -> None:
    """The rate rises, and with it everything gets worse."""
    rate_creeps(state)
    report(state, state.model, *sample(state, 512))


def rate_creeps(state: State) -> None:
    """The rate rises by 3 % a step, without a jump."""
    if state.trouble:
        state.optimizer.param_groups[0]["lr"] = min(40.0, 0.05 * 1.03 ** (state.step - TROUBLE))


# Updates


def abandoned_steps(state: State) -> None:
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


def zero_gradients(state: State) -> None:
    """Multiply every gradient by 0: the weights never change."""
    for parameter in state.model.parameters():
        if parameter.grad is not None:
            parameter.grad.mul_(0)
    usual_update(state)


@dataclass(frozen=True)
class Scenario:
    """A symptom, its true cause, and words of the cause that must be named.

    ``words``: any of them in the likely cause counts as first, in the first other explanation as second.
    ``either``: the records cannot tell the cause from another one. One sentence must name both: any of
    ``words`` and any of these. It counts as second.
    """

    symptom: str
    cause: str
    fault: Fault
    words: tuple[str, ...]
    either: tuple[str, ...] = ()

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
SLOW = ("data that slowly changes",)
OPERATION = ("operation", "log, sqrt or division")
NAN, OVERFLOW, SPIKE, CLIMB, FLAT, ZERO, HELD, NORM = (
    "loss becomes NaN", "loss scale falls", "loss jumps", "loss climbs", "loss stays flat", "norm is 0",
    "held-out metric gets worse", "norm is high",
)  # fmt: skip
SCENARIOS = (
    Scenario(NAN, "NaN in the batch, checked", Fault(batch=not_a_number_checked), ("batch itself",)),
    Scenario(NAN, "NaN in the batch", Fault(batch=not_a_number), ("one batch",), either=("sqrt",)),
    Scenario(
        NAN, "square root of a negative", Fault(loss=root_of_negative), ("sqrt",), either=("one batch",)
    ),
    Scenario(NAN, "a term, reported", Fault(loss=root_of_negative_reported), ("root",)),
    Scenario(NAN, "rate rises", Fault(before=rate_rises), RATE),
    Scenario(NAN, "rate jumps", Fault(before=rate_jumps), RATE),
    Scenario(NAN, "weights corrupted", Fault(before=corrupted), ("weights",), either=("one batch",)),
    Scenario(
        OVERFLOW,
        "NaN in the batch, checked",
        Fault(batch=not_a_number_checked, scale=2.0**10),
        ("batch itself",),
    ),
    Scenario(OVERFLOW, "NaN in some batches", Fault(batch=now_and_then_unnamed, scale=2.0**10), ("batch",)),
    Scenario(OVERFLOW, "NaN in some named batches", Fault(batch=now_and_then, scale=2.0**10), ("shard 20",)),
    Scenario(
        OVERFLOW,
        "an operation",
        Fault(loss=half_exponential, scale=2.0**10),
        OPERATION,
        either=("input data",),
    ),
    Scenario(
        OVERFLOW, "a sum in half precision", Fault(loss=half_sum_of_squares, scale=2.0**10), ("overflows",)
    ),
    Scenario(
        OVERFLOW,
        "inputs out of range",
        Fault(batch=huge_inputs, scale=2.0**10),
        ("data", "batch"),
        either=("operation",),
    ),
    Scenario(OVERFLOW, "rate rises", Fault(before=rate_rises, scale=2.0**10), RATE),
    Scenario(
        OVERFLOW, "the scaler is not informed", Fault(update=abandoned_steps, scale=2.0**20), ("scaler",)
    ),
    Scenario(SPIKE, "inputs not normalized", Fault(batch=scaled_inputs), DATA, either=RATE),
    Scenario(SPIKE, "eight bad batches", Fault(batch=few_bad_batches), DATA),
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
        FLAT,
        "gradients multiplied by 0",
        Fault(update=zero_gradients, steps=1400, classes=128),
        ("gradient",),
    ),
    Scenario(
        ZERO, "graph cut later", Fault(loss=detached_later, steps=1400, classes=128), ("gradient", "graph")
    ),
    Scenario(ZERO, "clamp", Fault(loss=clamped, steps=1400, classes=128), ("clamp",)),
    Scenario(ZERO, "saturated from the fault on", Fault(before=saturate, steps=700), ("saturation", "clamp")),
    Scenario(CLIMB, "rate creeps up", Fault(before=rate_creeps, steps=700), RATE),
    Scenario(CLIMB, "labels get noisier", Fault(batch=noisier_labels, steps=700), SLOW, either=RATE),
    Scenario(CLIMB, "inputs drift", Fault(batch=noisier_inputs, steps=700), SLOW, either=RATE),
    Scenario(
        CLIMB, "weight of a term", Fault(loss=rising_penalty, steps=700), ("weight of one term",), either=RATE
    ),
    Scenario(
        HELD,
        "memorizes",
        Fault(batch=few_samples, before=memorizes, adam=True, rate=0.01, steps=2000),
        ("memorizes",),
    ),
    Scenario(
        HELD, "the evaluated copy decays", Fault(before=decaying_copy, steps=500), ("evaluated weights",)
    ),
    Scenario(HELD, "other held-out labels", Fault(before=other_evaluation, steps=500), ("evaluat",)),
    Scenario(HELD, "training is damaged too", Fault(before=damaged, steps=500), RATE),
    Scenario(NORM, "scaled gradients are clipped", Fault(update=not_unscaled, scale=2.0**10), ("unscale",)),
    Scenario(SPIKE, "the schedule starts over", Fault(before=schedule_restarts, steps=700), RATE),
)


def by_symptom(scenarios: tuple[Scenario, ...]) -> dict[str, list[Scenario]]:
    """Return the scenarios of each symptom."""
    found: dict[str, list[Scenario]] = {}
    for each in scenarios:
        found.setdefault(each.symptom, []).append(each)
    return found
