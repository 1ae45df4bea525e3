"""The checkpoints of this process: reported when they were written, watched until they are gone.

A checkpoint is reported on the thread that saved it. Whether it still exists is checked by the thread that
reads system metrics, because a file system may hang: a checkpoint that was renamed is found in its folder, a
deleted one is reported once. Nothing is read from a checkpoint.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any, NamedTuple

from ..core.paths import escaped, shortened

SAVED, GONE, MOVED = "checkpoint", "checkpoint-removed", "checkpoint-moved"
"""Kinds of events."""
WATCHED = 64
"""Maximum number of checkpoints whose existence is checked; the oldest are dropped."""
SETTLE_S, EVERY_S = 10.0, 10.0
"""A new checkpoint is checked every second for ``SETTLE_S``, because scripts rename it. Later, all are
checked every ``EVERY_S``."""
ENTRIES = 4096
"""Maximum number of directory entries that are read to find a renamed checkpoint or the size of a folder."""
LAST_LOOK_S = 0.5
"""Maximum time of the last check, at the end of the run."""


class Saved(NamedTuple):
    """A checkpoint that exists as far as this process knows."""

    path: str
    step: int | None
    data: dict[str, Any]
    """Data of its event."""
    identity: tuple[int, int, int, int] | None
    """Device, inode, modification time and size after saving; None for a directory."""
    device: int
    at: float


class CheckpointWatch:
    """Report and watch the checkpoints that this process saves."""

    def __init__(self, reporter: Any) -> None:
        self._reporter = reporter
        self.rank = 0
        self._thread = threading.get_ident()
        self._known: dict[str, Saved] = {}
        self._looked = 0.0
        self.step: Callable[[], int | None] = lambda: None
        """Return the newest step, whose update a checkpoint that is saved now contains."""

    def began(self, path: str, *, is_folder: bool) -> None:
        """Report that a known checkpoint is being overwritten: until it is complete, it must not be used."""
        saved = self._known.get(path)
        if saved is not None and saved.identity is not None:
            self._check(saved)  # scripts save under one temporary name and rename the file each time
            saved = self._known.get(path)
        if saved is not None and self._reports(is_folder):
            self._put(SAVED, {**saved.data, "complete": False, "size": None}, self.step())

    def saved(
        self,
        path: str,
        *,
        by: str,
        holds: Iterable[str] = (),
        is_folder: bool = False,
        is_complete: bool = True,
        step: int | None = None,
        took_s: float | None = None,
    ) -> None:
        """Report a checkpoint that was written.

        Args:
            path: The file or directory, absolute or a URL.
            by: The function that saved it.
            holds: ``model`` and ``optimizer``, as far as known.
            is_folder: Whether it is a directory that all ranks write together; only rank 0 reports it.
            is_complete: Whether it was written without an error.
            step: The newest step whose update it contains; default: the current one.
            took_s: Duration of the save.
        """
        if not self._reports(is_folder):
            return
        text = self._reporter.redact.text(escaped(path))
        data: dict[str, Any] = {
            "path": shortened(text),
            "size": None,
            "complete": is_complete,
            "by": by,
            "holds": sorted(holds),
        }
        if text != path:
            data["escaped"] = True
        if data["path"] != text:
            data["cut"] = True
        if took_s is not None:
            data["took_s"] = round(took_s, 3)
        step = self.step() if step is None else step
        saved = self._stat(path, step, data)
        self._put(SAVED, data, step)
        if saved is not None:
            self._known.pop(path, None)
            self._known[path] = saved
            while len(self._known) > WATCHED:
                self._known.pop(next(iter(self._known)))

    def sample(self, now: float) -> None:
        """Check which checkpoints still exist, if it is time to. Called every second by the sampler's thread.

        Args:
            now: ``time.monotonic()``.
        """
        try:
            self._sample(now)
        except Exception as error:
            self._reporter.report_error("checkpoint", error)

    def _sample(self, now: float) -> None:
        known = list(self._known.values())
        is_due = now - self._looked >= EVERY_S
        if is_due:
            self._looked = now
        for saved in known:
            if is_due or now - saved.at < SETTLE_S:
                self._check(saved)

    def last_look(self) -> None:
        """Check once more at the end of the run, for at most ``LAST_LOOK_S``."""
        if not self._known:
            return
        self._looked = 0.0
        thread = threading.Thread(target=self.sample, args=(monotonic() + EVERY_S,), daemon=True)
        thread.start()
        thread.join(LAST_LOOK_S)

    def _reports(self, is_folder: bool) -> bool:
        return not (is_folder and self.rank)

    def _put(self, kind: str, data: dict[str, Any], step: int | None) -> None:
        reporter = self._reporter
        step = None if step is None else max(step, 0)
        if threading.get_ident() == self._thread:
            reporter.put_event(kind, data, step)
        else:
            reporter.add_event_later(kind, data, step)

    def _stat(self, path: str, step: int | None, data: dict[str, Any]) -> Saved | None:
        """Return what to watch, and set the size of a file; None if nothing can be watched."""
        if "://" in path:
            return None
        try:
            found = os.stat(path)
        except (OSError, ValueError):
            return None
        identity = None
        if not stat.S_ISDIR(found.st_mode):
            data["size"] = found.st_size
            identity = found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size
        return Saved(path, step, data, identity, found.st_dev, monotonic())

    def _check(self, saved: Saved) -> None:
        """Report a folder's size once, and a checkpoint that was renamed or deleted."""
        try:
            os.stat(saved.path)
        except FileNotFoundError:
            if self._known.get(saved.path) is saved and _is_mounted(saved):
                self._missing(saved)
            return
        except (OSError, ValueError):
            return
        if saved.identity is None and saved.data["size"] is None and saved.data["complete"]:
            data = {**saved.data, "size": _size_of(saved.path)}
            if self._known.get(saved.path) is saved:
                self._known[saved.path] = saved._replace(data=data)
                self._put(SAVED, data, saved.step)

    def _missing(self, saved: Saved) -> None:
        self._known.pop(saved.path, None)
        found = _renamed(saved)
        if found is None:
            self._put(GONE, {"path": saved.data["path"]}, None)
            return
        text = self._reporter.redact.text(escaped(found))
        data = {**saved.data, "path": shortened(text)}
        data.pop("escaped", None)
        data.pop("cut", None)
        marks = {"escaped": text != found, "cut": data["path"] != text}
        data |= {name: True for name, holds in marks.items() if holds}
        self._put(MOVED, {"from": saved.data["path"], **data}, saved.step)
        self._known[found] = saved._replace(path=found, data=data)


def path_of(target: Any) -> str | None:
    """Return the absolute path of a path, a URL or an open file, or None if it has none."""
    name = getattr(target, "name", None) if hasattr(target, "write") else target
    if not isinstance(name, (str, bytes, os.PathLike)) or not name:
        return None
    path = os.fsdecode(os.fspath(name))
    return path if "://" in path else os.path.abspath(path)


def _is_mounted(saved: Saved) -> bool:
    """Return whether the file system of a missing checkpoint is still there: then it was deleted."""
    folder = os.path.dirname(saved.path)
    while True:
        try:
            return os.stat(folder).st_dev == saved.device
        except FileNotFoundError:
            folder, last = os.path.dirname(folder), folder
            if folder == last:
                return False
        except (OSError, ValueError):
            return False


def _renamed(saved: Saved) -> str | None:
    """Return the new path of a checkpoint that was renamed within its directory."""
    if saved.identity is None:
        return None
    folder = os.path.dirname(saved.path)
    try:
        with os.scandir(folder) as entries:
            for _, entry in zip(range(ENTRIES), entries, strict=False):
                if entry.inode() == saved.identity[1]:
                    found = entry.stat(follow_symlinks=False)
                    if (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size) == saved.identity:
                        return os.path.join(folder, entry.name)
    except OSError:
        pass
    return None


def _size_of(folder: str) -> int | None:
    """Return the bytes of the files in a directory, or None if it holds too many or is changing."""
    total, left, waiting = 0, ENTRIES, [folder]
    try:
        while waiting:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    left -= 1
                    if not left:
                        return None
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        total += entry.stat(follow_symlinks=False).st_size
    except OSError:
        return None
    return total
