"""Remember what was imported, so that a log without an id of its run is the same run after it has grown.

One small file for each imported log, in ``~/.local/state/tocsin/imports``. Without it, a log that has not
changed is still recognized, by its content.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path

import msgspec

from ..importers import Source


class Mark(msgspec.Struct, frozen=True):
    """A run, and the number of bytes and the digest of the content that was imported."""

    run: str
    size: int
    digest: str


class Marks:
    """The marks of one user. Errors of the disk lose marks, and nothing else."""

    def __init__(self, folder: Path | None = None) -> None:
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        self._folder = folder or Path(state, "tocsin", "imports")

    def identify(self, source: Source) -> Mark:
        """Return the mark of ``source`` as it is now. Its run is the one that was imported before, if that
        is the beginning of it; else one derived from its id, or from its name and content.
        """
        if source.about.key:
            digest = _digest(f"{source.kind}\0{source.about.key}".encode())
            return Mark(digest.hexdigest(), 0, "")
        known, is_same, size = self._known(source.path), False, 0
        digest = _digest(source.path.name.encode("utf-8", "surrogateescape") + b"\0")
        for chunk in source.content():
            if known is not None and size < known.size <= size + len(chunk):
                part = digest.copy()
                part.update(chunk[: known.size - size])
                is_same = part.hexdigest() == known.digest
            digest.update(chunk)
            size += len(chunk)
        found = digest.hexdigest()
        return Mark(known.run if known is not None and is_same else found, size, found)

    def keep(self, source: Source, mark: Mark) -> None:
        """Remember the run of ``source``. Replaces the file as a whole."""
        if source.about.key:
            return
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._folder, delete=False) as file:
                file.write(msgspec.json.encode(mark))
            os.replace(file.name, self._place(source.path))

    def _known(self, path: Path) -> Mark | None:
        try:
            return msgspec.json.decode(self._place(path).read_bytes(), type=Mark)
        except (OSError, msgspec.DecodeError):
            return None

    def _place(self, path: Path) -> Path:
        name = _digest(os.fsencode(path.resolve())).hexdigest()
        return self._folder / f"{name}.json"


def _digest(data: bytes) -> hashlib.blake2b:
    return hashlib.blake2b(data, digest_size=10)
