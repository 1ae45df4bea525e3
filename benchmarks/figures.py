"""The figures of the benchmarks, their targets, and how they compare with those of the last release.

A benchmark calls `figure` for each result. If `TOCSIN_BENCH_FIGURES` names a file, the figure is appended to
it as a line of JSON; `benchmarks/suite.py` collects the lines of all benchmarks. Everything else here but
`machine` is pure.
"""

from __future__ import annotations

import json
import math
import os
import platform
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

FILE = "TOCSIN_BENCH_FIGURES"
"""Environment variable: the file to which figures are appended."""
LIMIT = 1.2
"""A ratio that is more than this factor worse than in the baseline is a regression."""
FLOOR = 0.05
"""Smallest ratio to compare with: below it, 20 % are less than the noise."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One result of a benchmark.

    Attributes:
        name: what was measured; unique among all benchmarks.
        value: the result, in `unit`; NaN if it could not be measured.
        unit: such as `us`, `points/s`, or empty for a ratio.
        higher_is_better: whether a higher value is better.
        ratio: whether the value is itself a ratio that is stable across machines.
        peer: what was measured in the same run for comparison, such as `trackio`; empty for none.
        peer_value: its result in the same unit; None without a peer.
        benchmark: the file that measured it.
    """

    name: str
    value: float
    unit: str = ""
    higher_is_better: bool = False
    ratio: bool = False
    peer: str = ""
    peer_value: float | None = None
    benchmark: str = ""

    @property
    def stable(self) -> float | None:
        """Return the ratio that is compared between runs: the value itself, or the value / the peer's.

        None for a figure that is no ratio and has no peer; NaN if it could not be measured.
        """
        if self.ratio:
            return self.value
        if self.peer_value is None:
            return None
        return self.value / self.peer_value if self.peer_value > 0 else math.nan


@dataclass(frozen=True, slots=True)
class Target:
    """A limit for the value of a figure, or with `of_peer` for its ratio to the peer."""

    limit: float
    unit: str = ""
    at_least: bool = False
    of_peer: bool = False

    def met(self, figure: Figure) -> bool:
        """Return whether the figure meets it; NaN and a missing peer do not."""
        value = figure.stable if self.of_peer else figure.value
        if value is None:
            return False
        return value >= self.limit if self.at_least else value <= self.limit

    def __str__(self) -> str:
        sign = ">=" if self.at_least else "<="
        return f"{sign} {number(self.limit)} {self.unit}".rstrip()


def _at_most(unit: str, *limits: float) -> tuple[Target, ...]:
    return tuple(Target(limit, unit) for limit in limits)


def _at_least(unit: str, *limits: float) -> tuple[Target, ...]:
    return tuple(Target(limit, unit, at_least=True) for limit in limits)


_BELOW_PEER = Target(1.0, "x peer", of_peer=True)

TARGETS: dict[str, tuple[Target, ...]] = {
    "log, 4 floats, median": _at_most("us", 1.0),
    "log, 4 floats, p99": _at_most("us", 10.0),
    "log, 4 CPU tensors, median": _at_most("us", 2.0),
    "log, 4 floats, within a training": _at_most("us", 8.0),
    "hook, MLP on the CPU": (*_at_most("us", 30.0, 15.0), _BELOW_PEER),
    "hook, transformer on the CPU": (*_at_most("us", 60.0, 15.0), _BELOW_PEER),
    "hook, memory": _at_most("MB", 100.0),
    "sender, longest hold of the GIL": _at_most("ms", 0.2),
    "hook, MLP on CUDA": _at_most("us", 40.0),
    "hook, transformer on CUDA, share of a step": _at_most("%", 1.0),
    "hook on CUDA, launches per step": _at_most("", 0.5),
    "hook on CUDA, synchronizations": _at_most("", 0.0),
    "put to ack, 1 process": _at_least("points/s", 250_000),
    "log to durable, 1 process, SQLite": (
        *_at_least("points/s", 250_000),
        Target(3.0, "x peer", at_least=True, of_peer=True),
    ),
    "log to durable, 64 processes, SQLite": _at_least("points/s", 500_000),
    "server, 200 processes and 100 browsers": _at_most("% of a core", 25.0),
    "send to browser, p50": _at_most("s", 0.25, 0.15),
    "send to browser, p99": _at_most("s", 0.5, 0.4),
    "log to screen, p50": _at_most("s", 0.15),
    "log to screen, p99": _at_most("s", 0.4),
    "log to webhook, p99": _at_most("s", 1.0),
    "rules, one by one": _at_most("us a record", 20.0, 12.0),
    "rules, batches of 50": _at_most("us a record", 6.0, 4.0),
    "rules, diverging run, batches of 50": _at_most("", 1.5),
    "rules, broken run, batches of 50": _at_most("", 1.5),
    "disk, float32, sealed": _at_most("bytes a point", 4.0, 2.2),
    "disk, float64, sealed": _at_most("bytes a point", 7.0),
    "disk, not sealed yet": _at_most("bytes a point", 20.0),
    "disk, short runs, float32": _at_most("bytes a point", 4.0),
    "open a run of 1 M steps": _at_most("ms", 30.0),
    "open 10 M steps / 1 M steps": _at_most("", 1.5),
    "restart with 1,000 live runs, first ack": _at_most("s", 5.0),
    "page weight, fleet page": _at_most("kB", 150.0),
    "page weight, run page": _at_most("kB", 300.0, 150.0),
    "first chart of a run of 1 M steps, cold cache": _at_most("s", 0.8),
    "first chart of a run of 1 M steps, warm cache": _at_most("s", 0.3),
    "zoom into a run of 10 M steps": _at_most("ms", 150.0),
    "longest task of 8 panels x 4 runs": _at_most("ms", 150.0, 50.0),
    "fleet of 2,000 live runs, first rows": _at_most("s", 1.0),
    "fleet of 2,000 live runs, filter": _at_most("ms", 100.0),
    "fleet of 2,000 live runs, sort": _at_most("ms", 100.0),
    "compare 100 runs": _at_most("s", 1.0),
    "compare 500 runs": _at_most("s", 3.0),
    "failed checks, server killed": _at_most("", 0.0),
    "failed checks, database outages": _at_most("", 0.0),
}
"""Figure -> its targets. One without a measurement is listed as not measured."""


def figure(
    name: str,
    value: float,
    unit: str = "",
    *,
    peer: tuple[str, float] | None = None,
    ratio: bool = False,
    higher_is_better: bool = False,
) -> None:
    """Report one result of this benchmark.

    Args:
        name: what was measured; a name of `TARGETS` is shown with its targets.
        value: the result.
        unit: its unit.
        peer: name and result of what was measured for comparison in the same run, in the same unit.
        ratio: the value is a ratio of two measurements of this run.
        higher_is_better: a higher value is better.
    """
    path = os.environ.get(FILE)
    if not path:
        return
    other, other_value = peer or ("", None)
    one = Figure(
        name, float(value), unit, higher_is_better, ratio, other, other_value, Path(sys.argv[0]).name
    )
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(one)) + "\n")


def parse_figures(lines: Iterable[str]) -> dict[str, Figure]:
    """Return the figures of lines of JSON by name. The last one of a name counts."""
    return {one.name: one for one in (Figure(**json.loads(line)) for line in lines if line.strip())}


@dataclass(frozen=True, slots=True)
class Machine:
    """What figures depend on besides the code."""

    cpu: str
    cpus: int
    python: str
    torch: str
    gpu: str = ""

    @property
    def kind(self) -> str:
        """Return the machine class, which names the file of its baseline. Patch versions do not count."""
        parts = [self.gpu, self.cpu, f"{self.cpus} cpus", f"python {_minor(self.python)}"]
        parts.append(f"torch {_minor(self.torch)}")
        return "-".join(re.sub(r"[^a-z0-9.]+", "-", part.lower()).strip("-") for part in parts if part)

    def __str__(self) -> str:
        gpu = f"{self.gpu}, " if self.gpu else ""
        return f"{gpu}{self.cpus} CPUs ({self.cpu}), Python {self.python}, torch {self.torch}"


def machine() -> Machine:
    """Return this machine."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    cpu = next(names, platform.processor() or platform.machine())
    return Machine(cpu, os.cpu_count() or 1, platform.python_version(), metadata.version("torch"), _gpu())


def _gpu() -> str:
    import torch

    return str(torch.cuda.get_device_name()) if torch.cuda.is_available() else ""


def _minor(version: str) -> str:
    return ".".join(version.split("+")[0].split(".")[:2])


@dataclass(frozen=True, slots=True)
class Change:
    """How the ratio of a figure compares with its baseline.

    Attributes:
        factor: how many times worse it is; below 1 it is better. None if it cannot be compared.
        regressed: whether it is too much worse, or could not be measured although it could before.
        why: why it is a regression or cannot be compared.
    """

    factor: float | None
    regressed: bool
    why: str


def change(now: Figure | None, before: Figure | None) -> Change:
    """Compare a figure with its baseline.

    A ratio that cannot be computed any more is a regression: otherwise a peer that does not install, or a
    benchmark that measures NaN, would turn the check off. Absolute values are never compared.
    """
    old = before.stable if before else None
    if old is None or not math.isfinite(old):
        return Change(None, False, "no ratio in the baseline")
    new = now.stable if now else None
    if new is None or not math.isfinite(new):
        return Change(None, True, "not measured any more")
    better, worse = max(old, FLOOR), max(new, FLOOR)
    if before and before.higher_is_better:
        better, worse = worse, better
    factor = worse / better
    regressed = factor > LIMIT
    return Change(factor, regressed, f"ratio {number(new)}, was {number(old)}" if regressed else "")


def regressions(
    now: Mapping[str, Figure], baseline: Mapping[str, Figure], benchmarks: Sequence[str]
) -> dict[str, Change]:
    """Return the regressions by figure, among the baseline's figures of the benchmarks that ran."""
    changes = {
        name: change(now.get(name), before)
        for name, before in baseline.items()
        if before.benchmark in benchmarks
    }
    return {name: one for name, one in changes.items() if one.regressed}


def number(value: float) -> str:
    """Return a number with three significant figures."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{value}".capitalize()
    if value and abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def table(now: Mapping[str, Figure], baseline: Mapping[str, Figure]) -> str:
    """Return a Markdown table: every target and every other figure, with its peer and its baseline."""
    rows: list[tuple[str, ...]] = [
        ("", "measured", "target", "", "peer in the same run", "ratio", "last release", "change of the ratio")
    ]
    for name in (*TARGETS, *(name for name in now if name not in TARGETS)):
        rows.append(_row(name, now.get(name), baseline.get(name)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join((lines[0], rule, *lines[1:]))


def _row(name: str, now: Figure | None, before: Figure | None) -> tuple[str, ...]:
    targets = TARGETS.get(name, ())
    wanted = ", ".join(map(str, targets))
    last = _value(before) if before else "-"
    if now is None:
        return name, "not measured", wanted, "", "", "", last, ""
    met = ", ".join("met" if target.met(now) else "MISSED" for target in targets)
    peer = "" if now.peer_value is None else f"{now.peer} {number(now.peer_value)}"
    ratio = "" if now.stable is None else number(now.stable)
    factor = change(now, before).factor if before else None
    worse = "" if factor is None else f"{100 * (factor - 1):+.0f} % worse" if factor >= 1 else (
        f"{100 * (1 / factor - 1):.0f} % better"
    )  # fmt: skip
    return name, _value(now), wanted, met, peer, ratio, last, worse


def _value(one: Figure) -> str:
    return f"{number(one.value)} {one.unit}".strip()
