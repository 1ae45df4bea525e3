"""Count false alerts of the clock-based rules, over simulated pauses of healthy runs that declare nothing.

``python benchmarks/bench_detect_clock.py``. Each run is a sequence of record arrivals over two days. A pause
is a garbage collection, a checkpoint, an evaluation, a slow loader, a host that was suspended, or a network
that was interrupted. The rules are evaluated at the end of each silence; an alert counts once.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tocsin_server.core.models import Severity
from tocsin_server.detect.interface.liveness import Liveness
from tocsin_server.detect.rules.system import stalled, trainer_lost
from tocsin_server.runs.active_run import Heartbeat

HOURS = 48.0
RUNS = 12
SECOND = 10**9
Silences = Iterator[tuple[float, bool]]
"""Seconds until the next record, and whether the connection is gone meanwhile."""


def steps(draw: random.Random, median_s: float, sigma: float) -> float:
    """Return the seconds between two arrivals: steps of that length, combined to at least one second."""
    return max(1.0, median_s * draw.lognormvariate(0.0, sigma))


def every(
    draw: random.Random, hours: float, median_s: float, short: float, long: float, *, cut: bool
) -> Silences:
    """Yield fast steps, and periodically a pause of ``short`` to ``long`` seconds, log-uniform."""
    spent, due = 0.0, hours * 3600
    while True:
        if spent >= due:
            spent = 0.0
            yield math.exp(draw.uniform(math.log(short), math.log(long))), cut
        else:
            quiet = steps(draw, median_s, 0.3)
            spent += quiet
            yield quiet, False


def heavy(draw: random.Random) -> Silences:
    """Yield the steps of a loader with heavy tails: Pareto with exponent 1.5 from 1 s, at most 120 s."""
    while True:
        yield min(120.0, draw.paretovariate(1.5)), False


def slow(draw: random.Random) -> Silences:
    """Yield steps of half a minute that vary by half."""
    while True:
        yield steps(draw, 30.0, 0.5), False


KINDS: dict[str, Callable[[random.Random], Silences]] = {
    "steps of 0.3 s, collections of 2 to 8 s": lambda d: every(d, 0.05, 0.3, 2, 8, cut=False),
    "steps of 30 s, varying by half": slow,
    "a loader with heavy tails": heavy,
    "checkpoints of 20 to 90 s, every half hour": lambda d: every(d, 0.5, 0.5, 20, 90, cut=False),
    "evaluations of 2 to 8 min, every hour": lambda d: every(d, 1.0, 0.5, 120, 480, cut=False),
    "evaluations of 15 to 25 min, every 6 hours": lambda d: every(d, 6.0, 0.5, 900, 1500, cut=False),
    "a host that is paused for 1 to 10 min, every 8 hours": lambda d: every(d, 8.0, 0.5, 60, 600, cut=True),
    "a network that is cut for 20 s to 10 min, every 6 hours": lambda d: every(
        d, 6.0, 0.5, 20, 600, cut=True
    ),
}


@dataclass
class Tally:
    """Alerts of one kind of run by rule and severity, over a number of hours."""

    hours: float = 0.0
    stalled_warning: int = 0
    stalled_critical: int = 0
    lost_warning: int = 0
    lost_critical: int = 0


def severities(pulse: Heartbeat, silence_s: float, *, cut: bool) -> tuple[Severity | None, Severity | None]:
    """Return the highest severities of ``stalled`` and ``trainer-lost`` in the last second of a silence."""
    last_ns = pulse.last_record_ns or 0
    now_ns = last_ns + int(silence_s * SECOND)
    liveness = Liveness(
        opened_ns=0, last_record_ns=last_ns, last_step=1, intervals_s=tuple(pulse.intervals_s), phase="",
        phase_since_ns=None, connected=not cut, silent_since_ns=last_ns if cut else None, server_started_ns=0,
        ended=False, longest_pause_s=pulse.longest_pause_s,
    )  # fmt: skip
    times = [
        [finding.severity for finding in rule.check(liveness, now_ns)] for rule in (stalled, trainer_lost)
    ]
    return (times[0] or [None])[0], (times[1] or [None])[0]


def count(kind: Callable[[random.Random], Silences], runs: int = RUNS, hours: float = HOURS) -> Tally:
    """Return the alerts of ``runs`` healthy runs of ``hours`` each."""
    tally = Tally(hours=runs * hours)
    for seed in range(runs):
        pulse, now_s = Heartbeat(0), 0.0
        pulse.record(0)
        for silence_s, cut in kind(random.Random(seed)):
            if silence_s > trainer_lost.Settings().warning_s:
                note(tally, *severities(pulse, silence_s, cut=cut))
            now_s += silence_s
            pulse.record(int(now_s * SECOND))
            if now_s > hours * 3600:
                break
    return tally


def note(tally: Tally, stall: Severity | None, loss: Severity | None) -> None:
    """Count one silence. A critical alert was a warning first."""
    tally.stalled_warning += stall is not None
    tally.stalled_critical += stall is Severity.CRITICAL
    tally.lost_warning += loss is not None
    tally.lost_critical += loss is Severity.CRITICAL


def main() -> None:
    """Print one line for each kind of run."""
    print("| healthy runs | hours | stalled warning | critical | trainer-lost warning | critical |")
    print("|---|---|---|---|---|---|")
    for name, kind in KINDS.items():
        one = count(kind)
        cells = (one.stalled_warning, one.stalled_critical, one.lost_warning, one.lost_critical)
        print(f"| {name} | {one.hours:g} | {' | '.join(map(str, cells))} |")


if __name__ == "__main__":
    main()
