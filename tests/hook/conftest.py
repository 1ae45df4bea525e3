"""Runs that a failing test left behind end here, so that it spoils no other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hook.ingest_server import IngestServer
from tests.hook.trainers import TOKEN, buffers_of
from tocsin.core.process_state import active_runs


@pytest.fixture(autouse=True)
def _no_leftover_runs() -> Iterator[None]:
    yield
    for run in tuple(active_runs):
        run.finish()


@pytest.fixture(autouse=True)
def _no_leftover_buffers(tmp_path: Path) -> Iterator[None]:
    """Spools that a test leaves lie in its own place; their rings in shared memory go with it."""
    yield
    for buffer in buffers_of(tmp_path):
        buffer.unlink(missing_ok=True)


@pytest.fixture
def server() -> Iterator[IngestServer]:
    """A server on loopback that has started."""
    server = IngestServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    """Where spools of this test lie."""
    return tmp_path / "spool"


@pytest.fixture
def strict_server(server: IngestServer, monkeypatch: pytest.MonkeyPatch, spool: Path) -> IngestServer:
    """A server that takes TOKEN only, and an environment without settings but for where spools lie."""
    for name in ("TOCSIN_URL", "TOCSIN_TOKEN", "TOCSIN_DISABLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TOCSIN_SPOOL_DIR", str(spool))
    server.token = TOKEN
    return server
