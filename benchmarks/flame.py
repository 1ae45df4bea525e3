"""Draw where the hook spends its time within a training: flame graphs from samples of py-spy.

``make flame`` trains the loops of ``benchmarks/loops.py`` with the hook and writes
``docs/img/flame-<loop>.svg``. ``flame.py train LOOP SECONDS URL`` is the training that is sampled.

Only stacks that end in the hook are drawn, from the hook's function on. A function of torch that the hook has
wrapped appears below the wrapper, but is not part of the cost. Widths are shares of the samples of the
training's steps; the sender's thread is drawn to the same scale.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.bench_hook import sink
from benchmarks.loops import LOOPS

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "img"
RATE = 500
"""Samples per second."""
SECONDS = 60
TRAINING, SENDER = "training thread", "sender's thread"
WIDTH, ROW, CHARACTER = 960, 17, 6.1
"""Pixels of the picture, of a row and of a letter."""
SMALLEST = 0.004
"""Smallest part of the picture that is drawn."""
COLORS = ("#f6c667", "#f2a65a", "#f7d488", "#eeb868", "#f4b183")
"""Light fills with dark text are readable on light and on dark pages."""


@dataclass
class Node:
    """A function in its callers: samples in it and in what it calls."""

    count: int = 0
    below: dict[str, Node] = field(default_factory=dict)

    def add(self, names: Iterable[str], count: int) -> None:
        """Count a stack, outermost function first."""
        node = self
        node.count += count
        for name in names:
            node = node.below.setdefault(name, Node())
            node.count += count


def train(loop: str, seconds: float, url: str) -> None:
    """Train with the hook for that long; print the mean microseconds of a step."""
    import torch

    import tocsin

    torch.set_num_threads(1)
    run = tocsin.watch("bench", name="flame", url=url)
    training, steps, begun = LOOPS[loop](), 0, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        training.step()
        steps += 1
    print((time.perf_counter() - begun) / steps * 1e6)
    run.finish()


def graph(lines: Iterable[str]) -> tuple[Node, int]:
    """Return the hook's functions by thread, and the number of samples of the training thread.

    Args:
        lines: py-spy's raw format, ``thread;function (file:line);... count``.
    """
    root, training = Node(), 0
    for line in lines:
        stack, _, count = line.rpartition(" ")
        frames = stack.split(";")
        step = any(re.search(r"[(/]loops\.py", frame) for frame in frames)
        training += int(count) if step else 0
        last = max((no for no, frame in enumerate(frames) if "(torch/" in frame), default=-1)
        own = [no for no, frame in enumerate(frames) if no > last and "(tocsin/" in frame]
        if own and (step or "threading.py" in frames[0]):
            thread = TRAINING if step else SENDER
            root.add((thread, *map(_name, frames[own[0] :])), int(count))
    return root, training


def _name(frame: str) -> str:
    """Return function and file, without the path and the line."""
    found = re.fullmatch(r"(.+) \((?:.*/)?([^/]+?)\.py(?::\d+)?\)", frame)
    return f"{found[1]} ({found[2]})" if found else frame


def svg(root: Node, training: int, step_us: float) -> str:
    """Return the picture. Each box has a tooltip with its function, share and time per step."""
    boxes = [box for box in _boxes(root, 0, 0) if box[2] >= SMALLEST * root.count]
    scale = WIDTH / root.count
    height = (1 + max(level for level, *_ in boxes)) * ROW
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="monospace" font-size="10">'
    ]
    for level, start, count, name in boxes:
        us = count / training * step_us
        left, width, top = start * scale, count * scale - 0.5, level * ROW
        letters = int((width - 4) / CHARACTER)
        text = name if len(name) <= letters else name[: max(0, letters - 1)] + "…" if letters > 3 else ""
        fill = COLORS[sum(map(ord, name)) % len(COLORS)]
        parts.append(
            f"<g><title>{escape(name)}: {us:.1f} us a step</title>"
            f'<rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="{ROW - 1}" rx="2" fill="{fill}"/>'
            f'<text x="{left + 2:.1f}" y="{top + 12}" fill="#222">{escape(text)}</text></g>'
        )
    return "\n".join((*parts, "</svg>")) + "\n"


def _boxes(node: Node, start: int, level: int) -> Iterator[tuple[int, int, int, str]]:
    """Yield level, first sample, samples and name of every function below ``node``."""
    for name, child in sorted(node.below.items()):
        yield level, start, child.count, name
        yield from _boxes(child, start, level + 1)
        start += child.count


def record(loop: str, url: str, seconds: float) -> tuple[list[str], float]:
    """Train with the hook under py-spy; return its stacks and the microseconds of a step."""
    with tempfile.TemporaryDirectory() as place:
        stacks = Path(place) / "stacks"
        program = [sys.executable, str(Path(__file__).resolve()), "train", loop, str(seconds), url]
        done = subprocess.run(
            [str(Path(sys.executable).with_name("py-spy")), "record", "--rate", str(RATE), "--format", "raw",
             "--function", "--output", str(stacks), "--", *program],
            env=os.environ | {"TOCSIN_SPOOL_DIR": place, "TOCSIN_QUIET": "1"},
             cwd=place, check=True, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        step = next(float(line) for line in done.stdout.splitlines() if re.fullmatch(r"[\d.]+", line))
        return stacks.read_text(encoding="utf-8").splitlines(), step


def main() -> None:
    """Write a picture for each loop."""
    if sys.argv[1:2] == ["train"]:
        train(sys.argv[2], float(sys.argv[3]), sys.argv[4])
        return
    with sink() as url:
        for loop in LOOPS:
            lines, step = record(loop, url, float(os.environ.get("TOCSIN_BENCH_SECONDS", SECONDS)))
            root, training = graph(lines)
            path = IMAGES / f"flame-{loop}.svg"
            path.write_text(svg(root, training, step), encoding="utf-8")
            own = root.below[TRAINING].count / training
            print(f"{path}: {training} samples, {own:.1%} of a step of {step:,.0f} us in the hook")


if __name__ == "__main__":
    main()
