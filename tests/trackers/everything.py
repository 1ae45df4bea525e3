"""A script that logs all that a tracker takes: ``everything.py TRACKER FOLDER``.

Prints as JSON what the tracker has stored. NONE as tracker logs nothing.
"""

from __future__ import annotations

import collections
import json
import math
import os
import re
import sqlite3
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.trackers.training import TRACKERS, Series, frames

NONE = "none"
STEPS = 4
HUGEST = sys.float_info.max
"""What MLflow stores for an infinity."""


def values(step: int) -> dict[str, Any]:
    """Return what every tracker takes at one step."""
    return {
        "all/float": step + 0.1,
        "all/integer": step,
        "all/nan at the odd": math.nan if step % 2 else 1e-300,
        "all/infinity": math.inf,
        "all/minus infinity": -math.inf,
        "all/numpy": np.float64(step / 3),
        "all/integer of numpy": np.int64(step),
        "all/tensor": torch.tensor(step / 4),
    }


def nested(step: int) -> dict[str, Any]:
    """Return mappings in mappings, for trackers that flatten them."""
    deep = {"er": {"value": step + 0.5, "text": "left out"}, "flag": step % 2}
    return {"deep": deep, "größe %": step / 7}


def plain(values: dict[str, Any]) -> dict[str, Any]:
    """Return Python's own numbers, for trackers that take no others."""
    return {name: value.item() if hasattr(value, "item") else value for name, value in values.items()}


def wandb(_tracker: Any, step: int) -> None:
    import wandb

    wandb.log({**values(step), **nested(step)}, step=10 * step)
    wandb.log({"same": 1.0}, step=10 * step)
    wandb.log({"free": step / 8, "note": "text"})


def mlflow(_tracker: Any, step: int) -> None:
    import mlflow

    mlflow.log_metrics(values(step), step=10 * step)
    mlflow.log_metric("same", 1.0, step=10 * step)
    mlflow.log_metric("free", step / 8)
    mlflow.log_param(f"note {step}", "text")


def trackio(_tracker: Any, step: int) -> None:
    import trackio

    trackio.log({**plain(values(step)), **nested(step)}, step=10 * step)
    trackio.log({"same": 1.0}, step=10 * step)
    trackio.log({"free": step / 8, "note": "text"})


def aim(tracker: Any, step: int) -> None:
    for name, value in values(step).items():
        tracker.run.track(value, name=name, step=10 * step)
    tracker.run.track({"one": 1.0, "two": 2.0}, step=10 * step, context={"subset": "val"})
    tracker.run.track(step / 8, name="free")


def swanlab(_tracker: Any, step: int) -> None:
    import swanlab

    swanlab.log({**values(step), **nested(step)}, step=10 * step)
    swanlab.log({"same": 1.0}, step=10 * step)
    swanlab.log({"free": step / 8, "note": swanlab.Text("text")})


def comet(tracker: Any, step: int) -> None:
    tracker.run.log_metrics({**values(step), **nested(step)}, step=10 * step)
    tracker.run.log_metrics({"one": 1.0}, prefix="val", step=10 * step)
    tracker.run.log_metric("same", 1.0, step=10 * step)


def tensorboard(tracker: Any, step: int) -> None:
    for name, value in values(step).items():
        tracker.writer.add_scalar(name, value, 10 * step)
    tracker.writer.add_scalars("pair", {"one": 1.0, "two": math.nan}, 10 * step)
    tracker.writer.add_scalar("free", step / 8)
    tracker.writer.add_histogram("weights", torch.zeros(8), 10 * step)


LOG: dict[str, Callable[[Any, int], None]] = {
    "wandb": wandb,
    "mlflow": mlflow,
    "trackio": trackio,
    "aim": aim,
    "swanlab": swanlab,
    "comet": comet,
    "tensorboard": tensorboard,
}


def census(folder: Path) -> dict[str, Any]:
    """Return the files of a folder without the parts of their names that differ from run to run, and how many
    records of each kind are in those that have records."""
    found: dict[str, Any] = {}
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = re.sub(r"run-[^/.]+|[0-9a-z]*\d[0-9a-z]*", "#", str(file.relative_to(folder)))
        found[name] = counted(file)
    return found


def counted(file: Path) -> Any:
    """Return the number of records by kind, or None."""
    if file.suffix == ".wandb":
        from wandb.proto.wandb_internal_pb2 import Record as WandbRecord

        kinds = [WandbRecord.FromString(one).WhichOneof("record_type") for one in frames(file)]
        return collections.Counter(kind for kind in kinds if kind not in ("stats", "output_raw", "files"))
    if file.suffix == ".swanlab":
        from swanlab.proto.swanlab.record.v1.record_pb2 import Record

        return collections.Counter(Record.FromString(one).WhichOneof("record_type") for one in frames(file))
    if file.suffix == ".db":
        with sqlite3.connect(file) as database:
            tables = [
                name for (name,) in database.execute("select name from sqlite_master where type='table'")
            ]
            return {name: database.execute(f'select count(*) from "{name}"').fetchone()[0] for name in tables}
    if file.suffix == ".zip":
        lines = zipfile.ZipFile(file).read("messages.json").decode().splitlines()
        kinds = [json.loads(line)["type"] for line in lines]
        return collections.Counter(kind for kind in kinds if kind != "standard_output")
    return None


def main(name: str, folder: Path) -> None:
    """Train four steps, log at each, and print what the tracker has."""
    out = os.dup(1)
    os.dup2(2, 1)  # what trackers print goes to stderr
    tracker = TRACKERS[name]() if name != NONE else None
    if tracker is not None:
        tracker.start(folder)
    net = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(STEPS):
        net(torch.ones(2, 4)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if tracker is not None:
            LOG[name](tracker, step)
    series: Series = {}
    if tracker is not None:
        tracker.stop()
        series, _ = tracker.read(folder)
    os.write(out, json.dumps({"series": series, "files": census(folder)}).encode())


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
