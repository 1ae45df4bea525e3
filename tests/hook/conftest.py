"""Fixtures of the hook's tests. Runs that a failing test left active are finished."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hook.ingest_server import IngestServer
from tests.hook.trainers import TOKEN, logs_of
from tocsin.core.process_state import active_runs


@pytest.fixture(autouse=True)
def _no_leftover_runs() -> Iterator[None]:
    yield
    for run in tuple(active_runs):
        run.finish()


@pytest.fixture(autouse=True)
def _no_leftover_clip() -> Iterator[None]:
    """Forget a clip in a compiled function: the next run of the process would compute no norms."""
    yield
    compiler = sys.modules.get("tocsin.capture.compiler")
    if compiler is not None:
        compiler.traced.clipped = False


@pytest.fixture(autouse=True)
def _no_leftover_buffers(tmp_path: Path) -> Iterator[None]:
    """Delete the spools that a test leaves behind, and their ring buffers in shared memory."""
    yield
    for buffer in logs_of(tmp_path):
        buffer.unlink(missing_ok=True)


@pytest.fixture
def server() -> Iterator[IngestServer]:
    """A started server on loopback."""
    server = IngestServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    """Directory for the spools of this test."""
    return tmp_path / "spool"


@pytest.fixture
def strict_server(server: IngestServer, monkeypatch: pytest.MonkeyPatch, spool: Path) -> IngestServer:
    """A server that accepts only TOKEN, and an environment without settings other than the spool
    directory."""
    for name in ("TOCSIN_URL", "TOCSIN_TOKEN", "TOCSIN_DISABLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TOCSIN_SPOOL_DIR", str(spool))
    server.token = TOKEN
    return server
