"""Control how long and how fast a demo training runs, how it is stopped, and where it saves checkpoints."""

from __future__ import annotations

import argparse
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

CHECKPOINT_STEPS = 250
STEPS_PER_S = 30.0
"""At this throughput, three trainings fit into two CPU cores and can be followed by eye."""

_asked_to_end = threading.Event()


def arguments(description: str, *, seed: int, steps_per_s: float = STEPS_PER_S) -> argparse.Namespace:
    """Parse the options of a demo training: how long, how fast, its seed, device and checkpoints."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--steps", type=int, help="stop after this many steps")
    parser.add_argument("--seconds", type=float, help="stop after this many seconds")
    parser.add_argument(
        "--steps-per-s", type=float, default=steps_per_s, help="maximum; 0: as fast as possible"
    )
    parser.add_argument("--seed", type=int, default=seed)
    parser.add_argument("--device", help="by default cuda if available, else cpu")
    parser.add_argument("--checkpoints", metavar="DIR", help=f"save one every {CHECKPOINT_STEPS} steps")
    return parser.parse_args()


def planned_steps(options: argparse.Namespace) -> int | None:
    """Return how many steps the options allow; None if nothing limits them."""
    if options.steps is not None:
        return int(options.steps)
    return int(options.seconds * options.steps_per_s) or None if options.seconds else None


def save_checkpoint(folder: str | None, step: int, parts: Mapping[str, torch.nn.Module]) -> None:
    """Save the weights after a step, every CHECKPOINT_STEPS steps, if there is a folder."""
    if folder and step and step % CHECKPOINT_STEPS == 0:
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        state: dict[str, Any] = {name: part.state_dict() for name, part in parts.items()}
        torch.save(state, path / f"step-{step}.pt")


def end_on_signal() -> None:
    """Make SIGTERM and Ctrl-C end the training after its current step, like a scheduler's notice."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: _asked_to_end.set())


def steps(
    *,
    limit: int | None = None,
    seconds: float | None = None,
    per_second: float = 0.0,
    clock: Callable[[], float] = time.monotonic,
    rest: Callable[[float], object] = _asked_to_end.wait,
    ended: Callable[[], bool] = _asked_to_end.is_set,
) -> Iterator[int]:
    """Yield step numbers from 0, at most ``per_second`` per second (0: no limit), until a limit or ``ended``.

    A slow step is not made up for: the rate is an upper limit, not an average.
    """
    started = due = clock()
    step = 0
    while (
        not ended() and (limit is None or step < limit) and (seconds is None or clock() - started < seconds)
    ):
        yield step
        step += 1
        if per_second > 0:
            due = max(due + 1 / per_second, clock())
            rest(max(0.0, due - clock()))
