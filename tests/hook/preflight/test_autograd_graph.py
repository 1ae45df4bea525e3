"""The walk through the loss graph reports what it cannot see."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from tests.hook.preflight.checked import checked, found, net, unseen
from tocsin.preflight.autograd_graph import LOOK_AT_CLOCK, summarize_graph
from tocsin.preflight.findings import Report
from tocsin.preflight.graph_checks import check_graph


def test_a_compiled_model_cannot_be_checked() -> None:
    """One CompiledFunctionBackward hides everything: this is reported, and no check passes."""
    model = net()
    compiled = torch.compile(model, backend="aot_eager")
    outbox = checked(model, lambda: torch.nan_to_num(compiled(torch.ones(4, 6))).mean())
    assert "CompiledFunctionBackward x 1: a compiled model" in unseen(outbox)
    assert len(found(outbox, "masked-values")) == 1


def test_checkpoints() -> None:
    """A reentrant checkpoint hides its operations, the other kind does not."""
    model = net()
    x = torch.ones(4, 6, requires_grad=True)

    def forward(reentrant: bool) -> Tensor:
        out = checkpoint(lambda x: torch.nan_to_num(model(x)), x, use_reentrant=reentrant)
        assert isinstance(out, Tensor)
        return out.mean()

    hidden, seen = checked(model, lambda: forward(True)), checked(model, lambda: forward(False))
    assert "CheckpointFunctionBackward x 1: a reentrant checkpoint" in unseen(hidden)
    assert (found(hidden, "masked-values"), unseen(seen)) == ([], "")
    assert len(found(seen, "masked-values")) == 1


def _chain(length: int) -> Any:
    out = torch.ones(1, requires_grad=True)
    for _ in range(length):
        out = out * 2
    return out.grad_fn


def test_a_huge_graph_is_walked_in_part_and_this_is_reported() -> None:
    """The number of nodes and the time are limited; what was not reached does not pass."""
    by_nodes = summarize_graph([_chain(50)], nodes=20)
    ticks = iter(range(10_000))
    by_clock = summarize_graph([_chain(3 * LOOK_AT_CLOCK)], limit_s=0.5, clock=lambda: float(next(ticks)))
    assert (by_nodes.nodes, by_clock.nodes) == (20, LOOK_AT_CLOCK)
    for summary in (by_nodes, by_clock):
        report = Report("first-step")
        check_graph(summary, report)
        assert report.not_checkable == [f"loss graph: {summary.cut} were examined"]
        assert not summary.whole


def test_shared_parts_of_a_graph_are_counted_once() -> None:
    """Two losses of one trunk: its clamp is counted once."""
    trunk = torch.ones(3, requires_grad=True).clamp(0, 1)
    summary = summarize_graph([(trunk * 2).sum().grad_fn, (trunk * 3).sum().grad_fn])
    assert (summary.count("Clamp"), summary.count("Mul"), len(summary.reached)) == (1, 2, 1)
