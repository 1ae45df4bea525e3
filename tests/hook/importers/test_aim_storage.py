"""Keys and values of Aim's storage, as Aim 3.29 wrote them. ``tests/trackers`` reads whole repositories."""

from __future__ import annotations

import math
import sqlite3
import struct
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tocsin.importers import UnreadableSource
from tocsin.importers.aim_storage import key_of, path_of, value_of
from tocsin.importers.folder import runs_in
from tocsin.importers.trackers import aim

RUN = "26633831ad0e4ae59fe9856e"
STEP = (
    b"seqs\xfev2\xfechunks\xfe26633831ad0e4ae59fe9856e\xfe\xfeH\x07\xfcy\xc3\xdf\xaf5\xfeaccuracy\xfestep\xfe"
)


def test_a_key_is_a_path_of_names_and_numbers() -> None:
    """A number may hold the byte that ends a name."""
    context = int.from_bytes(b"H\x07\xfcy\xc3\xdf\xaf5", "big", signed=True)
    index = int.from_bytes(b"\x06\xc4\xfe%r\x86\xa3\x92", "big", signed=True)
    path = path_of(STEP + b"\xfe\x06\xc4\xfe%r\x86\xa3\x92\xfe")
    assert path == ("seqs", "v2", "chunks", RUN, context, "accuracy", "step", index)
    assert STEP.startswith(key_of("seqs", "v2", "chunks", RUN))


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"\x02\x14\0\0\0\0\0\0\0", 20),
        (b"\x02" + struct.pack("<q", -1), -1),
        (b"\x03\x9a\x99\x99\x99\x99\x99\xb9?", 0.1),
        (b"\x03" + struct.pack("<d", -math.inf), -math.inf),
        (b"\x01\x01", True),
        (b"\x04tiny \xf0\x9f\x94\xa5", "tiny 🔥"),
        (b"\x00", None),
        (b"\x06", None),
        (b"\x0faim.text", None),
        (b"", None),
    ],
)
def test_numbers_and_texts_are_read(data: bytes, value: Any) -> None:
    assert value_of(data) == value


@pytest.mark.parametrize("key", [b"seqs", b"seqs\xfechunks"])
def test_a_key_that_is_cut_off_is_an_error(key: bytes) -> None:
    with pytest.raises(ValueError, match="not found"):
        path_of(key)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """An Aim repository with one run whose database is damaged."""
    chunks = tmp_path / ".aim" / "seqs" / "chunks" / RUN
    chunks.mkdir(parents=True)
    with closing(sqlite3.connect(tmp_path / ".aim" / "run_metadata.sqlite")) as database:
        database.executescript(
            "CREATE TABLE experiment (id, name); CREATE TABLE tag (id, name);"
            "CREATE TABLE run_tag (run_id, tag_id);"
            "CREATE TABLE run (id, hash, name, experiment_id, created_at);"
            f"INSERT INTO run VALUES (1, '{RUN}', 'good', NULL, 0);"
        )
    return tmp_path


def test_without_its_package_the_reason_is_given(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aim, "find_spec", lambda _name: None)
    for root in (repository, repository / ".aim"):
        (run,) = runs_in(root)
        assert isinstance(run, UnreadableSource)
        assert "pip install aimrocks" in run.why
