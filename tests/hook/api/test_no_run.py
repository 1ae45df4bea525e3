"""``TOCSIN_DISABLE=1``: every call exists and does nothing, and nothing is imported."""

from __future__ import annotations

import asyncio
import inspect
import os
import subprocess
import sys

import pytest

from tocsin.api.no_run import NoRun
from tocsin.api.run import Run

INTERNAL = (
    "recorded",
    "records",
    "show_in_notebook",
    "take",
    "forget",
    "captured_by",
    "want_alerts",
    "call_later",
    "counts_by_log",
    "rest",
    "wake",
    "replace",
)
"""What the hook itself calls."""


def test_disabled_nothing_is_imported_and_nothing_is_patched() -> None:
    """Only these modules of ours, no thread, torch unchanged."""
    script = (
        "import sys, threading, torch\n"
        "before = torch.autograd.backward, torch.amp.GradScaler.step, torch.optim.Optimizer.zero_grad\n"
        "import tocsin\n"
        "run = tocsin.watch('p')\ntocsin.log(a=1.0)\nrun.log(a=1.0)\nrun.finish()\n"
        "after = torch.autograd.backward, torch.amp.GradScaler.step, torch.optim.Optimizer.zero_grad\n"
        "ours = sorted(name for name in sys.modules if name.split('.')[0] == 'tocsin')\n"
        "foreign = [name for name in ('websockets', 'msgspec') if name in sys.modules]\n"
        "print(ours, foreign, before == after, threading.active_count())\n"
    )
    environ = {**os.environ, "TOCSIN_DISABLE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environ, check=True
    )
    ours = "['tocsin', 'tocsin.api', 'tocsin.api.no_run', 'tocsin.core', 'tocsin.core.process_state']"
    assert done.stdout.strip() == f"{ours} [] True 1"


def test_a_run_that_is_switched_off_has_the_same_words() -> None:
    """A script needs no special case."""
    for name in ("on_request", "on_alert", "requested"):
        assert hasattr(Run, name)
        assert hasattr(NoRun, name)
    assert NoRun().on_request("stop")(print) is print
    assert NoRun().on_alert(severity="critical", rules=["x"])(print) is print


def test_it_has_every_word_of_a_run() -> None:
    """All calls of a run accept any arguments and return nothing."""
    words = [name for name in vars(Run) if not name.startswith("_") and name not in INTERNAL]
    run = NoRun("p", "n")
    assert [name for name in words if not hasattr(run, name)] == []
    calls = [getattr(run, name) for name in words if inspect.isfunction(vars(Run)[name])]
    quiet = [one for one in calls if one.__name__ == "_nothing"]
    assert len(quiet) == 15
    assert [one(1, step=2, loss=3.0) for one in quiet] == [None] * len(quiet)


def test_the_body_of_a_phase_and_of_the_run_itself_go_on() -> None:
    """As context managers they only run their body, and its errors are passed on."""
    done = []
    with NoRun() as run, run.phase("eval"):
        done.append(run.state_dict())
    assert done == [{"step": 0}]
    with pytest.raises(ValueError, match="the script's own"), NoRun():
        raise ValueError("the script's own")


def test_async_with_works_as_for_a_run() -> None:
    """A coroutine needs no special case either."""

    async def train() -> bool:
        async with NoRun() as run:
            return type(run) is NoRun

    assert asyncio.run(train())
