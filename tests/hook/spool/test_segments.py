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
from tocsin.core.frames import EVENT, RECORDS, Frame
from tocsin.spool.segments import FORMAT, RETRY_S, Header, Spool, default_dir, find_spools, read_header

WRITER = protocol.WriterId("a", 0, "b", 1, 1)
HELLO = protocol.Hello(1, "tk", "p", "n", "r", WRITER, 1, "h", 0)
HEADER = Header(FORMAT, "http://lab:1", HELLO)
FRAMES = [
    Frame(RECORDS, 0, 3, b"abc"),
    Frame(EVENT, 0, 1, b""),
    Frame(RECORDS, 3, 512, bytes(range(256)) * 40),
]


def spool_in(root: Path, segment_bytes: int = 4 << 20) -> Spool:
    """A spool of its own writer."""
    return Spool(root, lambda: HEADER, segment_bytes=segment_bytes)


def all_of(spool: Spool) -> list[Frame]:
    """Everything in it from the start."""
    frames, cursor = [], spool.start
    while (found := spool.read(cursor)) is not None:
        frames.append(found[0])
        cursor = found[1]
    return frames


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


def test_frames_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    """Order, numbers and bytes, by the owner and by the process that adopts the spool."""
    spool = spool_in(tmp_path)
    assert all(spool.append(frame) for frame in FRAMES)
    assert all_of(spool) == FRAMES
    heir = recovered(abandon(spool))
    assert all_of(heir) == FRAMES
    assert heir.header.hello.writer == WRITER
    heir.close()


def test_the_header_holds_the_hello_without_the_token(tmp_path: Path) -> None:
    """Another process can deliver as this writer, with its own token."""
    spool = spool_in(tmp_path)
    spool.append(FRAMES[0])
    header = read_header(abandon(spool))
    assert (header.url, header.hello.token, header.hello.project) == ("http://lab:1", "", "p")


def test_files_are_private(tmp_path: Path) -> None:
    """Nobody else on the machine reads a run's spool."""
    spool = spool_in(tmp_path / "spools")
    spool.append(FRAMES[0])
    assert (tmp_path / "spools").stat().st_mode & 0o077 == 0
    assert abandon(spool).stat().st_mode & 0o077 == 0


@given(cut=st.integers(0, 10_400))
def test_a_torn_tail_is_read_to_its_last_whole_entry(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    """Cut anywhere, as a power cut may: what is read is a beginning of what was written."""
    spool = spool_in(tmp_path_factory.mktemp("torn"))
    for frame in FRAMES:
        spool.append(frame)
    path = abandon(spool)
    os.truncate(path / "00000000.seg", min(cut, (path / "00000000.seg").stat().st_size))
    heir = recovered(path)
    frames = all_of(heir)
    heir.close()
    assert frames == FRAMES[: len(frames)]
    assert len(frames) == 3 or cut < 10_400


def test_a_damaged_entry_costs_its_segment_only(tmp_path: Path) -> None:
    """A flipped bit is noticed by the checksum; the next segment is read again."""
    spool = spool_in(tmp_path, segment_bytes=30)
    for frame in FRAMES[:2] * 2:
        spool.append(frame)
    path = abandon(spool)
    segment = path / "00000000.seg"
    segment.write_bytes(segment.read_bytes()[:-1] + b"X")
    heir = recovered(path)
    assert all_of(heir) == [FRAMES[1], FRAMES[0], FRAMES[1]]
    assert heir.torn_bytes > 0
    heir.close()


def test_acknowledged_segments_are_deleted(tmp_path: Path) -> None:
    """All but the newest go when everything in them is acknowledged, and the bytes are given back."""
    spool = spool_in(tmp_path, segment_bytes=100)
    for seq in range(10):
        spool.append(Frame(RECORDS, seq, 1, b"x" * 60))
    full = spool.bytes
    spool.release(4, -1)
    assert [frame.first for frame in all_of(spool)] == [5, 6, 7, 8, 9]
    spool.release(9, -1)
    assert [frame.first for frame in all_of(spool)] == [9]
    assert spool.bytes == full // 10
    spool.delete()
    assert list(tmp_path.iterdir()) == []


def test_an_unacknowledged_event_keeps_its_segment(tmp_path: Path) -> None:
    """Records and events are acknowledged apart."""
    spool = spool_in(tmp_path, segment_bytes=1)
    for frame in FRAMES:
        spool.append(frame)
    spool.release(600, -1)
    assert all_of(spool)[0] == FRAMES[1]
    spool.close()


def test_above_its_limit_a_spool_takes_nothing_until_room_is_given(tmp_path: Path) -> None:
    """Nothing kept is thrown away; after an ack, and a while, it takes again."""
    now = [0.0]
    spool = Spool(tmp_path, lambda: HEADER, segment_bytes=100, limit_bytes=200, clock=lambda: now[0])
    taken = [spool.append(Frame(RECORDS, seq, 1, b"x" * 60)) for seq in range(4)]
    assert taken == [True, True, False, False]
    assert "limit of 200 bytes" in (spool.error or "")
    spool.release(1, -1)
    assert not spool.append(Frame(RECORDS, 2, 1, b"x" * 60))
    now[0] = RETRY_S
    assert spool.append(Frame(RECORDS, 2, 1, b"x" * 60))
    assert spool.error is None
    spool.close()


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from tests.hook.spool.test_segments import HEADER, Frame, RECORDS, Spool, all_of
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
now = [0.0]
spool = Spool(Path(sys.argv[1]), lambda: HEADER, clock=lambda: now[0])
assert spool.append(Frame(RECORDS, 0, 1, b"x" * 700))
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
assert not spool.append(Frame(RECORDS, 1, 1, b"y" * 700)), "there was room"
print(spool.error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
now[0] = 10.0
assert spool.append(Frame(RECORDS, 1, 1, b"z" * 700))
assert [frame.body[:1] for frame in all_of(spool)] == [b"x", b"z"]
"""


def test_a_disk_that_fills_up_in_the_middle_of_an_entry_leaves_no_torn_one(tmp_path: Path) -> None:
    """A partial write is undone; once there is space again, writing continues after the last record."""
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "File too large" in done.stdout


def test_a_spool_whose_owner_lives_is_not_adopted(tmp_path: Path) -> None:
    """The file lock shows it, and is released when the process ends for any reason."""
    spool = spool_in(tmp_path)
    spool.append(FRAMES[0])
    (path,) = find_spools(tmp_path)
    assert Spool.recover(path) is None
    abandon(spool)
    recovered(path).close()


def test_only_one_process_takes_over_a_spool(tmp_path: Path) -> None:
    """Eight ranks start at once and find the same abandoned spool: one of them takes it."""
    spool = spool_in(tmp_path)
    spool.append(FRAMES[0])
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
