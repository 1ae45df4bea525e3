"""Write the fixtures of this folder with the real trackers: ``python write.py TRACKER FOLDER``.

``mlflow.sql`` and ``trackio.sql`` are dumps of the databases; of MLflow's, without tables that are not read.
``mlruns`` is MLflow's file store (with ``MLFLOW_ALLOW_FILE_STORE=true``). Made with mlflow 3.17.2 and trackio
0.43.0.
"""

from __future__ import annotations

import math
import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

STEPS, NONFINITE = 24, 20
READ = ("metrics", "runs", "params", "tags", "experiments")
"""Tables of MLflow that are read."""


def values(run: str, step: int) -> dict[str, float]:
    """Return what a run logs at a step."""
    is_bad = run == "bad" and step == NONFINITE
    return {
        "train/loss": math.nan if is_bad else 2.0 / (step + 1),
        "grad_norm": -math.inf if is_bad else 1.0,
    }


def write_mlflow(uri: str) -> None:
    """Write two runs of an experiment."""
    import mlflow  # type: ignore[import-not-found, unused-ignore]

    mlflow.set_tracking_uri(uri)
    mlflow.set_experiment("speech")
    for run in ("good", "bad"):
        with mlflow.start_run(run_name=run):
            mlflow.log_params({"lr": 0.1, "model": "tiny"})
            for step in range(STEPS):
                mlflow.log_metrics(values(run, step), step=step)
                if step % 10 == 0:
                    mlflow.log_metric("val_accuracy", step / 100, step=step)


def write_trackio(folder: Path) -> None:
    """Write two runs of a project."""
    os.environ["TRACKIO_DIR"] = str(folder)
    import trackio  # type: ignore[import-not-found, unused-ignore]

    for run in ("good", "bad"):
        trackio.init(project="speech", name=run, config={"lr": 0.1, "model": "tiny"})
        for step in range(STEPS):
            trackio.log({**values(run, step), "note": "1.5"}, step=step)
        trackio.finish()


def dump(path: Path, place: Path, tables: tuple[str, ...] = ()) -> None:
    """Write a database as SQL; with ``tables``, only these."""
    with closing(sqlite3.connect(path)) as database:
        others = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for name in others if tables else ():
            if name not in tables and not name.startswith("sqlite_"):
                database.execute(f'DROP TABLE "{name}"')
        place.write_text("\n".join(database.iterdump()) + "\n")


if __name__ == "__main__":
    tracker, root = sys.argv[1], Path(sys.argv[2]).resolve()
    if tracker == "mlflow":
        write_mlflow(f"sqlite:///{root}/mlflow.db")
        dump(root / "mlflow.db", root / "mlflow.sql", READ)
    elif tracker == "mlruns":
        write_mlflow(f"file://{root}/mlruns")
    else:
        write_trackio(root)
        dump(root / "speech.db", root / "trackio.sql")
