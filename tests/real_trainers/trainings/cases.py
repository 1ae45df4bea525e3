"""What the trainings of this folder share: each case runs without the hook, then with it, in one process.

``python TRAINING OUT NAME`` writes what the framework itself logged and a digest of the weights to OUT.
``LAUNCHER TRAINING OUT NAME ranks`` trains the case ``ranks`` under the hook; each rank writes to OUT.RANK.
``python TRAINING OUT NAME cost`` trains the case ``healthy`` in pairs, without and with the hook, and
writes the seconds per step of each pair.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import random
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from time import thread_time
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook


@dataclass
class OwnLog:
    """What a framework itself reports of one training: series -> step -> value."""

    series: dict[str, dict[int, float]] = field(default_factory=dict)
    evaluated: dict[str, dict[int, float]] = field(default_factory=dict)
    """Evaluation metrics -> step -> value, from the framework's own file where it writes one."""
    metrics: dict[str, dict[int, float]] = field(default_factory=dict)
    """Other metrics that the framework logs, by the names that tocsin records -> step -> value."""
    warnings: list[str] = field(default_factory=list)
    """What tocsin logged."""
    planned: int | None = None
    """Planned steps, as the framework says."""
    setting: tuple[str, Any] | None = None
    """One setting of the framework, and its value: the path in the run's configuration."""
    weights: str = ""
    times: list[float] = field(default_factory=list)
    """Seconds of CPU time of this thread when the steps were noted."""

    def note_evaluation(self, step: int, **values: float) -> None:
        """Keep evaluation metrics, by their names without a prefix."""
        for name, value in values.items():
            self.evaluated.setdefault(name, {})[step] = float(value)

    def note_metrics(self, step: int, **values: float) -> None:
        """Keep other metrics, by the names that tocsin records."""
        for name, value in values.items():
            self.metrics.setdefault(name, {})[step] = float(value)

    def note(self, step: int, **values: Any) -> None:
        """Keep the values of a step, counted from 0. None is left out."""
        if not any(step in known for known in self.series.values()):
            self.times.append(thread_time())
        for name, value in values.items():
            if value is not None:
                number = value.item() if isinstance(value, Tensor) else float(value)
                self.series.setdefault(name, {})[step] = number


BLOCK = 64
"""Steps that are timed together: the hook does some work every 16th and every 64th step."""
PAIRS = 7
"""Pairs of trainings in which the cost is measured."""
WARM_UP = 20
"""Steps that are not timed: memory is allocated, and the hook describes the model."""
WATCHED_ONLY = ("broken", "lacking")
"""Cases that are not compared with a training without the hook."""

Train = Callable[[str, OwnLog], nn.Module]
"""Trains one case, notes what the framework reports, returns the module that was trained."""


def main(train: Train, distribution: str, *cases: str) -> None:
    """Train every case but WATCHED_ONLY without the hook, then all with it; write the logs as JSON.

    Args:
        train: the training.
        distribution: the package on PyPI whose version is reported.
        cases: ``healthy`` first; ``scaled`` uses a GradScaler; ``broken`` fails at BROKEN_AT;
            ``lacking``, the last one, removes a hook point of the framework.
    """
    out, name = sys.argv[1:3]
    if sys.argv[3:] == ["ranks"]:
        log = trained(train, "ranks", f"{name}-ranks")
        Path(f"{out}.{rank()}").write_text(json.dumps(asdict(log)), "utf-8")
        return
    if sys.argv[3:] == ["cost"]:
        Path(out).write_text(json.dumps(costs(train, name)), "utf-8")
        return
    plain = {case: asdict(trained(train, case)) for case in cases if case not in WATCHED_ONLY}
    watched = {case: asdict(trained(train, case, f"{name}-{case}")) for case in cases}
    logs = {"version": version(distribution), "plain": plain, "watched": watched}
    Path(out).write_text(json.dumps(logs), "utf-8")


def costs(train: Train, name: str) -> list[tuple[float, float]]:
    """Return the seconds per step without and with the hook, of trainings that alternate."""
    seconds_per_step(train, f"{name}-first")  # imports, and the caches of torch
    return [
        (seconds_per_step(train, ""), seconds_per_step(train, f"{name}-{number}")) for number in range(PAIRS)
    ]


def seconds_per_step(train: Train, watched_as: str) -> float:
    """Return the CPU time of this thread per step of a healthy training: the least mean of BLOCK steps.

    What else the machine does only adds to it.
    """
    stepped: list[float] = []
    handle = register_optimizer_step_post_hook(lambda *_: stepped.append(thread_time()))
    log = trained(train, "healthy", watched_as)
    handle.remove()
    times = (stepped or log.times)[WARM_UP:]  # not every framework has torch's optimizers
    return min((times[end] - times[end - BLOCK]) / BLOCK for end in range(BLOCK, len(times)))


def trained(train: Train, case: str, watched_as: str = "") -> OwnLog:
    """Train one case; with the hook if a run name is given.

    Trainings with an integration start the run by it, the others by ``tocsin.watch``.
    """
    seed()
    log = OwnLog()
    if not watched_as:
        log.weights = digest(train(case, log))
        return log
    import tocsin  # not before the trainings without the hook

    if train.__module__ in INTEGRATED:
        return integrated(train, case, watched_as, log)
    with tocsin.watch("real-trainers", name=watched_as):
        log.weights = digest(train(case, log))
    return log


def integrated(train: Train, case: str, watched_as: str, log: OwnLog) -> OwnLog:
    """Train one case whose integration starts the run."""
    from tocsin.core.process_state import active_runs

    os.environ |= {"TOCSIN_PROJECT": "real-trainers", "TOCSIN_NAME": watched_as}
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: log.warnings.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("tocsin").addHandler(handler)
    try:
        log.weights = digest(train(case, log))
    finally:
        logging.getLogger("tocsin").removeHandler(handler)
        del os.environ["TOCSIN_NAME"]
        for run in tuple(active_runs):
            run.finish()
    return log


INTEGRATED: set[str] = set()
"""Modules whose trainings use an integration."""


def uses_integration(train: Train) -> Train:
    """Decorate a training that uses an integration of tocsin when :func:`is_watched`."""
    INTEGRATED.add(train.__module__)
    return train


def is_watched() -> bool:
    """Return whether the training that runs now is watched."""
    return "TOCSIN_NAME" in os.environ


def seed() -> None:
    """Seed every generator that a framework draws from."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


def digest(module: nn.Module) -> str:
    """Return the SHA-256 of all weights and buffers with their names."""
    found = hashlib.sha256()
    for name, value in module.state_dict().items():
        found.update(name.encode())
        found.update(value.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def norm_of(module: nn.Module) -> Tensor:
    """Return the norm of all gradients as they are, for frameworks that clip but do not report the norm."""
    return nn.utils.get_total_norm([p.grad for p in module.parameters() if p.grad is not None])


def rank() -> int:
    """Return the rank of this process; Lightning names that of a second one only in LOCAL_RANK."""
    return int(os.environ.get("RANK") or os.environ.get("LOCAL_RANK") or 0)


def net(width: int = 32) -> nn.Sequential:
    """Return a small network with a normalization, for 8 features."""
    inner = (nn.Linear(8, width), nn.LayerNorm(width), nn.GELU(), nn.Linear(width, width), nn.GELU())
    return nn.Sequential(*inner, nn.Linear(width, 1))


def batches(count: int, *, nan_at: int | None = None) -> list[tuple[Tensor, Tensor]]:
    """Return batches of a noisy regression; the one at ``nan_at`` has a NaN among its features."""
    draw = torch.Generator().manual_seed(7)
    features = torch.randn(count, 16, 8, generator=draw)
    noise = 0.3 * torch.randn(count, 16, 1, generator=draw)
    targets = features[..., :4].sum(-1, keepdim=True).sin() + noise
    if nan_at is not None:
        features[nan_at, 3, 2] = float("nan")
    return list(zip(features, targets, strict=True))


def grad_scaler() -> torch.amp.GradScaler:
    """Return a scaler that starts too high for float16, so that it backs off and then grows again."""
    return torch.amp.GradScaler("cpu", init_scale=2.0**22, growth_interval=25)
