"""Very deeply nested files and extremely large numbers: each command prints one error message."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

DEEP_JSON = '{"a":' * 100_000
DEEP_LINE = '{"a":' * 700 + "1" + "}" * 700
HUGE = "9" * 5000
DOCUMENTS = {
    "rules.toml": ["x = " + "[" * 5000, f"x = {HUGE}", "x = 1e400", "a." * 5000 + "b = 1"],
    "snapshot.json": [
        '{"tocsin_snapshot":' + "[" * 100_000,
        '{"tocsin_snapshot":' + HUGE + "}",
        '{"tocsin_snapshot":1,"window":{"whole":true},"run":{"id":"r"},"events":[{"writer":1e400}]}',
    ],
    "log.jsonl": [DEEP_JSON, DEEP_LINE, json.dumps({"step": 10**400})[:-1] + ', "loss": ' + HUGE + "}"],
    "run.json": [DEEP_JSON, "[" * 100_000, HUGE, '{"version": 1, "config": "\\ud800"}', DEEP_LINE],
}
CASES = [(name, text) for name, texts in DOCUMENTS.items() for text in texts]


@pytest.mark.parametrize(("name", "text"), CASES, ids=[f"{name}-{at}" for at, (name, _) in enumerate(CASES)])
def test_no_file_ends_in_a_traceback(
    tocsin: Callable[..., Any], tmp_path: Path, name: str, text: str
) -> None:
    """Exit status 2 and one message that names the file."""
    file = tmp_path / name
    file.write_text(text, "utf-8")
    commands = {"rules.toml": ["rules", "apply", str(file)], "run.json": ["import", str(tmp_path)]}
    done = tocsin(*commands.get(name, ["diagnose", str(file)]))
    assert done.returncode == 2, done.stdout
    assert name in done.stderr
    assert "Traceback" not in done.stderr
