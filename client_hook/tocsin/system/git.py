"""Read commit, branch and uncommitted changes with the ``git`` command, in bounded time.

Called by the sender's threads only. Nothing in the repository is written, no hook or filter of a diff is run,
and nothing is fetched. Without ``git``, outside a repository or if it takes too long, there is no result, or
only what was known in time.
"""

from __future__ import annotations

import hashlib
import os
import select
import signal
import subprocess
from collections.abc import Iterable, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any

LIMIT_S = 0.2
"""Longest time that git may take, in sum over all commands."""
DIFF_BYTES = 8 << 20
"""Maximum bytes of changes that are read for the digest."""
SENT_BYTES = 24 << 10
"""Maximum bytes of changes that are sent."""
LOOK_S = 0.02
KILLED_S = 0.5
"""Longest time to wait for a killed command; one that hangs in its file system ends later, or never."""
_CHUNK = 1 << 16
_QUIET = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C"}
_BASE = ("git", "--no-pager", "-c", "core.fsmonitor=false")
_DIFF = ("diff", "HEAD", "--no-color", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty")


def read(folders: Iterable[str], *, diff: bool = False, limit_s: float = LIMIT_S) -> dict[str, Any] | None:
    """Return the state of the repository of the first folder that is in one, or None.

    Args:
        folders: The folder of the script, then the working directory.
        diff: Whether to return the uncommitted changes themselves.
        limit_s: Longest time, s.

    Returns:
        ``commit``; ``branch`` unless HEAD is detached; ``dirty``: whether tracked files have uncommitted
        changes, None if that took too long; ``digest`` of those changes; with ``diff`` the first
        ``SENT_BYTES`` of them, and ``diff_cut`` if there are more.
    """
    ends = monotonic() + limit_s
    for folder in dict.fromkeys(folders):
        head, _ = _run(folder, ("rev-parse", "--show-toplevel", "HEAD", "--abbrev-ref", "HEAD"), ends)
        lines = (head or b"").decode("utf-8", "replace").splitlines()
        if len(lines) == 3:
            top, commit, branch = lines
            found: dict[str, Any] = {"commit": commit}
            if branch != "HEAD":
                found["branch"] = branch[:200]
            changes, is_complete = _run(top, _DIFF, ends)
            return {**found, **_changes(changes, is_complete, diff)}
        if monotonic() >= ends:
            return None
    return None


def _changes(changes: bytes | None, is_complete: bool, diff: bool) -> dict[str, Any]:
    """Describe uncommitted changes; None: they are unknown."""
    if changes is None or not (changes or is_complete):
        return {"dirty": None}
    if not changes:
        return {"dirty": False}
    found: dict[str, Any] = {"dirty": True}
    if is_complete or len(changes) >= DIFF_BYTES:
        found["digest"] = hashlib.blake2b(changes, digest_size=6).hexdigest()
    if diff:
        text, is_cut = changes[:SENT_BYTES], len(changes) > SENT_BYTES or not is_complete
        # Whole lines only, so that no secret is cut in two and no longer recognized.
        found["diff"] = (text[: text.rfind(b"\n") + 1] if is_cut else text).decode("utf-8", "replace")
        if is_cut:
            found["diff_cut"] = True
    return found


def _run(folder: str, arguments: Sequence[str], ends: float) -> tuple[bytes | None, bool]:
    """Return the output of a git command, and whether it is complete; None if the command failed."""
    try:
        process = subprocess.Popen(  # noqa: S603 - a fixed command without a shell
            (*_BASE, *arguments),
            cwd=folder,
            env={**os.environ, **_QUIET},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError, RuntimeError):
        return None, False
    try:
        return _output(process, ends)
    except (OSError, ValueError):
        return None, False
    finally:
        _end(process)


def _output(process: subprocess.Popen[bytes], ends: float) -> tuple[bytes | None, bool]:
    """Read until the end of the output, the limit of bytes, or the deadline."""
    assert process.stdout is not None
    pipe, parts, size = process.stdout.fileno(), list[bytes](), 0
    while size < DIFF_BYTES and (left := ends - monotonic()) > 0:
        if select.select([pipe], [], [], min(left, LOOK_S))[0]:
            part = os.read(pipe, _CHUNK)
            if not part:
                with suppress(subprocess.TimeoutExpired):
                    is_over = process.wait(max(ends - monotonic(), 0.0)) == 0
                    return (b"".join(parts), True) if is_over else (None, False)
                break
            parts.append(part)
            size += len(part)
        elif process.poll() is not None:
            # A worker that was forked meanwhile holds the pipe, so that its end never comes.
            return (b"".join(parts), True) if process.returncode == 0 else (None, False)
    return b"".join(parts), False


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the command and its children if they still run; wait a little, for a file system may hang."""
    if process.stdout is not None:
        process.stdout.close()
    if process.poll() is None:
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(KILLED_S)
