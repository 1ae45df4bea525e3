"""What several losses of one step are: parts of one loss, or whole losses."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel.distributed import _DDPSink
from torch.utils.data import DataLoader, TensorDataset

from tests.hook.captured import KeptOutbox, watched
from tests.hook.truth import batches, model
from tocsin.capture.accumulation import Share, share_of

NET = model()


def _loss() -> Tensor:
    loss: Tensor = NET(torch.ones(4, 8)).pow(2).mean()
    return loss


def _tokens(count: int) -> Tensor:
    labels = torch.tensor([1] * count + [-100] * (4 - count))
    return cross_entropy(torch.zeros(4, 3, requires_grad=True), labels, reduction="sum")


def _through_ddp(loss: Tensor) -> Tensor:
    """Return the loss as DDP with ``find_unused_parameters`` does, behind another output."""
    logits = torch.zeros(2, requires_grad=True) + 1
    module = SimpleNamespace(_ddp_sink_clone=True)
    after: Tensor = _DDPSink.apply(lambda: module, logits, loss)[1]
    return after


@pytest.mark.parametrize(
    ("made", "share"),
    [
        (lambda: _loss(), None),
        (lambda: _loss() / 4, Share(4.0, 4.0)),
        (lambda: _loss() * 0.25, Share(4.0, 4.0)),
        (lambda: (_loss() / 4).clone().view(1).double(), Share(4.0, 4.0)),
        (lambda: _loss() / torch.tensor(4) * 1, Share(4.0, 4.0)),
        (lambda: _loss() / 4 * 2, Share(0.5, 2.0)),
        (lambda: _loss() / _loss(), None),
        (lambda: NET(torch.ones(4, 8)).sum() / 4, None),
        (lambda: NET(torch.ones(4, 8)).sum() / 16, Share(16.0, 16.0, 4.0)),
        (lambda: _tokens(3) / 8, Share(8.0, 8.0, 3.0)),
        (lambda: _through_ddp(_tokens(3) / 8) * 2, Share(0.5, 4.0, 3.0)),
        (lambda: _through_ddp(_loss() / 4), Share(4.0, 4.0)),
        (lambda: torch.ones((), requires_grad=True), None),
    ],
)
def test_the_graph_says_what_divided_a_loss(made: Callable[[], Tensor], share: Share | None) -> None:
    """Constants only, through what changes no value; a mean by hand divides by its own items."""
    assert share_of(made(), scaled=False) == share


def _train(micro: Callable[[Tensor, int], Tensor], counts: list[int], keep: bool = False) -> KeptOutbox:
    net, feed = NET, batches(sum(counts))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    with watched() as (_, outbox):
        for count in counts:
            optimizer.zero_grad()
            for k in range(count):
                micro(next(feed), k).backward(retain_graph=keep)
            optimizer.step()
    return outbox


def _means(counts: list[int]) -> list[float]:
    feed = batches(sum(counts))
    with torch.no_grad():
        return [sum(float(NET(next(feed)).pow(2).mean()) for _ in range(n)) / n for n in counts]


@pytest.mark.parametrize(
    ("micro", "why"),
    [
        (lambda batch, k: NET(batch).pow(2).mean(), ""),
        (lambda batch, k: NET(batch).pow(2).mean() / 3, "divided"),
        (lambda batch, k: NET(batch).pow(2).sum() / 4, ""),
        (lambda batch, k: NET(batch).pow(2).sum() / 12, "items"),
    ],
)
def test_every_way_to_accumulate_reports_the_mean(micro: Callable[[Tensor, int], Tensor], why: str) -> None:
    """However a script divides, ``loss`` is the mean of its whole losses, as frameworks print it."""
    outbox = _train(micro, [3, 3])
    assert [value for _, value in outbox.series("loss")] == pytest.approx(_means([3, 3]))
    assert [one["why"] for one in outbox.events("accumulation")] == [why]
    assert bool(outbox.series("loss_sum")) == (why == "")


def test_losses_of_one_graph_are_terms_of_one() -> None:
    """``backward(retain_graph=True)`` and another backward: the objective is their sum."""
    hidden: Any = None

    def micro(batch: Tensor, k: int) -> Tensor:
        nonlocal hidden
        hidden = NET(batch) if k == 0 else hidden
        loss: Tensor = hidden.mean() * 0 + 2 if k == 0 else hidden.mean() * 0 + 3
        return loss

    outbox = _train(micro, [2, 2], keep=True)
    assert [value for _, value in outbox.series("loss")] == [5.0, 5.0]


def test_several_losses_of_one_batch_are_terms_of_one() -> None:
    """A critic's loss of real and of generated samples: one batch of the DataLoader, two backwards."""
    net = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    loader = DataLoader(TensorDataset(torch.ones(6, 2)), batch_size=2)
    with watched() as (_, outbox):
        for (batch,) in loader:
            optimizer.zero_grad()
            for sign in (1, -3):
                (net(batch).mean() * 0 + sign).backward()
            optimizer.step()
    assert [value for _, value in outbox.series("loss")] == [-2.0] * 3


def test_a_shorter_last_step_does_not_change_what_losses_are() -> None:
    """The first decision is kept: fewer micro-steps than the divisor, and a single one, are scaled alike."""
    counts = [4, 4, 2, 4, 1]
    outbox = _train(lambda batch, k: NET(batch).pow(2).mean() / 4, counts)
    assert [value for _, value in outbox.series("loss")] == pytest.approx(_means(counts))
    assert len(outbox.events("accumulation")) == 1


def test_losses_are_scaled_like_the_gradients() -> None:
    """Sums over tokens, whose gradients are divided by the number of all tokens, are one mean."""
    counts = [3.0, 5.0]
    optimizer = torch.optim.SGD(NET.parameters(), lr=0.0)
    with watched() as (run, outbox):
        means = [NET(batch).pow(2).mean() for batch in batches(2)]
        for mean, count in zip(means, counts, strict=True):
            (mean * torch.tensor(count)).backward()
        run.scale_losses(1 / torch.tensor(sum(counts)))
        optimizer.step()
    wanted = (3.0 * means[0] + 5.0 * means[1]).item() / 8.0
    assert [value for _, value in outbox.series("loss")] == pytest.approx([wanted])
    assert outbox.series("loss_n") == [(0, 2.0)]
