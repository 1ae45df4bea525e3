"""A training that logs to one tracker and does not mention tocsin: ``training.py TRACKER FOLDER``.

Prints as JSON what the calls returned, what a wrong call raised, and what the tracker has stored.
"""

from __future__ import annotations

import json
import math
import os
import struct
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

Series = dict[str, list[tuple[int, float]]]
STEPS, FIRST_NAN = 60, 10
LOGGED = ("train/loss", "train/tensor", "train/single")
PAUSE_S = 0.05
"""Time for an alert of the first NaN to arrive while the training still runs."""
MEDIA = np.broadcast_to(np.float32(0), (2**28,))
"""1 GB, if anything copied it."""


def frames(file: Path) -> Iterator[bytes]:
    """Yield the records of a file in the format of LevelDB's log, after a header of 7 bytes."""
    data, at, parts = file.read_bytes(), 7, b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        _, size, kind = struct.unpack_from("<IHB", data, at)
        parts, at = parts + data[at + 7 : at + 7 + size], at + 7 + size
        if kind in (1, 4):
            yield parts
            parts = b""


def flat(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of mappings in mappings."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{name}/")
        else:
            yield f"{prefix}{name}", value


def put(series: Series, name: str, step: int, value: Any) -> None:
    """Add a number to a series, infinities and NaN as text. Texts and media are left out."""
    if isinstance(value, int | float):
        number = float(value)
        series.setdefault(name, []).append((step, number if math.isfinite(number) else str(number)))  # type: ignore[arg-type]


class Wandb:
    """Offline, as on a cluster."""

    def start(self, folder: Path) -> None:
        import wandb

        self.run = wandb.init(project="p", dir=str(folder), mode="offline")
        wandb.define_metric("train/by_epoch", step_metric="epoch")

    def log(self, values: dict[str, Any], step: int) -> Any:
        import wandb

        more = {"media": MEDIA[:0], "train": {"nested": 1.0}, "epoch": step // 10, "train/by_epoch": 2.0}
        return wandb.log({**values, "note": "text", **more}, step=step)

    def wrong(self) -> Any:
        import wandb

        return wandb.log(3)

    def stop(self) -> None:
        self.run.finish()

    def read(self, folder: Path) -> tuple[Series, str]:
        from wandb.proto import wandb_internal_pb2

        series: Series = {}
        alerts = ""
        (file,) = folder.glob("wandb/offline-run-*/*.wandb")
        ends = time.monotonic() + 30
        while not any(wandb_internal_pb2.Record.FromString(one).HasField("exit") for one in frames(file)):
            assert time.monotonic() < ends, "W&B has not written its file"  # its service writes it
            time.sleep(0.1)
        for frame in frames(file):
            record = wandb_internal_pb2.Record.FromString(frame)
            for item in record.history.item:
                name = ".".join([item.key] if item.key else item.nested_key)
                put(series, name, record.history.step.num, json.loads(item.value_json))
            alerts += record.alert.title + record.alert.text
            alerts += " ".join(item.value_json for item in record.summary.update if "tocsin" in item.key)
        return series, alerts


class MLflow:
    """In a SQLite database."""

    def start(self, folder: Path) -> None:
        import mlflow

        mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
        self.run = mlflow.start_run()

    def log(self, values: dict[str, Any], step: int) -> Any:
        import mlflow

        mlflow.log_metric("train/single", 0.5, step=step)
        return mlflow.log_metrics(values, step=step)

    def wrong(self) -> Any:
        import mlflow

        return mlflow.log_metric("train/wrong", "text")

    def stop(self) -> None:
        import mlflow

        mlflow.end_run()

    def read(self, folder: Path) -> tuple[Series, str]:
        import mlflow

        client = mlflow.MlflowClient()
        data = client.get_run(self.run.info.run_id).data
        series: Series = {}
        for name in data.metrics:
            for one in client.get_metric_history(self.run.info.run_id, name):
                put(series, name, one.step, one.value)
        return series, str({key: value for key, value in data.tags.items() if key.startswith("tocsin.")})


class Trackio:
    """Local."""

    def start(self, folder: Path) -> None:
        import trackio

        trackio.init(project="p", name="r", auto_log_gpu=False)

    def log(self, values: dict[str, Any], step: int) -> Any:
        import trackio

        plain = {name: value.item() if hasattr(value, "item") else value for name, value in values.items()}
        return trackio.log({**plain, "note": "text"}, step=step)

    def wrong(self) -> Any:
        import trackio

        return trackio.log()

    def stop(self) -> None:
        import trackio

        trackio.finish()

    def read(self, folder: Path) -> tuple[Series, str]:
        from trackio.sqlite_storage import SQLiteStorage

        series: Series = {}
        for row in SQLiteStorage.get_logs("p", "r"):
            for name, value in flat(row):
                if name != "step":
                    put(series, name, row["step"], value)
        return series, str(SQLiteStorage.get_alerts("p", "r"))


class Aim:
    """In a local repository."""

    def start(self, folder: Path) -> None:
        import aim

        self.run = aim.Run(repo=str(folder), log_system_params=False)

    def log(self, values: dict[str, Any], step: int) -> Any:
        import aim

        self.run.track(aim.Text("text"), name="note", step=step)
        parts = {name.removeprefix("train/"): value for name, value in values.items()}
        return self.run.track(parts, step=step, context={"subset": "train"})

    def wrong(self) -> Any:
        return self.run.track(object(), name="wrong")

    def stop(self) -> None:
        self.series: Series = {}
        for name, context, _ in self.run.iter_metrics_info():
            path = "/".join((*context.to_dict().values(), name))
            for step, (value, *_) in self.run.get_metric(name, context).data.items():
                put(self.series, path, step, value)
        logged = self.run.get_log_records()
        texts = [] if logged is None else [record.message for record in logged.data.items_list()[1][0]]
        self.alerts = str([self.run.get("tocsin", ""), *texts])
        self.run.close()

    def read(self, folder: Path) -> tuple[Series, str]:
        return self.series, self.alerts


class SwanLab:
    """Offline."""

    def start(self, folder: Path) -> None:
        import swanlab

        self.run = swanlab.init(project="p", mode="offline", log_dir=str(folder))

    def log(self, values: dict[str, Any], step: int) -> Any:
        import swanlab

        return swanlab.log({**values, "note": swanlab.Text("text")}, step=step)

    def wrong(self) -> Any:
        import swanlab

        return swanlab.log()

    def stop(self) -> None:
        import swanlab

        swanlab.finish()

    def read(self, folder: Path) -> tuple[Series, str]:
        from swanlab.proto.swanlab.record.v1.record_pb2 import Record

        series: Series = {}
        (file,) = folder.glob("run-*/*.swanlab")
        for frame in frames(file):
            one = Record.FromString(frame)
            if one.HasField("scalar"):
                put(series, one.scalar.key, one.scalar.step, one.scalar.value.number)
        return series, (file.parent / "files" / "config.yaml").read_text()


class Comet:
    """Offline, in an archive."""

    def start(self, folder: Path) -> None:
        import comet_ml

        self.run = comet_ml.OfflineExperiment(
            offline_directory=str(folder),
            project_name="p",
            workspace="w",
            log_code=False,
            display_summary_level=0,
        )

    def log(self, values: dict[str, Any], step: int) -> Any:
        self.run.set_step(step)
        self.run.log_metric("train/single", 0.5)
        return self.run.log_metrics(values, step=step)

    def wrong(self) -> Any:
        return self.run.log_metric("train/wrong")

    def stop(self) -> None:
        self.run.end()

    def read(self, folder: Path) -> tuple[Series, str]:
        import zipfile

        (file,) = folder.glob("*.zip")
        series: Series = {}
        others = ""
        for line in zipfile.ZipFile(file).read("messages.json").decode().splitlines():
            payload = json.loads(line)["payload"]
            if metric := payload.get("metric"):
                put(series, metric["metricName"], metric["step"], metric["metricValue"])
            others += str(payload) if str(payload.get("key", "")).startswith("tocsin/") else ""
        return series, others


class TensorBoard:
    """Event files, whose numbers have 32 bits."""

    def start(self, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(folder / "tensorboard"))

    def log(self, values: dict[str, Any], step: int) -> None:
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)

    def stop(self) -> None:
        self.writer.close()

    def read(self, folder: Path) -> tuple[Series, str]:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        series: Series = {}
        root = folder / "tensorboard"
        for file in sorted(root.rglob("*tfevents*")):
            events = EventAccumulator(str(file), {"scalars": 0}).Reload()
            for tag in events.Tags()["scalars"]:  # add_scalars has a folder for each name: pair_one
                part = "" if file.parent == root else file.parent.name.removeprefix(f"{tag}_")
                for one in events.Scalars(tag):
                    put(series, f"{tag}/{part}".rstrip("/"), one.step, one.value)
        return series, ""


TRACKERS: dict[str, Callable[[], Any]] = {
    "wandb": Wandb,
    "mlflow": MLflow,
    "trackio": Trackio,
    "aim": Aim,
    "swanlab": SwanLab,
    "comet": Comet,
    "tensorboard": TensorBoard,
}


def main(name: str, folder: Path) -> None:
    """Train, log, and print what the tracker has."""
    out = os.dup(1)
    os.dup2(2, 1)  # what trackers print goes to stderr
    tracker = TRACKERS[name]()
    tracker.start(folder)
    torch.manual_seed(0)
    net = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    returned = []
    for step in range(STEPS):
        loss = net(torch.ones(2, 4)).square().mean()
        if step >= FIRST_NAN:
            loss = loss * math.nan
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        number = 0.5 if name == "mlflow" and step >= FIRST_NAN else step / 8
        values = {"train/loss": number, "train/tensor": torch.tensor(float(step))}
        returned.append(repr(tracker.log(values, 100 + step)))
        time.sleep(PAUSE_S)
    try:
        raised = repr(tracker.wrong())
    except Exception as error:  # noqa: BLE001 - whatever the tracker raises
        raised = f"{type(error).__name__}: {error}"
    tracker.stop()
    found, alerts = tracker.read(folder)
    series = {name: values for name, values in found.items() if name in LOGGED}
    told = {"returned": returned, "raised": raised, "series": series, "alerts": alerts}
    os.write(out, json.dumps(told).encode())


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
