"""Addresses of projects and runs at W&B. ``tests/trackers/test_wandb_cloud.py`` reads them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tocsin.cli.commands import main
from tocsin.importers.wandb_cloud import Address, address_of

SELF_HOSTED = "wandb.lab.example:8443"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("wandb://ML-Team/speech", Address("ML-Team", "speech")),
        ("wandb://ml-team/speech/", Address("ml-team", "speech")),
        ("wandb://ml-team/speech/owl1", Address("ml-team", "speech", "owl1")),
        ("wandb://ml-team/speech/runs/owl1", Address("ml-team", "speech", "owl1")),
        ("https://wandb.ai/ml-team/speech", Address("ml-team", "speech", host="wandb.ai")),
        ("https://wandb.ai/ml-team/speech/workspace?nw=x", Address("ml-team", "speech", host="wandb.ai")),
        ("https://wandb.ai/a/b/runs/owl1/overview#c", Address("a", "b", "owl1", "wandb.ai")),
        ("https://forge.coreweave.com/wandb/a/b/runs/c", Address("a", "b", "c", "forge.coreweave.com")),
        (f"https://{SELF_HOSTED}/a/my%20project", Address("a", "my project", host=SELF_HOSTED)),
    ],
)
def test_an_address_is_understood(text: str, address: Address) -> None:
    """As it is written, and as it is copied from the browser."""
    assert address_of(text) == address


@pytest.mark.parametrize("path", ["wandb", "wandb/offline-run-20260102_1", "C:\\runs", "a:b/c"])
def test_a_path_is_no_address(path: str) -> None:
    """Also a folder of W&B."""
    assert address_of(path) is None


@pytest.mark.parametrize(
    "text",
    ["wandb://", "wandb://ml-team", "wandb:///speech", "https://wandb.ai/ml-team", "s3://bucket/runs/a",
     "https://wandb.ai/a/b/sweeps/c", "https://wandb.ai/a/b/reports/c", "wandb://a/b/c/d"],
)  # fmt: skip
def test_another_address_is_rejected(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """By the command, with what was expected."""
    with pytest.raises(SystemExit):
        main(["import", text])
    assert "expected wandb://ENTITY/PROJECT, wandb://ENTITY/PROJECT/RUN, or" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("file", "why"),
    [
        ("run-ab12.wandb", "the package wandb is missing. Install it: pip install wandb"),
        ("__init__.py", "wandb cannot be imported: No module named 'absent_package'"),
    ],
)
def test_a_missing_or_broken_package_is_named(file: str, why: str, tmp_path: Path) -> None:
    """Also in the folder of a training, where ``wandb`` is a folder of runs."""
    (tmp_path / "wandb").mkdir()
    (tmp_path / "wandb" / file).write_text("import absent_package\n")
    command = [sys.executable, "-m", "tocsin.cli", "import", "wandb://a/b"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (1, f"FAIL  a/b: {why}\n", "")
