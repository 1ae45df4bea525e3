"""Log the same numbers with other tools, each in a temporary environment.

A tool that does not install or run is left out with a message.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

INSTALL_S, RUN_S = 400, 300
STEPS = 10_000

COMMON = """
import sys, time
STEPS = int(sys.argv[1])
def row(step):
    return {"loss": step * 0.5, "grad_norm": 1.25, "scale": 65536.0, "lr": 1e-4}
begun = time.perf_counter()
"""
END = """
print("took", time.perf_counter() - begun)
"""
SCRIPTS = {
    "tensorboard": """
from tensorboardX import SummaryWriter
begun = time.perf_counter()
board = SummaryWriter("data")
for step in range(STEPS):
    for name, value in row(step).items():
        board.add_scalar(name, value, step)
board.close()
""",
    "trackio": """
import trackio
begun = time.perf_counter()
trackio.init(project="bench", name="run", embed=False)
for step in range(STEPS):
    trackio.log(row(step), step=step)
trackio.finish()
""",
    "aim": """
from aim import Run
begun = time.perf_counter()
run = Run(repo="data", system_tracking_interval=None)
for step in range(STEPS):
    for name, value in row(step).items():
        run.track(value, name=name, step=step)
run.close()
""",
    "mlflow": """
import mlflow
mlflow.set_tracking_uri("sqlite:///data/mlflow.db")
begun = time.perf_counter()
with mlflow.start_run():
    for step in range(STEPS):
        mlflow.log_metrics(row(step), step=step)
""",
}
"""Log ``STEPS`` steps of four values and return when they are on disk."""
PACKAGES = {"tensorboard": ["tensorboardX"], "trackio": ["trackio"], "aim": ["aim"], "mlflow": ["mlflow"]}
FEWER = {"mlflow": 20}
"""Divisor of the number of steps for tools whose steps are very slow."""


@dataclass(frozen=True, slots=True)
class Peer:
    """Points per second from the first call to disk, and bytes per point on disk."""

    name: str
    points_per_s: float
    bytes_a_point: float


def measured(place: Path, name: str) -> Peer | str:
    """Return the results of one tool, or why there are none."""
    home = place / name
    (home / "data").mkdir(parents=True)
    try:
        python = _environment(home / "venv", PACKAGES[name])
        return _run(python, name, home)
    except (subprocess.SubprocessError, OSError, StopIteration) as error:
        return f"{name}: left out, {type(error).__name__}: {_last_line(error)}"


def _environment(folder: Path, packages: list[str]) -> Path:
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    command = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages]
    subprocess.run(command, check=True, capture_output=True, timeout=INSTALL_S)
    return python


def _run(python: Path, name: str, home: Path) -> Peer:
    steps = STEPS // FEWER.get(name, 1)
    environ = {"PATH": os.environ["PATH"], "HOME": str(home), "TRACKIO_DIR": str(home / "data")}
    environ |= {
        "HF_HUB_OFFLINE": "1",
        "GRADIO_ANALYTICS_ENABLED": "False",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    command = [str(python), "-c", COMMON + SCRIPTS[name] + END, str(steps)]
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=RUN_S, cwd=home, env=environ
    )
    took = next(float(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("took"))
    size = sum(file.stat().st_size for file in (home / "data").rglob("*") if file.is_file())
    return Peer(name, 4 * steps / took, size / (4 * steps))


def _last_line(error: BaseException) -> str:
    reported = getattr(error, "stderr", None) or str(error)
    text = reported.decode(errors="replace") if isinstance(reported, bytes) else str(reported)
    return text.strip().splitlines()[-1][:200] if text.strip() else ""


if __name__ == "__main__":
    print(measured(Path(sys.argv[1]), sys.argv[2]))
