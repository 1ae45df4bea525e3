"""Small logs in the shapes of real ones, written for these tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tocsin.importers import Fact, Item, Log, LogRecord, open_log

Written = Callable[..., Log]


def records(items: list[Item]) -> list[LogRecord]:
    """Return the records among ``items``."""
    return [item for item in items if isinstance(item, LogRecord)]


def facts(items: list[Item], kind: str) -> list[Fact]:
    """Return the facts of one kind among ``items``."""
    return [item for item in items if isinstance(item, Fact) and item.kind == kind]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Return a function that writes a log and opens it: ``written("train.log", text)``."""

    def write(name: str, content: str | bytes) -> Log:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return open_log(path)

    return write


@pytest.fixture
def steps_of(written: Written) -> Callable[..., list[tuple[int, dict[str, float]]]]:
    """Return a function that writes a log and returns (step, values) of every record."""

    def read(name: str, content: str | bytes) -> list[tuple[int, dict[str, float]]]:
        return [(record.step, record.values) for record in records(list(written(name, content).items()))]

    return read
