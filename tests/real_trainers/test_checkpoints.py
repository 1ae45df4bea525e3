"""Checkpoints of real frameworks: one for each directory or file that a script would resume from."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Tower
from tests.matrix import LONG
from tests.real_trainers.comparison import LONGEST_S, TRAININGS, environment

Known = dict[str, tuple[str, int]]
"""Name of what is there in the end -> function, step."""

pytestmark = LONG


@pytest.mark.parametrize(
    ("framework", "packages", "expected"),
    [
        (
            "safetensors",
            "requirements",
            {"file.safetensors": ("safetensors", 0), "model.safetensors": ("safetensors", 0)},
        ),
        (
            "accelerate",
            "requirements",
            {
                "state": ("accelerate.save_state", 2),
                "model": ("accelerate.save_model", 2),
                "weights.pt": ("torch.save", 2),
            },
        ),
        (
            "distributed",
            "requirements",
            {"plain": ("torch.distributed.checkpoint", 0), "async": ("torch.distributed.checkpoint", 0)},
        ),
        (
            "deepspeed",
            "requirements requirements-all",
            {"global_step3": ("deepspeed", 2), "best": ("deepspeed", 2)},
        ),
        ("transformers", "requirements", {"checkpoint-4": ("transformers.Trainer", 3)}),
        (
            "lightning",
            "requirements-lightning",
            {"epoch=2.ckpt": ("lightning", 8), "last.ckpt": ("lightning", 8)},
        ),
    ],
)
def test_what_is_known_is_what_is_there(
    framework: str, packages: str, expected: Known, shared_tower: Tower, tmp_path: Path
) -> None:
    """Files that the framework deleted are not left, and each is known with its size and step."""
    command = [sys.executable, str(TRAININGS / "saves.py"), framework, str(tmp_path)]
    done = subprocess.run(
        command,
        env=environment(shared_tower, packages.split()),
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    known: dict[str, dict[str, Any]] = {}
    for line in done.stdout.splitlines():
        if not line.startswith('{"kind"'):
            continue
        event = json.loads(line)
        if event["kind"] == "checkpoint":
            known[event["path"]] = event
        elif event["kind"] == "checkpoint-removed":
            del known[event["path"]]
    assert {os.path.basename(path): (each["by"], each["step"]) for path, each in known.items()} == expected
    for path, each in known.items():
        inside = [file for file in Path(path).rglob("*") if file.is_file()] or [Path(path)]
        assert each["size"] == sum(file.stat().st_size for file in inside)
        assert each["complete"] is True
