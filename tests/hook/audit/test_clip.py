"""Clip thresholds that never or always act."""

from __future__ import annotations

import pytest
import torch

from tests.hook.audit.audited import found, net
from tests.hook.captured import watched


@pytest.mark.parametrize(("clip", "word"), [(1e9, "never acts"), (1e-9, "acts at each")])
def test_a_clip_that_never_or_always_acts(clip: float, word: str) -> None:
    """After fifty norms, as information: the first of a run are larger than later ones."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with watched(model=model) as (run, outbox):
        for _ in range(60):
            optimizer.zero_grad()
            model(torch.ones(4, 6)).mean().backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
        assert run._watch._suspects == ()
    (finding,) = found(outbox, "clip-threshold", "clip")
    assert word in finding["got"]
    assert finding["severity"] == "info"
