"""Other trackers, each in a separate environment in ``build/peers``, which is created once and kept.

An environment has the tracker and its dependencies; torch comes from the environment of the benchmarks,
through a path file that is searched last. The size of a tracker is what it adds to a training environment
that has torch and NumPy.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import sysconfig
import venv
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACE = ROOT / "build" / "peers"
INSTALL_S = 300
PACKAGES = {
    "tensorboard": "tensorboard",
    "trackio": "trackio",
    "aim": "aim",
    "mlflow": "mlflow",
    "wandb": "wandb",
    "swanlab": "swanlab",
}
BASE = ("torch", "numpy", "pip", "setuptools", "wheel")
"""Packages that every training environment has, besides their dependencies."""
OWN = ("msgspec", "websockets")


@dataclass(frozen=True, slots=True)
class Environment:
    """A Python that can import the tracker, and what the tracker added: distributions and their bytes."""

    python: str
    version: str
    packages: int
    size: int


def own_environment() -> Environment:
    """Return the environment of the benchmark, with what the hook adds: its sources and its two
    dependencies."""
    sources = (ROOT / "client_hook" / "tocsin").rglob("*.py")
    size = sum(path.stat().st_size for path in sources)
    size += sum(_bytes_of(metadata.distribution(name)) for name in OWN)
    return Environment(sys.executable, metadata.version("tocsin"), 1 + len(OWN), size)


def environment(name: str) -> Environment:
    """Return the tracker's environment, which the first call installs.

    Raises:
        CalledProcessError, TimeoutExpired: it does not install; ``stderr`` says why.
    """
    folder = PLACE / f"{name}-{sys.version_info.major}.{sys.version_info.minor}"
    facts = folder / "facts.json"
    if not facts.exists():
        made = _install(folder, PACKAGES[name])
        facts.write_text(json.dumps(asdict(made)))
    return Environment(**json.loads(facts.read_text()))


def _install(folder: Path, package: str) -> Environment:
    venv.create(folder, with_pip=False, clear=True, symlinks=True)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--prefer-binary"]
    command = [*pip, "--disable-pip-version-check", "--no-input", package]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=INSTALL_S)
    site = next((folder / "lib").glob("python*/site-packages"))
    brought = [one for one in metadata.distributions(path=[str(site)]) if _name(one) not in _base()]
    version = next(one.version for one in brought if _name(one) == package)
    (site / "benches.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return Environment(str(python), version, len(brought), sum(map(_bytes_of, brought)))


def _bytes_of(distribution: metadata.Distribution) -> int:
    """Return the size of its files, without what Python compiles from them."""
    files = [Path(str(file.locate())) for file in distribution.files or () if file.suffix != ".pyc"]
    return sum(path.stat().st_size for path in files if path.is_file())


def _base() -> set[str]:
    """Return the names of BASE and of everything that it requires here."""
    found: set[str] = set()
    waiting = list(BASE)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        try:
            required = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        waiting += [
            _normal(re.split(r"[^\w.-]", line, maxsplit=1)[0]) for line in required if "extra ==" not in line
        ]
    return found


def _name(distribution: metadata.Distribution) -> str:
    return _normal(distribution.metadata["Name"])


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
