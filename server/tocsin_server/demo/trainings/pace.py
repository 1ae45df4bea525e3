"""How long and how fast a demo training runs. The one thing the trainings share."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator

DEFAULT_STEPS_PER_S = 30.0
"""Three trainings at this pace fit into two CPU cores and can be followed by eye."""


def arguments(description: str, *, seed: int) -> argparse.Namespace:
    """``--steps``, ``--seconds``, ``--steps-per-s``, ``--seed`` and ``--device`` of a demo training."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--steps", type=int, default=None, help="stop after so many steps")
    parser.add_argument("--seconds", type=float, default=None, help="stop after so many seconds")
    parser.add_argument("--steps-per-s", type=float, default=DEFAULT_STEPS_PER_S, help="at most; 0: flat out")
    parser.add_argument("--seed", type=int, default=seed)
    parser.add_argument("--device", default=None, help="cuda where there is one, else cpu")
    return parser.parse_args()


def steps(
    *,
    limit: int | None = None,
    seconds: float | None = None,
    per_second: float = 0.0,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[int]:
    """Step numbers from 0, at most ``per_second`` a second (0: no brake), until a limit is reached.

    A step that took too long is not caught up: the pace is an upper bound, not an average.
    """
    started = due = clock()
    step = 0
    while (limit is None or step < limit) and (seconds is None or clock() - started < seconds):
        yield step
        step += 1
        if per_second > 0:
            due = max(due + 1 / per_second, clock())
            sleep(due - clock() if due > clock() else 0.0)
