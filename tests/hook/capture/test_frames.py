"""The cost of a usual step in calls of Python functions, which unlike a time is the same everywhere."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import nn

import tocsin
from benchmarks.loops import Mlp, Transformer
from tests.hook.captured import watched
from tests.import_graph import ROOT

OWN = str(Path(tocsin.__file__).parent)
USUAL = range(18, 31)
"""Steps in which nothing happens that happens once in 16 or 64 steps."""


def _frames(step: Callable[[], Any]) -> float:
    """Return the calls of the hook's functions per usual step."""
    calls = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_code.co_filename.startswith(OWN)

    for _ in range(USUAL.start):
        step()
    sys.setprofile(count)
    try:
        for _ in USUAL:
            step()
    finally:
        sys.setprofile(None)
    return calls / len(USUAL)


def counted() -> str:
    """Return the frames per step of both loops. In a separate process, because torch.compile adds some."""
    found = []
    for loop in (Mlp, Transformer):
        with watched():
            found.append(str(_frames(loop().step)))
    return " ".join(found)


def test_a_usual_step_calls_few_functions() -> None:
    """Loss, clip, step and ``zero_grad``; for the transformer also a scaler and ``unscale_``."""
    command = "from tests.hook.capture.test_frames import counted; print(counted())"
    done = subprocess.run(
        [sys.executable, "-c", command], cwd=ROOT, capture_output=True, text=True, check=True, timeout=120
    )
    mlp, transformer = map(float, done.stdout.split()[-2:])
    assert mlp <= 27
    assert transformer <= 50


def test_a_step_without_a_run_calls_no_function() -> None:
    """After the last run, torch's functions are restored."""
    net = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with watched():
        pass

    def step() -> None:
        optimizer.zero_grad()
        net(torch.ones(1, 2)).sum().backward()
        optimizer.step()

    assert _frames(step) == 0
