"""Segments on a real disk: what is written is read back, whatever happened to the process or the disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin import protocol
from tocsin.spool.segments import FORMAT, RETRY_S, Header, Spool, default_dir, find_spools, read_header

WRITER = protocol.WriterId("a", 0, "b", 1, 1)
HELLO = protocol.Hello(1, "tk", "p", "n", "r", WRITER, 1, "h", 0)
HEADER = Header(FORMAT, "http://lab:1", HELLO)
PIECES = [(1, b"abc"), (1, b""), (2, bytes(range(256)) * 40)]
"""Blocks, and what is appended to them."""


def spool_in(root: Path) -> Spool:
    """A spool of its own writer."""
    return Spool(root, lambda: HEADER)


def fill(spool: Spool) -> None:
    """Append all pieces."""
    assert all(spool.append(block, memoryview(piece)) for block, piece in PIECES)


def all_of(spool: Spool) -> dict[int, bytes]:
    """Everything in it."""
    return {block: spool.load(block) for block in sorted(spool.numbers)}


def abandon(spool: Spool) -> Path:
    """The owner dies: its descriptors are closed, its files stay."""
    assert spool.path is not None
    spool.close()
    return spool.path


def recovered(path: Path) -> Spool:
    """The spool at ``path``, whose owner is dead."""
    spool = Spool.recover(path)
    assert spool is not None
    return spool


def test_blocks_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    """Numbers and bytes, by the owner and by the process that adopts the spool."""
    spool = spool_in(tmp_path)
    fill(spool)
    assert all_of(spool) == {1: b"abc", 2: PIECES[2][1]}
    heir = recovered(abandon(spool))
    assert all_of(heir) == {1: b"abc", 2: PIECES[2][1]}
    assert heir.header.hello.writer == WRITER
    assert heir.size == sum(file.stat().st_size for file in tmp_path.glob("*/*.seg"))
    heir.close()


def test_the_header_holds_the_hello_without_the_token(tmp_path: Path) -> None:
    """Another process can deliver as this writer, with its own token."""
    spool = spool_in(tmp_path)
    fill(spool)
    header = read_header(abandon(spool))
    assert (header.url, header.hello.token, header.hello.project) == ("http://lab:1", "", "p")


def test_files_are_private(tmp_path: Path) -> None:
    """Nobody else on the machine reads a run's spool."""
    spool = spool_in(tmp_path / "spools")
    fill(spool)
    assert (tmp_path / "spools").stat().st_mode & 0o077 == 0
    assert abandon(spool).stat().st_mode & 0o077 == 0


@given(cut=st.integers(0, 400))
def test_a_torn_tail_is_read_to_its_last_whole_piece(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    """Cut anywhere, as a power cut may: what is read is a beginning of what was written."""
    spool = spool_in(tmp_path_factory.mktemp("torn"))
    for _ in range(4):
        spool.append(7, memoryview(b"x" * 92))
    path = abandon(spool)
    os.truncate(path / "00000007.seg", cut)
    heir = recovered(path)
    assert heir.load(7) == b"x" * 92 * (cut // 100)
    assert heir.torn_bytes == cut % 100
    heir.close()


def test_a_damaged_piece_costs_the_rest_of_its_block_only(tmp_path: Path) -> None:
    """A flipped bit is noticed by the checksum; the next block is read again."""
    spool = spool_in(tmp_path)
    fill(spool)
    path = abandon(spool)
    segment = path / "00000001.seg"
    data = segment.read_bytes()
    segment.write_bytes(data[:8] + b"X" + data[9:])
    heir = recovered(path)
    assert all_of(heir) == {1: b"", 2: PIECES[2][1]}
    assert heir.torn_bytes > 0
    heir.close()


def test_dropped_blocks_are_deleted(tmp_path: Path) -> None:
    """Their bytes are given back; deleting the spool leaves nothing."""
    spool = spool_in(tmp_path)
    fill(spool)
    spool.drop(2)
    spool.drop(2)
    assert all_of(spool) == {1: b"abc"}
    assert spool.size == 2 * 8 + 3
    spool.drop(1)
    assert (spool.size, list(tmp_path.glob("*/*.seg"))) == (0, [])
    spool.delete()
    assert list(tmp_path.iterdir()) == []


def test_above_its_limit_a_spool_takes_nothing_until_room_is_given(tmp_path: Path) -> None:
    """Nothing kept is thrown away; after an ack, and a while, it takes again."""
    now = [0.0]
    spool = Spool(tmp_path, lambda: HEADER, limit_bytes=200, clock=lambda: now[0])
    piece = memoryview(b"x" * 60)
    assert [spool.append(block, piece) for block in range(4)] == [True, True, False, False]
    assert "limit of 200 bytes" in (spool.error or "")
    spool.drop(0)
    assert not spool.append(2, piece)
    now[0] = RETRY_S
    assert spool.append(2, piece)
    assert spool.error is None
    spool.close()


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from tests.hook.spool.test_segments import HEADER, Spool, all_of
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
now = [0.0]
spool = Spool(Path(sys.argv[1]), lambda: HEADER, clock=lambda: now[0])
assert spool.append(1, memoryview(b"x" * 700))
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
assert not spool.append(1, memoryview(b"y" * 700)), "there was room"
print(spool.error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
now[0] = 10.0
assert spool.append(1, memoryview(b"z" * 700))
assert all_of(spool) == {1: b"x" * 700 + b"z" * 700}
"""


def test_a_disk_that_fills_up_in_the_middle_of_a_piece_leaves_no_torn_one(tmp_path: Path) -> None:
    """A partial write is undone; once there is space again, writing continues after the last piece."""
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "File too large" in done.stdout


def test_a_spool_whose_owner_lives_is_not_adopted(tmp_path: Path) -> None:
    """The file lock shows it, and is released when the process ends for any reason."""
    spool = spool_in(tmp_path)
    fill(spool)
    (path,) = find_spools(tmp_path)
    assert Spool.recover(path) is None
    abandon(spool)
    recovered(path).close()


def test_only_one_process_takes_over_a_spool(tmp_path: Path) -> None:
    """Eight ranks start at once and find the same abandoned spool: one of them takes it."""
    spool = spool_in(tmp_path)
    fill(spool)
    path = abandon(spool)
    first = recovered(path)
    assert Spool.recover(path) is None
    first.delete()
    assert Spool.recover(path) is None


def test_what_is_not_a_spool_is_left_alone(tmp_path: Path) -> None:
    """Foreign files, half-made spools and formats of the future are neither adopted nor deleted."""
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "half").mkdir()
    (tmp_path / "future").mkdir()
    (tmp_path / "future" / "lock").touch()
    (tmp_path / "future" / "header").write_bytes(b"\x00future")
    assert [Spool.recover(path) for path in find_spools(tmp_path)] == [None]
    assert len(list(tmp_path.iterdir())) == 3


def test_the_place_of_spools_can_be_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """``TOCSIN_SPOOL_DIR`` comes first; without it, a directory of this user alone."""
    monkeypatch.setenv("TOCSIN_SPOOL_DIR", str(tmp_path))
    assert default_dir() == tmp_path
    monkeypatch.delenv("TOCSIN_SPOOL_DIR")
    assert default_dir().name == f"tocsin-{os.getuid()}"


def test_a_folder_that_cannot_be_reached_is_not_deleted(tmp_path: Path) -> None:
    """Such as one on a network's file system that fails for a moment: its records are not lost."""
    spool = spool_in(tmp_path / "mount" / "spool")
    fill(spool)
    (tmp_path / "mount").rename(tmp_path / "away")
    assert spool.is_deleted
    (tmp_path / "mount").symlink_to("mount")  # a loop, which is another error
    assert not spool.is_deleted
