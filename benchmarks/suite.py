"""Run the benchmarks one after another and print one table of their figures.

``python benchmarks/suite.py [FILE ...]``; ``make bench`` runs it with every ``bench_*.py``. All of them run,
also after one has failed or exceeded its time limit; which failed is said last, and by the exit status.

The figures of the last release are in ``benchmarks/baselines``, one file per machine class: processor, number
of processors, minor versions of Python and torch, and the CUDA device. ``--write-baseline`` (``make
bench-baseline``) updates the file of this machine with the figures of this run and keeps the others, so that
a baseline can be completed piece by piece. ``--figures FILE`` takes figures from a file instead of running
benchmarks: those of ``TOCSIN_BENCH_FIGURES=FILE python benchmarks/bench_hook.py --parts log``, for example.

``--regressions`` (``make bench-regressions``) also exits with status 1 if a ratio is more than 20 % worse
than in the baseline. Absolute values are never compared, because they depend on the machine's other load.
A benchmark with such a figure runs once more; the figure is a regression if it is more than 20 % worse in
both runs. Without a baseline for this class of machines nothing can be compared: the figures are written in
its format to ``build/bench/new_baselines``, and the exit status is 3. The file ``build/bench/outcome`` says
which `Outcome` it was, because make hides the exit status. The baseline is changed only by
``--write-baseline``, never by a comparison, so that small losses add up to a regression instead of moving the
baseline.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from types import FrameType
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import tocsin
from benchmarks.figures import FILE, Change, Figure, Machine, machine, parse_figures, regressions, table

ROOT = Path(__file__).resolve().parents[1]
BASELINES = ROOT / "benchmarks" / "baselines"
RESULTS = ROOT / "build" / "bench"
LIMITS_S = {
    "bench_hook.py": 600,
    "bench_ingest.py": 480,
    "bench_kills.py": 600,
    "bench_pages.py": 600,
    "bench_restarts.py": 600,
    "bench_short_runs.py": 600,
    "bench_start.py": 480,
    "bench_store.py": 480,
}
"""Most seconds that a benchmark may take."""
LIMIT_S = 240
"""The limit of the others."""
CLEANUP_S = 30
"""After SIGINT, which lets a benchmark stop its processes, before SIGKILL."""


class Outcome(Enum):
    """How a run ended, and its exit status."""

    OK = ("ok", 0)
    FAILED = ("a benchmark failed", 1)
    WORSE = ("regressions", 1)
    NOT_COMPARED = ("no baseline", 3)

    @property
    def status(self) -> int:
        """Return the exit status."""
        return self.value[1]


@dataclass(frozen=True, slots=True)
class Baseline:
    """The figures of the last release on one class of machines.

    Attributes:
        machine: the machine that measured last.
        figures: each figure by name.
        measured: name -> date and version of each figure.
    """

    machine: Machine
    figures: dict[str, Figure]
    measured: dict[str, tuple[str, str]]

    def updated(self, now: Mapping[str, Figure], here: Machine, date: str, version: str) -> Baseline:
        """Return it with the figures of a run. A value that is not finite replaces nothing."""
        finite = {name: one for name, one in now.items() if math.isfinite(one.value)}
        return Baseline(here, self.figures | finite, self.measured | dict.fromkeys(finite, (date, version)))

    def to_json(self) -> str:
        """Return it as text, in a stable order."""
        figures = {}
        for name, one in sorted(self.figures.items()):
            values = {key: value for key, value in asdict(one).items() if value not in ("", None)}
            del values["name"]
            date, version = self.measured[name]
            figures[name] = values | {"date": date, "version": version}
        return json.dumps({"machine": asdict(self.machine), "figures": figures}, indent=1) + "\n"

    @classmethod
    def parse(cls, text: str) -> Baseline:
        """Return the baseline that `to_json` wrote."""
        data: dict[str, Any] = json.loads(text)
        known = {one.name for one in fields(Figure)}
        figures = {
            name: Figure(name, **{key: value for key, value in one.items() if key in known})
            for name, one in data["figures"].items()
        }
        measured = {name: (one["date"], one["version"]) for name, one in data["figures"].items()}
        return cls(Machine(**data["machine"]), figures, measured)


def read_baseline(here: Machine, folder: Path = BASELINES) -> Baseline:
    """Return the baseline of this class of machines, without figures if there is none."""
    try:
        return Baseline.parse((folder / f"{here.kind}.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Baseline(here, {}, {})


def run(files: Iterable[Path], figures: Path) -> list[Path]:
    """Run the benchmarks, which append to ``figures``; return those that failed."""
    failed = []
    for file in files:
        print(f"== {file}", flush=True)
        begun = time.monotonic()
        status = _status(file, figures)
        print(f"== {file}: {time.monotonic() - begun:.0f} s{f', {status}' if status else ''}", flush=True)
        if status:
            failed.append(file)
    return failed


def _status(file: Path, figures: Path) -> str:
    """Run one benchmark in a process group of its own; return why it failed, or an empty string."""
    limit = LIMITS_S.get(file.name, LIMIT_S)
    process = subprocess.Popen(
        [sys.executable, str(file)], env=os.environ | {FILE: str(figures)}, start_new_session=True
    )
    try:
        status = process.wait(limit)
        return f"exit status {status}" if status else ""
    except subprocess.TimeoutExpired:
        return f"stopped after its limit of {limit} s"
    finally:
        _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(CLEANUP_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def confirmed(first: Mapping[str, Change], second: Mapping[str, Change]) -> dict[str, Change]:
    """Return the regressions that a second run has too."""
    return {name: second[name] for name in first if name in second}


def _again(found: Mapping[str, Change], baseline: Baseline, files: list[Path]) -> dict[str, Change]:
    """Run the benchmarks of ``found`` once more; return the regressions that both runs have."""
    names = {baseline.figures[name].benchmark for name in found}
    print(f"measured again, because they may be regressions: {', '.join(found)}", flush=True)
    again = RESULTS / "again.jsonl"
    again.unlink(missing_ok=True)
    run([file for file in files if file.name in names], again)
    return confirmed(found, regressions(_read(again), baseline.figures, sorted(names)))


def _read(figures: Path) -> dict[str, Figure]:
    return parse_figures(figures.read_text(encoding="utf-8").splitlines()) if figures.exists() else {}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, help="benchmarks to run")
    parser.add_argument("--figures", type=Path, help="take figures from this file and run nothing")
    parser.add_argument("--regressions", action="store_true", help="fail if a ratio is 20 %% worse")
    parser.add_argument("--write-baseline", action="store_true", help="update this machine's baseline")
    return parser.parse_args()


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> int:
    """Run, print the table, compare; return the exit status."""
    outcome = _outcome(_arguments())
    (RESULTS / "outcome").write_text(outcome.value[0] + "\n", encoding="utf-8")
    return outcome.status


def _outcome(chosen: argparse.Namespace) -> Outcome:
    signal.signal(signal.SIGTERM, _interrupt)
    RESULTS.mkdir(parents=True, exist_ok=True)
    figures = chosen.figures or RESULTS / "figures.jsonl"
    failed = []
    if not chosen.figures:
        figures.unlink(missing_ok=True)
        begun = time.monotonic()
        failed = run(chosen.files, figures)
        print(f"\n{time.monotonic() - begun:.0f} s in all")
    now, here = _read(figures), machine()
    baseline = read_baseline(here)
    text = f"{here}\n\n{table(now, baseline.figures)}\n"
    (RESULTS / "table.md").write_text(text, encoding="utf-8")
    print(f"\n{text}")
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    measured = baseline.updated(now, here, today, tocsin.__version__)
    missing = not baseline.figures and not chosen.write_baseline
    if missing:
        print(f"There is no baseline of {here.kind}: nothing was compared.", file=sys.stderr)
        _write(measured, RESULTS / "new_baselines")
    worse: dict[str, Change] = {}
    if chosen.regressions:
        ran = [file.name for file in chosen.files] or sorted({one.benchmark for one in now.values()})
        worse = regressions(now, baseline.figures, ran)
        if worse and not chosen.figures:
            worse = _again(worse, baseline, chosen.files)
    for name, one in worse.items():
        print(f"regression: {name}: {one.why}", file=sys.stderr)
    if chosen.write_baseline:
        _write(measured, BASELINES)
    if failed:
        print(f"failed: {' '.join(map(str, failed))}", file=sys.stderr)
        return Outcome.FAILED
    if worse:
        return Outcome.WORSE
    return Outcome.NOT_COMPARED if missing and chosen.regressions else Outcome.OK


def _write(baseline: Baseline, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{baseline.machine.kind}.json"
    path.write_text(baseline.to_json(), encoding="utf-8")
    print(f"wrote {path}")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
